#include "members.hpp"

#include <algorithm>

namespace tidewire {

namespace {

u32 destination_of(Target single) { return static_cast<u32>(single >> 32); }
u32 number_of(Target single) { return static_cast<u32>(single); }

void resize(Crowd::Group& group, u32 room) {
  auto numbers = std::make_unique_for_overwrite<u32[]>(room);
  std::copy_n(group.numbers.get(), group.count, numbers.get());
  group.numbers = std::move(numbers);
  group.room = room;
}

}  // namespace

Crowd::Group* Crowd::find(u32 destination) {
  const u32 place = places_.find(tag_of(destination), [&](u32 id) { return groups_[id - 1].destination == destination; });
  return place == TagTable::kNone ? nullptr : &groups_[place - 1];
}

void Crowd::add(u32 destination, u32 number) {
  Group* group = find(destination);
  if (group == nullptr) {
    groups_.emplace_back();
    group = &groups_.back();
    group->destination = destination;
    places_.insert(tag_of(destination), static_cast<u32>(groups_.size()));
  }
  if (group->count == group->room) resize(*group, group->room + group->room / 4 + 1);
  group->numbers[group->count++] = number;
  ++count_;
}

void Crowd::remove(u32 destination, u32 number) {
  Group& group = *find(destination);
  u32* numbers = group.numbers.get();
  *std::find(numbers, numbers + group.count, number) = numbers[group.count - 1];
  --group.count;
  --count_;
  if (group.count > 0) {
    if (group.room > 8 && group.count < group.room / 2) resize(group, group.count + group.count / 4 + 1);
    return;
  }
  const auto place = static_cast<u32>(&group - groups_.data()), last = static_cast<u32>(groups_.size()) - 1;
  places_.erase(tag_of(destination), place + 1);
  if (place != last) {
    places_.erase(tag_of(groups_[last].destination), last + 1);
    groups_[place] = std::move(groups_[last]);
    places_.insert(tag_of(groups_[place].destination), place + 1);
  }
  groups_.pop_back();
}

std::size_t Crowd::bytes() const {
  std::size_t total = sizeof *this + groups_.capacity() * sizeof(Group) + places_.bytes();
  for (const Group& group : groups_) total += group.room * sizeof(u32);
  return total;
}

Target Memberships::store_few(const Target* targets, u32 count) {
  if (count == 0) return 0;
  if (count == 1) return targets[0];
  const u32 handle = arena_.take(count * 8);
  std::memcpy(arena_.at(handle), targets, std::size_t{count} * 8);
  return u64{2} << 62 | static_cast<u64>(count) << 32 | handle;
}

Target Memberships::with(Target target, u32 destination, u32 number) {
  if (!is_single(target) && !is_few(target)) {
    crowds_[static_cast<u32>(target)]->add(destination, number);
    return target;
  }
  Target few_of[kFewMax + 1] = {target};
  u32 count = 1;
  if (is_few(target)) {
    count = few_count(target);
    std::memcpy(few_of, few(target), std::size_t{count} * 8);
    arena_.give(static_cast<u32>(target), count * 8);
  }
  few_of[count++] = single_target(destination, number);
  if (count <= kFewMax) return store_few(few_of, count);
  const u32 place = crowds_.take();
  crowds_[place] = std::make_unique<Crowd>();
  for (u32 i = 0; i < count; ++i) crowds_[place]->add(destination_of(few_of[i]), number_of(few_of[i]));
  return u64{3} << 62 | place;
}

Target Memberships::without(Target target, u32 destination, u32 number) {
  if (is_single(target)) return 0;
  Target few_of[kFewMax];
  u32 count = 0;
  if (is_few(target)) {
    count = few_count(target);
    std::memcpy(few_of, few(target), std::size_t{count} * 8);
    arena_.give(static_cast<u32>(target), count * 8);
    *std::find(few_of, few_of + count, single_target(destination, number)) = few_of[count - 1];
    return store_few(few_of, count - 1);
  }
  Crowd& members = *crowds_[static_cast<u32>(target)];
  members.remove(destination, number);
  if (members.count() > kFewMax / 2) return target;
  for (const Crowd::Group& group : members.groups())
    for (u32 i = 0; i < group.count; ++i) few_of[count++] = single_target(group.destination, group.numbers[i]);
  crowds_.give(static_cast<u32>(target));
  return store_few(few_of, count);
}

std::size_t Memberships::bytes() const {
  std::size_t total = arena_.bytes() + crowds_.bytes();
  for (u32 i = 1; i < crowds_.limit(); ++i)
    if (crowds_[i]) total += crowds_[i]->bytes();
  return total;
}

}  // namespace tidewire
