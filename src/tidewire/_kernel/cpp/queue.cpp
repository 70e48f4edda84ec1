#include "queue.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <vector>

namespace tidewire {

namespace {

constexpr std::size_t kFirstBytes = 4096;
constexpr std::size_t kQuantumBytes = 1u << 10;  // what a queue may send in its turn: on a thin link a round must be short
constexpr std::size_t kMappedBytes = 1u << 20, kPage = 4096;
constexpr std::size_t kKeptBytes = 768u << 10;  // an empty queue gives back more than this: three times what a read brings

}  // namespace

void FreeBytes::operator()(char* memory) const {
  if (mapped > 0) munmap(memory, mapped);
  else std::free(memory);
}

void ByteQueue::make_room(std::size_t count) {
  const std::size_t used = size();
  if (head_ >= used / 2 && capacity_ - used >= count) return move_to_front();  // paid by the bytes that have left
  const std::size_t capacity = std::max({kFirstBytes, used + count, used + used / 2});
  if (capacity >= kMappedBytes) return map((capacity + kPage - 1) / kPage * kPage);
  std::unique_ptr<char, FreeBytes> larger(static_cast<char*>(std::malloc(capacity)));
  if (larger == nullptr) throw std::bad_alloc();
  if (used > 0) std::memcpy(larger.get(), memory_.get() + head_, used);
  memory_ = std::move(larger);
  capacity_ = capacity;
  head_ = 0;
  tail_ = used;
}

void ByteQueue::move_to_front() {
  if (head_ > 0) std::memmove(memory_.get(), memory_.get() + head_, size());
  tail_ -= head_;
  head_ = 0;
}

// A long queue has pages of its own: it grows in its place, and gives them back at once.
void ByteQueue::map(std::size_t capacity) {
  move_to_front();
  const std::size_t mapped = memory_.get_deleter().mapped;
  void* larger = mapped > 0 ? mremap(memory_.get(), mapped, capacity, MREMAP_MAYMOVE)
                            : mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (larger == MAP_FAILED) throw std::bad_alloc();
  char* memory = static_cast<char*>(larger);
  if (mapped > 0) (void)memory_.release();
  else if (tail_ > 0) std::memcpy(memory, memory_.get(), tail_);
  memory_ = std::unique_ptr<char, FreeBytes>(memory, FreeBytes{capacity});
  capacity_ = capacity;
}

void ByteQueue::reset() {
  head_ = tail_ = 0;
  if (capacity_ > kKeptBytes) release();
}

void ByteQueue::release() {
  if (!empty()) return;
  memory_ = std::unique_ptr<char, FreeBytes>();  // with the deleter of no memory
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

void FrameQueue::move_first(FrameQueue& to) {
  const std::size_t size = first_size();
  if (begun_ > 0) to.begun_ = size;
  to.push(data(), size);
  pop(size);
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

std::size_t Outbox::bytes() const {
  std::size_t total = control.bytes() + data.bytes() + staged_.bytes() + (schedule_ == nullptr ? 0 : schedule_->memory());
  for (const auto& flow : flows_) total += flow->frames.bytes();
  return total;
}

Outbox::Flow* Outbox::find(FlowName name) const {
  for (const auto& flow : flows_)
    if (flow->name == name) return flow.get();
  return nullptr;
}

bool Outbox::fits(FlowName name, std::size_t frame, std::size_t bytes_max) const {
  const Flow* flow = find(name);
  if (flow == nullptr || stream_bytes_ + frame <= bytes_max) return true;
  return flow->frames.size() + frame <= bytes_max / flows_.size();
}

char* Outbox::push(FlowName name, std::size_t frame) {
  Flow* flow = find(name);
  if (flow == nullptr) {
    flow = flows_.emplace_back(std::make_unique<Flow>(name)).get();
    turns_.push_back(flow);
  }
  char* memory = flow->frames.room(frame);
  flow->frames.grow(frame);
  stream_bytes_ += frame;
  return memory;
}

std::size_t Outbox::move(FrameQueue& from, std::size_t deficit) {
  while (!from.empty() && from.first_size() <= deficit) {
    deficit -= from.first_size();
    from.move_first(staged_);
  }
  return from.empty() ? 0 : deficit;
}

// Where all that has deadlines, and what came before or behind it, is served from, until nothing of it is left.
void Outbox::put_in_order() {
  if (data.begun() > 0) data.move_first(staged_);  // nothing else is there then
  if (schedule_ == nullptr) schedule_ = std::make_unique<Schedule>();
  for (; !data.empty(); data.pop(data.first_size())) schedule_->push({data.data(), data.first_size()});
  has_deadlines = false;
}

void Outbox::expire(i64 now) {
  if (!is_scheduled()) return;
  put_in_order();
  expired += schedule_->expire(now);
}

u64 Outbox::drop_events(std::size_t bytes_left) {
  if (is_scheduled()) put_in_order();
  const std::size_t left = bytes_left > staged_.size() ? bytes_left - staged_.size() : 0;
  return scheduled_bytes() > 0 ? schedule_->drop_events(left) : data.drop_events(left);
}

// Is something left, once what is past its deadline has gone?
bool Outbox::has_urgent(std::optional<i64> now) {
  if (now) expired += schedule_->expire(*now);
  return !schedule_->empty();
}

void Outbox::take_urgent() {
  staged_.push(schedule_->next());
  schedule_->pop();
}

std::size_t Outbox::move_urgent(std::size_t deficit, std::optional<i64> now) {
  while (has_urgent(now) && schedule_->next().size() <= deficit) {
    deficit -= schedule_->next().size();
    take_urgent();
  }
  return schedule_->empty() ? 0 : deficit;
}

// Data and streams in order, as far as is to be sent now.
void Outbox::stage(std::size_t most, std::optional<i64> now) {
  const bool is_urgent = now ? is_scheduled() : scheduled_bytes() > 0;
  if ((flows_.empty() && !is_urgent) || !staged_.empty()) return;
  if (data.begun() > 0) data.move_first(staged_);
  if (is_urgent) put_in_order();
  while (!flows_.empty() && staged_.size() < most) {
    Flow* flow = turns_.front();
    turns_.pop_front();
    turns_.push_back(flow);
    if (flow == nullptr) {
      const std::size_t deficit = data_deficit_ + kQuantumBytes;
      data_deficit_ = is_urgent ? move_urgent(deficit, now) : move(data, deficit);
      continue;
    }
    const std::size_t before = flow->frames.size();
    flow->deficit = move(flow->frames, flow->deficit + kQuantumBytes);
    stream_bytes_ -= before - flow->frames.size();
    if (!flow->frames.empty()) continue;
    turns_.pop_back();
    std::erase_if(flows_, [flow](const auto& one) { return one.get() == flow; });
  }
  while (is_urgent && staged_.size() < most && has_urgent(now)) take_urgent();
}

void Outbox::clear() {
  control.clear();
  data.clear();
  staged_.clear();
  schedule_.reset();
  has_deadlines = false;
  flows_.clear();
  turns_.assign(1, nullptr);
  stream_bytes_ = data_deficit_ = 0;
}

Outbox::Pieces Outbox::next(std::size_t most, std::optional<i64> now) {
  stage(most, now);
  Pieces found;
  const auto add = [&](const char* at, std::size_t size) {
    if (size > 0) found.piece[found.count++] = {at, size};
  };
  const FrameQueue& front = staged_.empty() ? data : staged_;
  const std::size_t begun = front.begun();
  if (control.empty()) {
    add(front.data(), front.size());
    return found;
  }
  add(front.data(), begun);
  add(control.data(), control.size());
  add(front.data() + begun, front.size() - begun);
  return found;
}

void Outbox::sent(std::size_t count) {
  const auto take = [&](FrameQueue& from, std::size_t most) {
    const std::size_t taken = std::min(count, most);
    if (taken > 0) from.pop(taken);
    count -= taken;
  };
  FrameQueue& front = staged_.empty() ? data : staged_;
  take(front, front.begun());
  take(control, control.size());
  take(front, front.size());
}

}  // namespace tidewire
