// Samples: the next events that are taken are kept, to be asked later who wants them. All at once, when there are enough.
#include "plane.hpp"

namespace tidewire {

namespace {

constexpr std::size_t kAtOnce = 64;  // events that are matched together

}  // namespace

void Plane::sample(u32 count) {
  samples_.clear();
  samples_left_ = count;
}

void Plane::keep_sample(std::string_view event) {
  --samples_left_;
  samples_.emplace_back(event);
}

// A vector has a bit for each sample, the lowest bit of the first byte for the first one.
Plane::Wanted Plane::wanted_samples() {
  Wanted wanted;
  if (clients_.empty()) return wanted;
  std::vector<u32> place_of(connections_.size(), kNobody);
  Matches found;
  std::vector<std::string_view> some;
  for (std::size_t first = 0; first < samples_.size(); first += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, samples_.size() - first);
    some.assign(samples_.begin() + static_cast<std::ptrdiff_t>(first),
                samples_.begin() + static_cast<std::ptrdiff_t>(first + count));
    found.clear();
    clients_.index().match(some, {0, 1}, found);
    for (std::size_t event = 0; event < count; ++event) {
      const std::size_t number = first + event;
      for (u32 i = found.event_first[event]; i < found.event_first[event + 1]; ++i) {
        u32& place = place_of[found.destination[i]];
        if (place == kNobody) {
          place = static_cast<u32>(wanted.conns.size());
          wanted.conns.push_back(found.destination[i]);
          wanted.vectors.emplace_back((samples_.size() + 7) / 8, '\0');
        }
        char& byte = wanted.vectors[place][number / 8];
        byte = static_cast<char>(byte | 1 << number % 8);
      }
    }
  }
  return wanted;
}

}  // namespace tidewire
