#include "schedule.hpp"

#include <cstdlib>
#include <new>

namespace tidewire {

namespace {

enum : u8 { kOfPublisher, kOfStream, kReceipts };

}  // namespace

std::size_t Schedule::memory() const {
  return bytes_ + frames_ * sizeof(Frame) + urgent_.capacity() * sizeof(Frame*) + lines_.size() * (sizeof(Line) + 48);
}

// What an encoded event says of itself, in the frame of it that a broker wrote. A receipt goes ahead of events: it is
// short, and its publisher waits for it.
Schedule::LineName Schedule::describe(Frame& frame) {
  const char* at = bytes_of(frame);
  if (frame.kind != FrameKind::kForward && frame.kind != FrameKind::kDeliver) return {0, kReceipts};
  const i64 born_ns = load<i64>(at + kFrameHead);
  std::size_t ahead = kFrameHead + kHopBytes;
  if (frame.kind == FrameKind::kDeliver) {
    const u8 count = static_cast<u8>(at[ahead]);
    ahead += 1 + (count == kMoreNumbers ? 0 : 4 * std::size_t{count});
  }
  const char* event = at + ahead;
  const u32 bits = load<u16>(event + 2);
  const auto field = [&](u32 number) { return load<u64>(event + kEventHeader + envelope_offset(bits, number)); };
  const bool is_guaranteed = (bits >> kTickField & 1) != 0;
  if (bits >> kTtlField & 1) {
    frame.has_deadline = true;
    frame.deadline_ns = deadline_of(born_ns, static_cast<i64>(field(kTtlField)));
    frame.may_expire = !is_guaranteed;
  }
  if (is_guaranteed) return {bits >> kPubendField & 1 ? field(kPubendField) : 0, kOfStream};
  return {bits & 1 ? field(0) : 0, kOfPublisher};
}

void Schedule::push(std::string_view bytes) {
  void* memory = std::malloc(sizeof(Frame) + bytes.size());
  if (memory == nullptr) throw std::bad_alloc();
  Frame* frame = new (memory) Frame{youngest_, nullptr, nullptr, nullptr, nullptr, 0, arrivals_++, kNowhere,
                                    static_cast<u32>(bytes.size()), frame_kind(bytes.data()), false, false};
  std::memcpy(bytes_of(*frame), bytes.data(), bytes.size());
  (youngest_ == nullptr ? oldest_ : youngest_->younger) = frame;
  youngest_ = frame;
  bytes_ += bytes.size();
  ++frames_;
  if (frame->kind == FrameKind::kMessage) ++messages_;
  else if (messages_ == 0) line_up(frame);
}

// Nothing stands between it and the front but events.
void Schedule::line_up(Frame* frame) {
  const LineName name = describe(*frame);
  const auto [found, is_new] = lines_.try_emplace(name, Line{name, frame, frame});
  Line& line = found->second;
  frame->line = &line;
  if (name.what == kReceipts) receipts_ = &line;
  if (!is_new) {
    frame->ahead = line.last;
    line.last->behind = frame;
    line.last = frame;
  }
  if (!frame->has_deadline) return;
  urgent_.push_back(frame);
  rise(urgent_.size() - 1);
}

void Schedule::leave_line(Frame* frame) {
  Line& line = *frame->line;
  (frame->ahead == nullptr ? line.first : frame->ahead->behind) = frame->behind;
  (frame->behind == nullptr ? line.last : frame->behind->ahead) = frame->ahead;
  if (line.first == nullptr) {
    if (receipts_ == &line) receipts_ = nullptr;
    lines_.erase(LineName(line.name));
  }
  if (frame->urgent_at == kNowhere) return;
  const std::size_t at = frame->urgent_at;
  Frame* last = urgent_.back();
  urgent_.pop_back();
  if (last == frame) return;
  place(last, at);
  rise(at);
  sink(last->urgent_at);
}

void Schedule::remove(Frame* frame) {
  const bool was_message = frame->kind == FrameKind::kMessage;
  (frame->older == nullptr ? oldest_ : frame->older->younger) = frame->younger;
  (frame->younger == nullptr ? youngest_ : frame->younger->older) = frame->older;
  if (frame->line != nullptr) leave_line(frame);
  bytes_ -= frame->size;
  --frames_;
  std::free(frame);
  if (!was_message) return;
  --messages_;
  for (Frame* next = oldest_; next != nullptr && next->kind != FrameKind::kMessage; next = next->younger) line_up(next);
}

u64 Schedule::expire(i64 now) {
  u64 expired = 0;
  while (!urgent_.empty() && urgent_.front()->may_expire && urgent_.front()->deadline_ns < now) {
    remove(urgent_.front());
    ++expired;
  }
  return expired;
}

u64 Schedule::drop_events(std::size_t bytes_left) {
  u64 dropped = 0;
  for (Frame *frame = oldest_, *next = nullptr; frame != nullptr && bytes_ > bytes_left; frame = next) {
    next = frame->younger;
    if (frame->kind == FrameKind::kMessage) continue;
    remove(frame);
    ++dropped;
  }
  return dropped;
}

void Schedule::clear() {
  for (Frame* frame = oldest_; frame != nullptr;) {
    Frame* gone = frame;
    frame = frame->younger;
    std::free(gone);
  }
  oldest_ = youngest_ = nullptr;
  lines_.clear();
  urgent_.clear();
  receipts_ = nullptr;
  messages_ = 0;
  bytes_ = frames_ = 0;
}

void Schedule::place(Frame* frame, std::size_t at) {
  urgent_[at] = frame;
  frame->urgent_at = static_cast<u32>(at);
}

void Schedule::rise(std::size_t at) {
  Frame* frame = urgent_[at];
  for (; at > 0 && is_ahead(*frame, *urgent_[(at - 1) / 2]); at = (at - 1) / 2) place(urgent_[(at - 1) / 2], at);
  place(frame, at);
}

void Schedule::sink(std::size_t at) {
  Frame* frame = urgent_[at];
  for (std::size_t child = 2 * at + 1; child < urgent_.size(); child = 2 * at + 1) {
    if (child + 1 < urgent_.size() && is_ahead(*urgent_[child + 1], *urgent_[child])) ++child;
    if (!is_ahead(*urgent_[child], *frame)) break;
    place(urgent_[child], at);
    at = child;
  }
  place(frame, at);
}

}  // namespace tidewire
