// Does one filter cover another? Sound for all filters, complete for sets, ranges and prefixes.
#pragma once

#include "filter.hpp"

namespace tidewire {

bool covers(const FilterSpec& wide, const Conjunction& outer, const FilterSpec& narrow, const Conjunction& inner);
bool covers(const FilterSpec& wide, const FilterSpec& narrow);

}  // namespace tidewire
