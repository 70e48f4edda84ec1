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
  std::vector<Subscription> all;
  all.reserve(numbers.size());
  std::vector<std::size_t> replaced;
  u32 spare = kNumberMax + 1;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    all.push_back({destination, numbers[i], filters[i]});
    if (!index_.has(destination, numbers[i])) continue;
    do spare = spare_number(destination, spare);
    while (std::binary_search(sorted.begin(), sorted.end(), spare));
    all[i].number = spare;
    replaced.push_back(i);
  }
  index_.insert(all);
  for (const std::size_t i : replaced) {
    index_.remove(destination, numbers[i]);
    const Subscription again{destination, numbers[i], filters[i]};
    index_.insert({&again, 1});
    index_.remove(destination, all[i].number);
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
