#include "connection.hpp"

#include <algorithm>

namespace tidewire {

void Intake::offer(std::string_view data) {
  if (kept_.empty()) {
    fresh_ = data;
    return;
  }
  std::string_view first;
  if (cut(0, first) != Cut::kIncomplete) {
    kept_.push(data);
    return;
  }
  // Only the rest of the frame that was cut is copied.
  const auto move = [&](std::size_t wanted) {
    const std::size_t count = std::min(wanted, data.size());
    kept_.push(data.substr(0, count));
    data.remove_prefix(count);
  };
  if (kept_.size() < 4) move(4 - kept_.size());
  if (kept_.size() < 4 || !is_length(load<u32>(kept_.data()))) return;
  move(frame_size(kept_.data()) - kept_.size());
  fresh_ = data;
}

void Intake::keep() {
  kept_.push(fresh_);
  fresh_ = {};
}

void Intake::forget() {
  kept_.clear();
  fresh_ = {};
}

Intake::Cut Intake::cut(std::size_t at, std::string_view& frame) const {
  std::string_view rest = fresh_;
  if (at < kept_.size()) rest = {kept_.data() + at, kept_.size() - at};
  else rest.remove_prefix(at - kept_.size());
  if (rest.size() < 4) return Cut::kIncomplete;
  if (!is_length(load<u32>(rest.data()))) return Cut::kBadLength;
  const std::size_t size = frame_size(rest.data());
  if (rest.size() < size) return Cut::kIncomplete;
  frame = rest.substr(0, size);
  return Cut::kFrame;
}

void Intake::consume(std::size_t count) {
  const std::size_t old = std::min(count, kept_.size());
  if (old > 0) kept_.pop(old);
  fresh_.remove_prefix(count - old);
}

}  // namespace tidewire
