#include "spans.hpp"

#include <algorithm>

namespace tidewire {

std::size_t Spans::first_ending_beyond(u64 tick) const {
  const auto found = std::upper_bound(runs_.begin(), runs_.end(), tick, [](u64 at, const TickSpan& run) { return at < run.end; });
  return static_cast<std::size_t>(found - runs_.begin());
}

bool Spans::has(u64 tick) const {
  const std::size_t at = first_ending_beyond(tick);
  return at < runs_.size() && runs_[at].first <= tick;
}

void Spans::insert(u64 first, u64 end) {
  if (first >= end) return;
  // Runs that touch it, too, become one with it.
  const std::size_t low = first == 0 ? 0 : first_ending_beyond(first - 1);
  std::size_t high = low;
  while (high < runs_.size() && runs_[high].first <= end) ++high;
  if (low < high) {
    first = std::min(first, runs_[low].first);
    end = std::max(end, runs_[high - 1].end);
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(low) + 1, runs_.begin() + static_cast<std::ptrdiff_t>(high));
    runs_[low] = {first, end};
    return;
  }
  runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(low), {first, end});
}

void Spans::remove(u64 first, u64 end) {
  if (first >= end) return;
  const std::size_t low = first_ending_beyond(first);
  std::size_t high = low;
  while (high < runs_.size() && runs_[high].first < end) ++high;
  if (low >= high) return;
  const TickSpan left{runs_[low].first, first}, right{end, runs_[high - 1].end};
  const auto at = runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(low), runs_.begin() + static_cast<std::ptrdiff_t>(high));
  const std::ptrdiff_t place = at - runs_.begin();
  if (right.first < right.end) runs_.insert(runs_.begin() + place, right);
  if (left.first < left.end) runs_.insert(runs_.begin() + place, left);
}

u64 Spans::end_of(u64 tick) const {
  const std::size_t at = first_ending_beyond(tick);
  return at < runs_.size() && runs_[at].first <= tick ? runs_[at].end : tick;
}

bool Spans::touches(u64 first, u64 end) const {
  const std::size_t at = first_ending_beyond(first);
  return at < runs_.size() && runs_[at].first < end;
}

std::vector<TickSpan> Spans::within(u64 first, u64 end) const {
  std::vector<TickSpan> found;
  for (std::size_t at = first_ending_beyond(first); at < runs_.size() && runs_[at].first < end; ++at)
    found.push_back({std::max(first, runs_[at].first), std::min(end, runs_[at].end)});
  return found;
}

std::vector<TickSpan> Spans::gaps(u64 first, u64 end) const {
  std::vector<TickSpan> found;
  for (const TickSpan& known : within(first, end)) {
    if (first < known.first) found.push_back({first, known.first});
    first = known.end;
  }
  if (first < end) found.push_back({first, end});
  return found;
}

}  // namespace tidewire
