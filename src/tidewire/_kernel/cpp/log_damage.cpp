#include "log_damage.hpp"

namespace tidewire {

void DamageNotes::note(const std::string& file, const SegmentScan::Bad& bad) {
  for (const auto& [pubend, tick] : last_) open_[pubend].push_back(damage_.size());
  damage_.push_back({file, bad.offset, bad.end - bad.offset, {}});
}

void DamageNotes::see(u64 pubend, u64 tick, bool is_included) {
  u64& last = last_[pubend];
  if (!open_.empty()) {
    const auto found = open_.find(pubend);
    if (found != open_.end()) {
      for (const std::size_t i : found->second)
        if (last + 1 < tick + is_included) damage_[i].lost.push_back({pubend, last + 1, tick - !is_included});
      open_.erase(found);
    }
  }
  reach(pubend, tick);
}

void DamageNotes::reach(u64 pubend, u64 tick) {
  u64& last = last_[pubend];
  last = std::max(last, tick);
  newest_ = std::max(newest_, tick);
}

std::vector<u64> DamageNotes::finish() {
  std::vector<u64> unsure;
  for (const auto& [pubend, places] : open_) unsure.push_back(pubend);
  for (const u64 pubend : unsure) see(pubend, newest_ + 1);
  return unsure;
}

}  // namespace tidewire
