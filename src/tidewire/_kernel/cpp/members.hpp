// Who has subscribed to one entry: destinations, each with the numbers of its subscriptions.
#pragma once

#include "storage.hpp"

namespace tidewire {

// A number with this bit belongs to a subscription of several conjunctions: it may be found more than once per event.
inline constexpr u32 kOneOfSeveral = 1u << 31;

class Members {
 public:
  struct Group {
    u32 destination = 0, count = 0;
    union {
      u32 one = 0;
      u32* many;
    };
    const u32* begin() const { return count == 1 ? &one : many; }
  };

  Members() = default;
  ~Members();
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  void add(u32 destination, u32 number);
  void remove(u32 destination, u32 number);
  const std::vector<Group>& groups() const { return groups_; }
  std::size_t bytes() const;

 private:
  Group* find(u32 destination);
  static u32 tag_of(u32 destination) { return TagTable::tag_of(hash_u64(destination, 0)); }

  std::vector<Group> groups_;
  TagTable places_;  // destination -> place in groups_ + 1, once there are many
};

}  // namespace tidewire
