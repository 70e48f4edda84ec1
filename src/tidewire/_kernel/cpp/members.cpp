#include "members.hpp"

#include <algorithm>

namespace tidewire {

namespace {

constexpr std::size_t kFewGroups = 16;

}  // namespace

Members::~Members() {
  for (Group& group : groups_)
    if (group.count > 1) delete[] group.many;
}

Members::Group* Members::find(u32 destination) {
  if (groups_.size() <= kFewGroups) {
    for (Group& group : groups_)
      if (group.destination == destination) return &group;
    return nullptr;
  }
  const u32 place = places_.find(tag_of(destination), [&](u32 id) { return groups_[id - 1].destination == destination; });
  return place == TagTable::kNone ? nullptr : &groups_[place - 1];
}

void Members::add(u32 destination, u32 number) {
  if (Group* group = find(destination)) {
    if (group->count == 1) {
      const u32 first = group->one;
      group->many = new u32[2]{first, number};
    } else {
      if (std::has_single_bit(group->count)) {
        u32* larger = new u32[std::size_t{group->count} * 2];
        std::copy_n(group->many, group->count, larger);
        delete[] group->many;
        group->many = larger;
      }
      group->many[group->count] = number;
    }
    ++group->count;
    return;
  }
  Group group;
  group.destination = destination;
  group.count = 1;
  group.one = number;
  groups_.push_back(group);
  const auto size = static_cast<u32>(groups_.size());
  if (size == kFewGroups + 1)
    for (u32 i = 0; i < size; ++i) places_.insert(tag_of(groups_[i].destination), i + 1);
  else if (size > kFewGroups)
    places_.insert(tag_of(destination), size);
}

void Members::remove(u32 destination, u32 number) {
  Group* group = find(destination);
  if (group->count > 1) {
    *std::find(group->many, group->many + group->count, number) = group->many[group->count - 1];
    --group->count;
    if (group->count == 1) {
      const u32 last = group->many[0];
      delete[] group->many;
      group->one = last;
    } else if (std::has_single_bit(group->count)) {
      u32* smaller = new u32[group->count];
      std::copy_n(group->many, group->count, smaller);
      delete[] group->many;
      group->many = smaller;
    }
    return;
  }
  const auto place = static_cast<u32>(group - groups_.data()), last = static_cast<u32>(groups_.size()) - 1;
  if (groups_.size() > kFewGroups) {
    places_.erase(tag_of(destination), place + 1);
    if (place != last) {
      places_.erase(tag_of(groups_[last].destination), last + 1);
      places_.insert(tag_of(groups_[last].destination), place + 1);
    }
  }
  groups_[place] = groups_[last];
  groups_.pop_back();
  if (groups_.size() == kFewGroups) places_ = TagTable();
}

std::size_t Members::bytes() const {
  std::size_t total = sizeof *this + groups_.capacity() * sizeof(Group) + places_.bytes();
  for (const Group& group : groups_)
    if (group.count > 1) total += std::bit_ceil(group.count) * sizeof(u32);
  return total;
}

}  // namespace tidewire
