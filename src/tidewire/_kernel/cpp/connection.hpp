// What the plane knows of a connection: what has come from it, what waits for it, and what it may do.
#pragma once

#include <algorithm>
#include <limits>

#include "permit.hpp"
#include "queue.hpp"
#include "tls.hpp"

namespace tidewire {

inline constexpr u32 kNobody = 0xFFFFFFFF;

enum class WhenFull : u8 { kWait, kDrop, kEnd };
enum class State : u8 { kIdle, kBusy, kBlocked, kBroken };

// Bytes that have come and are not yet handled: `kept` from earlier calls, then `fresh`, which are the caller's and are
// copied only if they must wait. No frame lies across the two.
class Intake {
 public:
  explicit Intake(u32 frame_bytes_max) : frame_bytes_max_(frame_bytes_max) {}

  void offer(std::string_view data);
  void keep();
  void forget();

  enum class Cut : u8 { kFrame, kIncomplete, kBadLength };
  // The frame that begins so many bytes behind the first one.
  Cut cut(std::size_t at, std::string_view& frame) const;
  void consume(std::size_t count);
  void widen(u32 frame_bytes_max) { frame_bytes_max_ = std::max(frame_bytes_max_, frame_bytes_max); }
  u32 frame_bytes_max() const { return frame_bytes_max_; }
  std::size_t bytes() const { return kept_.bytes(); }
  void release() { kept_.release(); }

 private:
  bool is_length(u32 length) const { return 0 < length && length <= frame_bytes_max_; }

  ByteQueue kept_;
  std::string_view fresh_;
  u32 frame_bytes_max_;
};

// Frames for this connection that are written somewhere else, for others too, until the end of the call.
struct Shared {
  std::size_t at, bytes;
};

// What has passed on a connection, or on all of them.
struct Traffic {
  u64 events_in = 0, bytes_in = 0, events_out = 0, bytes_out = 0, dropped = 0, queued_bytes = 0, stray = 0, damaged = 0,
      expired = 0;
};

struct Connection {
  Connection(u32 number_, bool is_link_, WhenFull when_full_, u64 queue_bytes_max_, u32 frame_bytes_max)
      : number(number_), is_link(is_link_), when_full(when_full_), queue_bytes_max(queue_bytes_max_), intake(frame_bytes_max) {}

  u32 number;
  bool is_link;
  WhenFull when_full;
  bool takes_events = true;   // false: it is overrun or has failed, and will be closed
  bool is_touched = false;    // it got something in this call
  bool was_empty = false;     // before that
  bool is_stalled = false;    // its socket is full: wait until it can be written
  bool is_watched = false;    // the caller waits for that
  bool has_waited = false;    // its socket was full, and not all has been sent since
  bool is_brief = false;      // the system keeps little of it: what is with the system gives way to nothing
  bool is_gathered = false;   // what it has is sent together with what else comes
  int fd = -1;
  std::unique_ptr<TlsLine> tls;  // nullptr: in clear
  u32 share = kNobody;        // of the batch at work
  u32 followers = 0;          // what is queued for them is never thrown away
  u64 queue_bytes_max;
  u64 frame_bytes_max = std::numeric_limits<u64>::max();  // a neighbour takes no longer frame
  Outbox out;
  std::vector<Shared> shared;  // behind what waits in `out`
  std::size_t shared_bytes = 0;
  Traffic traffic;             // but for queued_bytes and expired, which `out` knows
  u64 events_before = 0;       // in and out, when somebody last asked for the totals
  u64 dropped_before = 0;      // when somebody last asked who has lost events

  void sent_all() {
    out.clear();
    has_waited = false;
    shared.clear();
    shared_bytes = 0;
  }
  std::size_t queued_bytes() const { return out.size() + (tls == nullptr ? 0 : tls->unsent.size()); }
  std::size_t waiting_bytes() const { return out.data_bytes() + shared_bytes; }
  bool takes(std::size_t frame) const { return frame - kLengthBytes <= frame_bytes_max; }
  bool has_room(std::size_t frame) const {
    const std::size_t waiting = waiting_bytes();
    return waiting == 0 || waiting + frame <= queue_bytes_max;
  }

  State state = State::kIdle;
  Intake intake;
  std::string reason;  // why it is broken
  u32 blocked_by = 0;             // the connection without room
  std::size_t blocked_frame = 0;  // for a frame of this size
  u32 read_bytes = 64u << 10;
  bool has_read_all_it_may = false;  // so there may be more
  bool may_publish = false;
  u64 publisher = 0, next_sequence = 0;
  std::shared_ptr<Permit> permitted;  // its identity; nullptr: anything. Equal ones are one
  std::unique_ptr<Permit> advertised;  // nullptr: anything
  bool has_clock = false;
  i64 offset_ns = 0;
  u32 error_us = 0;
};

}  // namespace tidewire
