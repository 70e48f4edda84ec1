// What a publisher may publish: what its identity is permitted, and what it advertised itself. An event must match one of
// the filters. An advertisement allows, beside, the attributes that it names and no others (peer L4): the event must be of
// a shape that it knows.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "index.hpp"

namespace tidewire {

class Permit {
 public:
  enum class Of : u8 { kIdentity, kAdvertisement };
  Permit(Of of, u64 seed, const SimdOps& simd) : of_(of), index_(seed, simd) {}

  // An advertisement is of a single conjunction. Throws if it is no filter.
  void add(std::string_view filter);
  // Is each of these events allowed? They are whole.
  void check(std::span<const std::string_view> events, std::vector<u8>& allowed);
  std::size_t bytes() const { return index_.bytes(); }

 private:
  // For each advertisement: does it name all attributes of this shape?
  const std::vector<u8>& knows(std::string_view shape, u32 count);

  Of of_;
  Index index_;
  Matches found_;
  std::vector<std::unordered_set<std::string>> names_;
  std::unordered_map<std::string, std::vector<u8>> known_;
};

}  // namespace tidewire
