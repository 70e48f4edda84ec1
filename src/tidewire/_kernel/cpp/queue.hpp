// What waits to be sent on a connection: two queues of whole frames, each one contiguous piece of memory.
#pragma once

#include <memory>

#include "frame.hpp"

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

  // Throws away the oldest frames with events until at most so many bytes are left, or no such frame; how many?
  u64 drop_events(std::size_t bytes_left);

 private:
  std::size_t begun_ = 0;
};

// The two queues of a connection. Control goes first, but never into a frame that is begun.
class Outbox {
 public:
  FrameQueue control, data;

  std::size_t size() const { return control.size() + data.size(); }
  bool empty() const { return control.empty() && data.empty(); }
  std::size_t bytes() const { return control.bytes() + data.bytes(); }

  // What is to be sent next, in order; `sent` takes that many bytes away.
  struct Pieces {
    std::string_view piece[3];
    u32 count = 0;
  };
  Pieces next() const;
  void sent(std::size_t count);
};

}  // namespace tidewire
