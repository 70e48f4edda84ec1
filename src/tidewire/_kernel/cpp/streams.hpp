// What a broker knows of streams, of who lacks some of them, and of followers (dataplane/streams.py).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "frame.hpp"
#include "log.hpp"
#include "permit.hpp"
#include "routes.hpp"
#include "spans.hpp"

namespace tidewire {

inline constexpr u64 kNever = ~u64{0};              // behind every tick
inline constexpr u64 kTickMax = (u64{1} << 63) - 1;  // no pubend gives a later one (model/ticks.py)
inline constexpr u64 kTickMin = 1;                   // nor an earlier one
inline constexpr u32 kNoConnection = 0xFFFFFFFF;

// What a STREAM or RECOVER frame says of `first .. tick`.
enum class Span : u8 { kPlain = 0, kLost = 1, kLast = 2, kAnswer = 3 };

struct StreamHead {
  u64 tree = 0, pubend = 0;
  Span what = Span::kPlain;
  u64 first = 0, tick = 0;
  i64 born_ns = 0;
  u32 error_us = 0;

  // Can a STREAM frame say so, or a RECOVER frame?
  bool is_streamed(bool has_event) const { return first <= tick && is_known(Span::kAnswer, has_event); }
  bool is_recovered(bool has_event) const { return is_known(Span::kLast, has_event); }

 private:
  bool is_known(Span other, bool has_event) const {
    return tick <= kTickMax && (what == Span::kPlain || (what == Span::kLost && !has_event) || what == other);
  }
};

inline constexpr u32 kSpanBytes = 28, kStreamHead = 17, kRecoverHead = 5;  // behind the head of the frame
inline constexpr u32 kPromiseBytes = 16, kReceiptBytes = 16, kTakenBytes = 20;

// An event of a stream, stamped, with its time on our clock.
struct Told {
  std::string_view event;  // empty: there is none
  i64 born_ns = 0;
  u32 error_us = 0;
};

struct KeptEvent {
  std::string event;
  i64 born_ns;
  u32 error_us;
  Told told() const { return {event, born_ns, error_us}; }
};

// A neighbour that gets a stream from here.
struct StreamChild {
  u64 first = 0, end = 0;  // ticks that are silent for it, and of which it has not been told
  Spans curious;           // what it lacks and we do not know
};

struct Stream {
  Stream(u64 pubend_, bool is_hosted_) : pubend(pubend_), is_hosted(is_hosted_) {}

  u64 pubend;
  bool is_hosted;
  bool has_tree = false, is_attended = false, is_doubtful = false;
  u64 tree = 0;  // that it came by last
  u64 heard = 0, horizon = 0, ignored = 0;
  u64 sound = kNever;  // from here on silence holds for all routes that we have told
  u64 low = 0;         // what is below is forgotten
  Spans known, lost;
  std::map<u64, KeptEvent> events;
  std::size_t bytes = 0;
  std::map<u32, StreamChild> children;

  void keep(u64 tick, const Told& told);
  void forget(std::size_t bytes_max);
  void begin(u64 place);
  u64 cached() const;
  u64 most_heard() const { return heard > ignored ? heard : ignored; }
};

// Where a follower is in a stream.
struct Place {
  u64 next = 0, sound = 0;
  bool is_joined = false;
  u64 sent = 0, taken = 0, told = 0;

  u64 settled(const Stream* stream) const {
    if (taken < sent) return taken;
    return is_joined && stream != nullptr && (stream->is_attended || stream->is_hosted) ? stream->horizon : next;
  }
};

struct Follower {
  u32 conn, number, id;
  std::shared_ptr<Permit> wanted;  // its filter alone
  std::map<u64, Place> places;    // by pubend
};

// Something to be told again: to a neighbour that lacks it, or to one who is behind.
struct Job {
  u64 replay;
  u32 conn, number;
  u64 pubend, place, told, end = kNever;
  bool is_answer = false;
  bool is_late = false;           // an answer that has come, and found no room
  u64 tree = 0;                   // of an answer: as the routes of this tree want it
  std::shared_ptr<Permit> wanted{};  // of a replay: a filter alone is asked as a permit is
  i64 bytes_left = i64{1} << 62;
  std::size_t frame = 0;  // to a follower: what found no room
};

struct Limit {
  double rate, tokens;
  i64 at_ns;
};

// What has happened to streams during a call.
struct StreamNews {
  struct Replayed {
    u64 replay, place;
    bool is_over, is_joined;
  };
  struct Fallen {
    u32 conn, number;
    u64 pubend, place;
  };
  struct Lack {
    u32 conn, number;
    u64 pubend, first, last;
  };
  struct Unknown {  // a neighbour waits for it: it has to be asked for
    u64 tree, pubend, first, end;
  };
  std::vector<u64> doubtful;
  std::vector<Replayed> replayed;
  std::vector<Fallen> fallen;
  std::vector<Lack> lacks;
  std::vector<Unknown> unknown;

  bool empty() const {
    return doubtful.empty() && replayed.empty() && fallen.empty() && lacks.empty() && unknown.empty();
  }
  void forget_progress() { std::erase_if(replayed, [](const Replayed& one) { return !one.is_over; }); }
  void clear() {
    doubtful.clear();
    replayed.clear();
    fallen.clear();
    lacks.clear();
    unknown.clear();
  }
};

struct StreamState {
  u64 pubend;
  bool has_tree;
  u64 tree, heard;
  bool has_horizon;
  u64 horizon, cached, ignored, events;
  bool is_awaited;
  u64 released, kept_bytes;
};

inline void store_span(char* at, const StreamHead& head) {
  store(at, head.first);
  store(at + 8, head.tick);
  store(at + 16, head.born_ns);
  store(at + 24, head.error_us);
}

inline void load_span(const char* at, StreamHead& head) {
  head.first = load<u64>(at);
  head.tick = load<u64>(at + 8);
  head.born_ns = load<i64>(at + 16);
  head.error_us = load<u32>(at + 24);
}

}  // namespace tidewire
