// What waits to be sent on a connection: two queues of whole frames, each one contiguous piece of memory.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "schedule.hpp"

namespace tidewire {

struct FreeBytes {
  std::size_t mapped = 0;  // if the memory is not the allocator's
  void operator()(char* memory) const;
};

// Bytes that go in behind and out in front.
class ByteQueue {
 public:
  std::size_t size() const { return tail_ - head_; }
  bool empty() const { return head_ == tail_; }
  const char* data() const { return memory_.get() + head_; }
  std::size_t bytes() const { return capacity_; }

  // Room for so many bytes behind the last one; `grow` then makes them part of the queue.
  char* room(std::size_t count) {
    if (capacity_ - tail_ < count) [[unlikely]] make_room(count);
    return memory_.get() + tail_;
  }
  void grow(std::size_t count) { tail_ += count; }
  void push(const char* from, std::size_t count) {
    if (count == 0) return;
    std::memcpy(room(count), from, count);
    tail_ += count;
  }
  void push(std::string_view bytes) { push(bytes.data(), bytes.size()); }
  void pop(std::size_t count) {
    head_ += count;
    if (head_ == tail_) reset();
  }
  void clear() { pop(size()); }

  // Give the memory back, if there is nothing in it.
  void release();

 protected:
  void reset();

  std::unique_ptr<char, FreeBytes> memory_;
  std::size_t head_ = 0, tail_ = 0, capacity_ = 0;

 private:
  void make_room(std::size_t count);
  void move_to_front();
  void map(std::size_t capacity);
};

// A byte queue that knows where its frames begin. The first one may be sent in part.
class FrameQueue : public ByteQueue {
 public:
  void pop(std::size_t count);
  void clear() { pop(size()); }

  // How many bytes are left of a frame whose first bytes are gone; 0: none is begun.
  std::size_t begun() const { return begun_; }

  // What is left of the first frame goes behind all of another queue.
  void move_first(FrameQueue& to);
  std::size_t first_size() const { return begun_ > 0 ? begun_ : frame_size(data()); }

  // Throws away the oldest frames with events until at most so many bytes are left, or no such frame; how many?
  u64 drop_events(std::size_t bytes_left);

 private:
  std::size_t begun_ = 0;
};

// A stream on a connection; `again`: what is told anew, for those who lack it.
struct FlowName {
  u64 pubend = 0;
  bool again = false;
  bool operator==(const FlowName&) const = default;
};

// The queues of a connection. Control goes first, but never into a frame that is begun. While streams wait, data and they
// take turns, each by its own queue, by way of a short stretch that is in order (dataplane/reference_queue.py). While data
// has deadlines, it goes there by way of a schedule.
class Outbox {
 public:
  static constexpr std::size_t kStagedBytes = 64u << 10;
  // With deadlines: what is in order no longer gives way to what is more urgent, so it is little.
  static constexpr std::size_t kUrgentBytes = 16u << 10;

  FrameQueue control, data;
  bool has_deadlines = false;  // some event in `data` has one
  u64 expired = 0;             // events that were thrown away because they were past it

  std::size_t size() const { return control.size() + data_bytes() + stream_bytes_; }
  bool empty() const {
    return control.empty() && data.empty() && staged_.empty() && flows_.empty() && scheduled_bytes() == 0;
  }
  std::size_t bytes() const;
  std::size_t data_bytes() const { return data.size() + staged_.size() + scheduled_bytes(); }
  bool is_scheduled() const { return has_deadlines || scheduled_bytes() > 0; }
  std::size_t stream_bytes() const { return stream_bytes_; }

  // Is there room in this stream's queue? All have one bound, and each one its share of it for sure.
  bool fits(FlowName flow, std::size_t frame, std::size_t bytes_max) const;
  // Memory for a frame behind the others of its stream.
  char* push(FlowName flow, std::size_t frame);

  // What is to be sent next, in order, though not always all of it; `sent` takes that many bytes away. Of streams about
  // `most` are put in order: what comes later still has its turn ahead of the rest. So it is with deadlines, as of `now`;
  // nullopt: nobody has had to wait, so what has come goes as it came.
  struct Pieces {
    std::string_view piece[3];
    u32 count = 0;
    std::size_t bytes() const { return piece[0].size() + piece[1].size() + piece[2].size(); }
  };
  Pieces next(std::size_t most, std::optional<i64> now);
  void sent(std::size_t count);
  void clear();
  u64 drop_events(std::size_t bytes_left);
  // What is past its deadline goes, to make room.
  void expire(i64 now);

 private:
  struct Flow {
    explicit Flow(FlowName name_) : name(name_) {}
    FlowName name;
    FrameQueue frames;
    std::size_t deficit = 0;
  };

  Flow* find(FlowName flow) const;
  std::size_t scheduled_bytes() const { return schedule_ == nullptr ? 0 : schedule_->bytes(); }
  void put_in_order();
  bool has_urgent(std::optional<i64> now);
  void take_urgent();
  void stage(std::size_t most, std::optional<i64> now);
  std::size_t move(FrameQueue& from, std::size_t deficit);
  std::size_t move_urgent(std::size_t deficit, std::optional<i64> now);

  FrameQueue staged_;
  std::unique_ptr<Schedule> schedule_;  // where data is while it has deadlines
  std::vector<std::unique_ptr<Flow>> flows_;
  std::deque<Flow*> turns_{nullptr};  // who is next; nullptr: data
  std::size_t data_deficit_ = 0, stream_bytes_ = 0;
};

}  // namespace tidewire
