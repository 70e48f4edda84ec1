// What a publisher may publish: what its identity is permitted, or what it advertised itself. An event must match one of
// the filters. An advertisement allows, beside, the attributes that it names and no others (peer L4): the event must be of
// a shape that it knows.
//
// A few conjunctions are asked one by one. Once a shape is known, so is the place of each value that matters, and most
// conjunctions are decided: they lack an attribute, or its type is another. An index is asked about many.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>

#include "index.hpp"

namespace tidewire {

class Permit {
 public:
  enum class Of : u8 { kIdentity, kAdvertisement };

  // An advertisement has filters of a single conjunction. Throws if one is no filter.
  Permit(Of of, std::span<const std::string_view> filters, u64 seed, const SimdOps& simd);

  // Is this event allowed? It is whole, and its shape has this number (inspect.hpp).
  bool allows(const EventView& event, u64 shape);
  std::size_t bytes() const;

 private:
  struct Binding {
    std::string attribute;
    Kind kind;
    std::unique_ptr<ComplexSet> set;  // nullptr: the kind says all
    bool is_word;                     // the set is of a single text
  };
  struct Place {
    std::string latitude, longitude;
    std::unique_ptr<CompiledArea> area;
  };
  struct Clause {
    std::vector<Binding> bindings;
    std::vector<Place> places;
  };
  struct Slot {
    u32 slot;
    Type type;
  };
  using Slots = std::unordered_map<std::string_view, Slot>;
  // What a shape leaves open of a clause: a value, or two of them, with where to go on if they do not do.
  struct Test {
    u32 otherwise;
    Slot value, longitude;
    const ComplexSet* set;
    const std::string* word;   // not nullptr: the only member of the set
    const CompiledArea* area;  // not nullptr: it is meant, and no set
    bool holds(const EventView& event) const;
  };
  struct Plan {
    bool is_sure = false;  // all events of the shape are allowed
    std::vector<Test> tests;
    std::vector<u8> knows;  // of many filters of an advertisement: does it name all attributes?
  };

  void add_clauses(std::string_view filter);
  bool names_all(const Clause& clause, const Slots& slots) const;
  bool add_tests(const Clause& clause, const Slots& slots, std::vector<Test>& into) const;
  Plan plan_for(const EventView& event) const;

  Of of_;
  std::vector<Clause> clauses_;
  std::unique_ptr<Index> index_;  // if there are many
  std::vector<u32> found_;
  std::unordered_map<u64, Plan> plans_;  // by shape
  u64 last_shape_ = 0;
  const Plan* last_ = nullptr;
};

}  // namespace tidewire
