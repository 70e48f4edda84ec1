#include "queue.hpp"

#include <algorithm>
#include <new>
#include <vector>

namespace tidewire {

namespace {

constexpr std::size_t kFirstBytes = 4096;
constexpr std::size_t kKeptBytes = 256u << 10;  // an empty queue gives back more than this

}  // namespace

void ByteQueue::make_room(std::size_t count) {
  const std::size_t used = size();
  if (head_ >= used / 2 && capacity_ - used >= count) {  // the move is paid by the bytes that have left
    std::memmove(memory_.get(), memory_.get() + head_, used);
  } else {
    const std::size_t capacity = std::max({kFirstBytes, used + count, used + used / 2});
    std::unique_ptr<char, Free> larger(static_cast<char*>(std::malloc(capacity)));
    if (larger == nullptr) throw std::bad_alloc();
    if (used > 0) std::memcpy(larger.get(), memory_.get() + head_, used);
    memory_ = std::move(larger);
    capacity_ = capacity;
  }
  head_ = 0;
  tail_ = used;
}

void ByteQueue::reset() {
  head_ = tail_ = 0;
  if (capacity_ <= kKeptBytes) return;
  memory_.reset();
  capacity_ = 0;
}

void FrameQueue::pop(std::size_t count) {
  if (count == size()) {  // a queue holds whole frames: nothing is left of the last one
    begun_ = 0;
  } else if (count < begun_) {
    begun_ -= count;
  } else {
    std::size_t at = begun_;
    while (at < count) at += frame_size(data() + at);
    begun_ = at - count;
  }
  ByteQueue::pop(count);
}

u64 FrameQueue::drop_events(std::size_t bytes_left) {
  u64 dropped = 0;
  std::size_t at = begun_, freed = 0;
  std::vector<std::string_view> kept;
  if (begun_ > 0) kept.emplace_back(data(), begun_);
  while (at < size() && size() - freed > bytes_left) {
    const std::string_view frame(data() + at, frame_size(data() + at));
    at += frame.size();
    if (frame_kind(frame.data()) == FrameKind::kMessage) {
      kept.push_back(frame);
      continue;
    }
    freed += frame.size();
    ++dropped;
  }
  // What is kept moves up to what was not looked at, the last piece first: it only moves backwards in the queue.
  char* to = memory_.get() + head_ + at;
  for (auto piece = kept.rbegin(); piece != kept.rend(); ++piece) {
    to -= piece->size();
    std::memmove(to, piece->data(), piece->size());
  }
  ByteQueue::pop(freed);
  return dropped;
}

Outbox::Pieces Outbox::next() const {
  Pieces found;
  const auto add = [&](const char* at, std::size_t size) {
    if (size > 0) found.piece[found.count++] = {at, size};
  };
  const std::size_t begun = data.begun();
  if (control.empty()) {
    add(data.data(), data.size());
    return found;
  }
  add(data.data(), begun);
  add(control.data(), control.size());
  add(data.data() + begun, data.size() - begun);
  return found;
}

void Outbox::sent(std::size_t count) {
  const auto take = [&](FrameQueue& from, std::size_t most) {
    const std::size_t taken = std::min(count, most);
    if (taken > 0) from.pop(taken);
    count -= taken;
  };
  take(data, data.begun());
  take(control, control.size());
  take(data, data.size());
}

}  // namespace tidewire
