#include "permit.hpp"

namespace tidewire {

namespace {

constexpr std::size_t kShapesMax = 1024;  // remembered; then anew

}  // namespace

void Permit::add(std::string_view filter) {
  const Subscription allowed{0, static_cast<u32>(names_.size()), filter};
  index_.insert({&allowed, 1});
  std::unordered_set<std::string>& names = names_.emplace_back();
  if (of_ == Of::kIdentity) return;
  FilterSpec spec;
  parse_filter(filter, spec);
  for (const Constraint& constraint : spec.constraints) names.emplace(constraint.attribute);
  for (const Area& area : spec.areas) {
    names.emplace(area.latitude);
    names.emplace(area.longitude);
  }
}

const std::vector<u8>& Permit::knows(std::string_view shape, u32 count) {
  if (known_.size() > kShapesMax) known_.clear();
  const auto [at, is_new] = known_.try_emplace(std::string(shape));
  if (!is_new) return at->second;
  for (const auto& names : names_) {
    bool all = true;
    walk_shape(shape, count, [&](u32, Type, std::string_view name) -> const char* {
      all &= names.contains(std::string(name));
      return nullptr;
    });
    at->second.push_back(all);
  }
  return at->second;
}

void Permit::check(std::span<const std::string_view> events, std::vector<u8>& allowed) {
  allowed.assign(events.size(), 0);
  found_.clear();
  index_.match(events, {0, 0}, found_);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (found_.event_first[i] == found_.event_first[i + 1]) continue;
    if (of_ == Of::kIdentity) {
      allowed[i] = 1;
      continue;
    }
    EventView event;
    if (view_event(events[i], event) != nullptr) continue;
    const std::vector<u8>& is_known = knows(event.shape, event.attribute_count);
    const u32 row = found_.event_first[i];
    for (u32 n = found_.number_first[row]; n < found_.number_first[row + 1]; ++n) allowed[i] |= is_known[found_.numbers[n]];
  }
}

}  // namespace tidewire
