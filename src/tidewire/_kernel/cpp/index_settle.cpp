// Settling: once every destination has more matches than would be named, the answer to an event is known, and the rest
// of its matches need not be found.
#include <algorithm>

#include "index.hpp"

namespace tidewire {

namespace {

constexpr u32 kTallyDestinationsMax = 4096;
constexpr u32 kEntriesPerDestinationMin = 8;  // of a segment whose tallies are kept: at most 4 bytes for an entry

}  // namespace

// What the segment surely gives for this event, if that depends on one bucket alone and is known.
const KeptTally* Index::tally_of(Segment& segment, const Context& event) {
  if (segment.count() < kEntriesPerDestinationMin * references_.limit()) return nullptr;
  u32 line = 0;
  KeptTally* kept = segment.tally_for(event, line);
  if (kept == nullptr || kept->is_good(segment.count())) return kept;
  if (!kept->was_asked) {  // what is asked for once only is not worth making
    kept->was_asked = true;
    return nullptr;
  }
  segment.definite_in(line, sure_);
  kept->tally.clear(references_.limit());
  each_group(sure_, [&](u32 destination, const u32* numbers, u32 count) {
    u32 plain = 0;
    for (u32 i = 0; i < count; ++i) plain += (numbers[i] & kOneOfSeveral) == 0;
    kept->tally.add(destination, plain);
  });
  sure_.clear();
  kept->total = kept->tally.total();
  kept->entries = segment.count();
  kept->lost = 0;
  return kept;
}

// True if the crowds that were found, and what its segments surely give, are enough for every destination.
bool Index::is_settled(const Context& event, std::span<const Visit> visits) {
  const Buffer<Target>& crowds = event.matched.crowd;
  u64 most = 0;
  for (const Target target : crowds) {
    const Crowd& crowd = members_.crowd(target);
    if (crowd.satisfied() == destinations_used_) {
      if (everyone_.empty())
        for (const Crowd::Group& group : crowd.groups()) everyone_.push_back(group.destination);
      return true;
    }
    most += crowd.count();
  }
  const u32 limit = references_.limit();
  if (limit > kTallyDestinationsMax) return false;
  tallies_.clear();
  for (const Visit& visit : visits)
    for (const auto& segment : clusters_[visit.cluster].large->segments) {
      const KeptTally* kept = segment == nullptr ? nullptr : tally_of(*segment, event);
      if (kept == nullptr) continue;
      tallies_.push_back(&kept->tally);
      most += kept->total;
    }
  if (most < u64{Tally::kEnough} * destinations_used_) return false;
  told_.clear(limit);
  for (const Tally* tally : tallies_) told_.add(*tally);
  for (const Target target : crowds)
    for (const Crowd::Group& group : members_.crowd(target).groups()) told_.add(group.destination, group.plain);
  if (told_.satisfied() != destinations_used_) return false;
  if (everyone_.empty())
    for (u32 i = 0; i < limit; ++i)
      if (told_.is_enough(i)) everyone_.push_back(i);
  return true;
}

// Takes the visits to segments of those events away that need none.
void Index::settle_events() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < large_visits_.size();) {
    std::size_t end = i;
    while (end < large_visits_.size() && large_visits_[end].event == large_visits_[i].event) ++end;
    Context& event = contexts_[large_visits_[i].event];
    event.is_settled = is_settled(event, {&large_visits_[i], end - i});
    if (event.is_settled) i = end;
    while (i < end) large_visits_[kept++] = large_visits_[i++];
  }
  large_visits_.resize(kept);
}

void Index::put_settled(Matches& into) const {
  into.destination.insert(into.destination.end(), everyone_.begin(), everyone_.end());
  into.more.insert(into.more.end(), everyone_.size(), 1);
  into.number_first.insert(into.number_first.end(), everyone_.size(), static_cast<u32>(into.numbers.size()));
}

}  // namespace tidewire
