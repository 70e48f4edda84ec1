#include "streams.hpp"

#include <algorithm>

namespace tidewire {

void Stream::keep(u64 tick, const Told& told) {
  const auto at = events.try_emplace(events.end(), tick);  // mostly behind the last one
  if (!at->second.event.empty()) return;
  at->second = {std::string(told.event), told.born_ns, told.error_us};
  bytes += told.event.size();
}

// The oldest go, as far as they are behind the horizon.
void Stream::forget(std::size_t bytes_max) {
  while (bytes > bytes_max && !events.empty()) {
    const auto oldest = events.begin();
    if (is_attended && oldest->first >= horizon) return;
    bytes -= oldest->second.event.size();
    low = oldest->first + 1;
    events.erase(oldest);
    known.remove(0, low);
    lost.remove(0, low);
  }
}

void Stream::begin(u64 place) {
  if (place <= low || !events.empty()) return;
  low = place;
  known.remove(0, place);
}

u64 Stream::cached() const {
  if (is_hosted) return 0;
  const u64 end = is_attended ? horizon : heard;
  const std::vector<TickSpan> runs = known.within(low, end);
  const u64 start = !runs.empty() && runs.back().end == end ? runs.back().first : end;
  return std::max(start, std::min(sound, end));
}

}  // namespace tidewire
