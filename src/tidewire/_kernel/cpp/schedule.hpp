// What waits to be sent while some of it has a deadline: the earliest goes first, as far as order allows.
//
// The events of one publisher keep their order, and so do the guaranteed ones of one stream; nothing overtakes a message.
// So up to the first message the next one is, of the publisher whose earliest deadline is the earliest of all, the first
// event: what stands ahead of an event in its own line is as urgent as it is. Receipts go ahead of that. Without deadlines
// the oldest is next. It is the order of dataplane/reference_queue.py.
#pragma once

#include <limits>
#include <memory>
#include <unordered_map>
#include <vector>

#include "event.hpp"
#include "frame.hpp"

namespace tidewire {

class Schedule {
 public:
  Schedule() = default;
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;
  ~Schedule() { clear(); }

  bool empty() const { return oldest_ == nullptr; }
  std::size_t bytes() const { return bytes_; }    // that wait
  std::size_t memory() const;

  // Behind all others.
  void push(std::string_view frame);
  // The one that is next; only if it is not empty. It is there until `pop`.
  std::string_view next() const { return text(*first()); }
  void pop() { remove(first()); }

  // Best-effort events that are past their deadline go, for as long as one of them is the most urgent; how many did?
  u64 expire(i64 now);
  // The oldest events go until at most so many bytes are left; messages stay.
  u64 drop_events(std::size_t bytes_left);
  void clear();

 private:
  struct Line;
  struct Frame {
    Frame *older, *younger;       // of all
    Frame *ahead, *behind;        // in its line
    Line* line;                   // nullptr: behind a message
    i64 deadline_ns;
    u64 number;                   // of its arrival
    u32 urgent_at;                // where it stands among those with a deadline; kNowhere: it has none, or is not there
    u32 size;
    FrameKind kind;
    bool has_deadline, may_expire;
  };
  // What keeps its order: the events of a publisher, or of a stream.
  struct LineName {
    u64 of = 0;
    u8 what = 0;
    bool operator==(const LineName&) const = default;
  };
  struct Line {
    LineName name;
    Frame *first, *last;
  };
  struct Hash {
    std::size_t operator()(const LineName& name) const { return hash_u64(name.of, name.what); }
  };
  static constexpr u32 kNowhere = 0xFFFFFFFF;

  static char* bytes_of(Frame& frame) { return reinterpret_cast<char*>(&frame + 1); }
  static std::string_view text(const Frame& frame) { return {reinterpret_cast<const char*>(&frame + 1), frame.size}; }
  static bool is_ahead(const Frame& a, const Frame& b) {
    return a.deadline_ns != b.deadline_ns ? a.deadline_ns < b.deadline_ns : a.number < b.number;
  }
  static LineName describe(Frame& frame);
  Frame* first() const {
    if (oldest_->kind == FrameKind::kMessage || urgent_.empty()) return oldest_;
    return (receipts_ != nullptr ? receipts_ : urgent_.front()->line)->first;
  }
  void line_up(Frame* frame);
  void leave_line(Frame* frame);
  void remove(Frame* frame);
  void place(Frame* frame, std::size_t at);
  void rise(std::size_t at);
  void sink(std::size_t at);

  Frame *oldest_ = nullptr, *youngest_ = nullptr;
  std::unordered_map<LineName, Line, Hash> lines_;  // up to the first message
  std::vector<Frame*> urgent_;                      // a heap of those with a deadline up to there
  Line* receipts_ = nullptr;                        // those of them up to there
  u64 arrivals_ = 0, messages_ = 0;
  std::size_t bytes_ = 0, frames_ = 0;
};

// When an event is due that was born then and lives so long.
inline i64 deadline_of(i64 born_ns, i64 ttl_ns) {
  i64 sum = 0;
  if (!__builtin_add_overflow(born_ns, ttl_ns, &sum)) return sum;
  return ttl_ns > 0 ? std::numeric_limits<i64>::max() : std::numeric_limits<i64>::min();
}

}  // namespace tidewire
