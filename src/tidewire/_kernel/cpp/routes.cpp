#include "routes.hpp"

#include <algorithm>

namespace tidewire {

namespace {

std::vector<u32> sorted_once(std::vector<u32> numbers, const char* code) {
  std::sort(numbers.begin(), numbers.end());
  if (std::adjacent_find(numbers.begin(), numbers.end()) != numbers.end())
    throw KernelError(code, "a subscription is named twice in one call");
  return numbers;
}

}  // namespace

u32 RouteTable::spare_number(u32 destination, u32 below) const {
  while (below > 0 && index_.has(destination, --below)) {}
  return below;
}

// Every filter is taken first, under its own number or, if that is in use, under a spare one; then nothing can fail any
// more, because what the index holds already it can hold under a second number.
void RouteTable::add(u32 destination, const std::vector<u32>& numbers, const std::vector<std::string_view>& filters) {
  if (numbers.size() != filters.size()) throw KernelError("usage", "numbers and filters must be equally many");
  const std::vector<u32> sorted = sorted_once(numbers, "subscription-duplicate");
  constexpr std::size_t kAhead = 8;
  struct Replaced {
    std::size_t at;
    u32 spare;
  };
  std::vector<Replaced> replaced;
  std::size_t done = 0;
  u32 spare = kNumberMax + 1;
  try {
    for (; done < numbers.size(); ++done) {
      if (done + kAhead < filters.size()) prefetch(filters[done + kAhead].data());
      if (!index_.has(destination, numbers[done])) {
        index_.insert(destination, numbers[done], filters[done]);
        continue;
      }
      do spare = spare_number(destination, spare);
      while (std::binary_search(sorted.begin(), sorted.end(), spare));
      index_.insert(destination, spare, filters[done]);
      replaced.push_back({done, spare});
    }
  } catch (...) {
    for (const Replaced& one : replaced) index_.remove(destination, one.spare);
    for (std::size_t i = 0, next = 0; i < done; ++i) {
      if (next < replaced.size() && replaced[next].at == i) ++next;
      else index_.remove(destination, numbers[i]);
    }
    throw;
  }
  for (const auto& [at, number] : replaced) {
    index_.remove(destination, numbers[at]);
    index_.insert(destination, numbers[at], filters[at]);
    index_.remove(destination, number);
  }
}

void RouteTable::remove(u32 destination, const std::vector<u32>& numbers) {
  for (const u32 number : numbers)
    if (destination > kDestinationMax || number > kNumberMax || !index_.has(destination, number))
      throw KernelError("subscription-unknown", "connection " + std::to_string(destination) + " has no subscription " +
                                                    std::to_string(number));
  sorted_once(numbers, "subscription-unknown");
  for (const u32 number : numbers) index_.remove(destination, number);
}

void RouteTable::forget(u32 destination) {
  for (const u32 number : index_.numbers_of(destination)) index_.remove(destination, number);
}

}  // namespace tidewire
