// An index whose subscriptions can be replaced in place, many at once, all or none.
#pragma once

#include "index.hpp"

namespace tidewire {

class RouteTable {
 public:
  RouteTable(u64 seed, const SimdOps& simd) : index_(seed, simd) {}

  void add(u32 destination, const std::vector<u32>& numbers, const std::vector<std::string_view>& filters);
  void remove(u32 destination, const std::vector<u32>& numbers);
  void forget(u32 destination);

  Index& index() { return index_; }
  bool empty() const { return index_.subscriptions() == 0; }
  u32 subscriptions() const { return index_.subscriptions(); }
  std::size_t bytes() const { return index_.bytes(); }

 private:
  u32 spare_number(u32 destination, u32 below) const;

  Index index_;
};

}  // namespace tidewire
