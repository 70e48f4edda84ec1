#include "members.hpp"

#include <algorithm>

namespace tidewire {

namespace {

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
  group->plain += (number & kOneOfSeveral) == 0;
  ++count_;
  if (group->count == kNamedMax + 1) ++satisfied_;
}

void Crowd::remove(u32 destination, u32 number) {
  Group& group = *find(destination);
  u32* numbers = group.numbers.get();
  *std::find(numbers, numbers + group.count, number) = numbers[group.count - 1];
  group.plain -= (number & kOneOfSeveral) == 0;
  --count_;
  if (group.count-- == kNamedMax + 1) --satisfied_;
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
  const u32 handle = arena_.take(count * kFewBytes);
  u8* at = arena_.at(handle);
  for (u32 i = 0; i < count; ++i, at += kFewBytes) {
    store(at, destination_of(targets[i]) << 25 | number_of(targets[i]));
    store(at + 4, static_cast<u16>(destination_of(targets[i]) >> 7));
  }
  return u64{2} << 62 | static_cast<u64>(count) << 32 | handle;
}

u32 Memberships::take_few(Target target, Target* into) {
  if (is_single(target)) {
    into[0] = target;
    return 1;
  }
  const u32 count = few_count(target);
  const u8* at = few(target);
  for (u32 i = 0; i < count; ++i, at += kFewBytes) into[i] = load_few(at);
  arena_.give(static_cast<u32>(target), count * kFewBytes);
  return count;
}

Target Memberships::with(Target target, u32 destination, u32 number) {
  if (is_crowd(target)) {
    crowds_[static_cast<u32>(target)]->add(destination, number);
    return target;
  }
  Target all[kFewMax + 1];
  u32 count = take_few(target, all);
  all[count++] = single_target(destination, number);
  if (count <= kFewMax) return store_few(all, count);
  const u32 place = crowds_.take();
  crowds_[place] = std::make_unique<Crowd>();
  for (u32 i = 0; i < count; ++i) crowds_[place]->add(destination_of(all[i]), number_of(all[i]));
  return u64{3} << 62 | place;
}

Target Memberships::without(Target target, u32 destination, u32 number) {
  if (is_single(target)) return 0;
  Target all[kFewMax];
  u32 count = 0;
  if (is_few(target)) {
    count = take_few(target, all);
    *std::find(all, all + count, single_target(destination, number)) = all[count - 1];
    return store_few(all, count - 1);
  }
  Crowd& members = *crowds_[static_cast<u32>(target)];
  members.remove(destination, number);
  if (members.count() > kFewMax / 2) return target;
  for (const Crowd::Group& group : members.groups())
    for (u32 i = 0; i < group.count; ++i) all[count++] = single_target(group.destination, group.numbers[i]);
  crowds_.give(static_cast<u32>(target));
  return store_few(all, count);
}

std::size_t Memberships::bytes() const {
  std::size_t total = arena_.bytes() + crowds_.bytes();
  for (u32 i = 1; i < crowds_.limit(); ++i)
    if (crowds_[i]) total += crowds_[i]->bytes();
  return total;
}

}  // namespace tidewire
