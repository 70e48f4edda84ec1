#include "classes.hpp"

#include <algorithm>

namespace tidewire {

namespace {

constexpr std::size_t kFew = 8;  // that are asked one by one

}  // namespace

void Classes::set(const std::vector<TrafficClass>& classes, u64 seed, const SimdOps& simd) {
  std::vector<Known> known;
  std::unique_ptr<Index> index;
  std::vector<Subscription> all;
  for (const TrafficClass& one : classes) {
    const std::string_view filter = one.filter;
    all.push_back({0, static_cast<u32>(all.size()), filter});
    const bool is_few = classes.size() <= kFew;
    known.push_back({one, is_few ? std::make_unique<Permit>(Permit::Of::kIdentity, std::span(&filter, 1), seed, simd) : nullptr});
  }
  if (classes.size() > kFew) {
    index = std::make_unique<Index>(seed, simd);
    index->insert(all);
  }
  known_ = std::move(known);
  index_ = std::move(index);
}

// The first that matches; nullptr: none does.
const TrafficClass* Classes::of(const EventView& view, u64 shape) {
  if (index_ != nullptr) {
    index_->match_one(view, found_);
    return found_.empty() ? nullptr : &known_[*std::min_element(found_.begin(), found_.end())].what;
  }
  for (const Known& one : known_)
    if (one.permit->allows(view, shape)) return &one.what;
  return nullptr;
}

std::string& Classes::room() {
  if (made_.size() <= made_count_) made_.emplace_back();
  std::string& made = made_[made_count_++];
  made.clear();
  return made;
}

std::string_view Classes::completed(std::string_view event, const EventView& view, u64 shape) {
  constexpr u32 kMine = 1u << kClassField | 1u << kTtlField | 1u << kValueField;
  const u32 bits = view.envelope_bits;
  if ((bits & kMine) == kMine) return event;
  const TrafficClass* of = this->of(view, shape);
  if (of == nullptr) return event;
  u32 gets = 1u << kClassField;
  if (of->ttl_ns) gets |= 1u << kTtlField;
  if (of->value) gets |= 1u << kValueField;
  gets &= ~bits;
  if (gets == 0) return event;
  std::string& made = room();
  const char* envelope = event.data() + kEventHeader;
  made.append(event.data(), kEventHeader + envelope_offset(bits, kClassField));
  const auto add = [&](u32 field, const void* value, std::size_t width) {
    if (bits >> field & 1) made.append(envelope + envelope_offset(bits, field), width);
    else if (gets >> field & 1) made.append(static_cast<const char*>(value), width);
  };
  const i64 ttl_ns = of->ttl_ns.value_or(0);
  const double value = of->value.value_or(0);
  add(kClassField, &of->number, 4);
  add(kTtlField, &ttl_ns, 8);
  add(kValueField, &value, 8);
  made.append(event.substr(kEventHeader + envelope_offset(bits, kValueField + 1)));
  const u32 grown = static_cast<u32>(made.size() - event.size());
  store(made.data() + 2, static_cast<u16>(bits | gets));
  store(made.data() + 8, static_cast<u32>(made.size()));
  if (const u32 body = load<u32>(made.data() + 12)) store(made.data() + 12, body + grown);
  return made;
}

}  // namespace tidewire
