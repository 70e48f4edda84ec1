// Inserting and removing: entries, who has them, and where they are kept.
#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>

#include "index.hpp"

namespace tidewire {

namespace {

constexpr u32 kManyPlaces = 0xFFFFFFFF;
constexpr u32 kSeveral = 1u << 31;
constexpr u32 kInSegment = 1u << 31, kSegmentShift = 14;
constexpr u32 kReplicasMax = 8, kBetterBy = 4;
constexpr u32 kShapeMin = 256, kReshapeGrowth = 4, kNever = 0xFFFFFFFF;
constexpr u32 kMovedMax = 512, kSampled = 1024;  // entries that one insertion moves, or looks at
static_assert(kSegmentEntries == 1u << kSegmentShift);

// When a segment that takes any shape has grown enough to look at it again; not if it is nearly full by then.
u32 grown_from(u32 count) { return count > kSegmentEntries / 2 ? kNever : std::min(kReshapeGrowth * count, kSegmentEntries); }

}  // namespace

bool Index::has(u32 destination, u32 number) const {
  const NumberMap* numbers = references_.find(destination);
  return numbers != nullptr && numbers->find(number) != 0;
}

// A few at a time, step by step, so that their cache misses overlap.
void Index::insert(std::span<const Subscription> all) {
  std::size_t done = 0;
  try {
    while (done < all.size()) {
      const std::size_t end = std::min(done + kTogether, all.size());
      prepare(all.subspan(done, end - done));
      for (std::size_t i = end; i < std::min(end + kTogether, all.size()); ++i) prefetch(all[i].filter.data());
      for (u32 i = 0; done < end; ++done, ++i) insert_prepared(all[done], pending_[i]);
    }
  } catch (...) {
    for (Pending& pending : pending_) forget(pending);
    while (done-- > 0) remove(all[done].destination, all[done].number);
    throw;
  }
}

void Index::prepare(std::span<const Subscription> some) {
  for (std::size_t i = 0; i < some.size(); ++i) {
    const auto& [destination, number, filter] = some[i];
    if (destination > kDestinationMax) throw KernelError("value-range", "a destination's number is at most 1048575");
    if (number > kNumberMax) throw KernelError("value-range", "a subscription's number is at most 16777215");
    pending_[i].is_compiled = false;
    parse_filter(filter, pending_[i].spec);
    find_tags(pending_[i].spec, words_, pending_[i].key_tags);
    for (const u32 tag : pending_[i].key_tags) words_.prefetch_home(tag);
  }
  const std::span<Pending> pending(pending_, some.size());
  for (const Pending& next : pending)
    for (const u32 tag : next.key_tags) words_.prefetch_key(tag);
  for (Pending& next : pending)
    if (next.spec.conjunctions.size() == 1) compile(next, next.spec.conjunctions[0]);
  for (const Pending& next : pending) {
    if (!next.is_compiled) continue;
    if (const u32 likely = by_program_.find(next.tag, [](u32) { return true; })) prefetch(arena_.at(likely));
    for (const u32 key : next.draft.keys()) prefetch(&clusters_[words_.key(key).cluster]);
  }
}

void Index::compile(Pending& pending, const Conjunction& conjunction) {
  pending.is_compiled = true;
  pending.draft.compile(pending.spec, conjunction, words_);
  pending.tag = TagTable::tag_of(pending.draft.hash(seed_));
  by_program_.prefetch_home(pending.tag);
}

// Gives back what was named for an entry that is not to be.
void Index::forget(Pending& pending) {
  if (pending.is_compiled) pending.draft.forget_unused(words_);
  pending.is_compiled = false;
}

void Index::insert_prepared(const Subscription& subscription, Pending& pending) {
  const auto& [destination, number, filter] = subscription;
  if (has(destination, number))
    throw KernelError("subscription-duplicate", "destination " + std::to_string(destination) +
                                                    " has a subscription " + std::to_string(number) + " already");
  u32 found = 0;
  if (pending.is_compiled) {
    found = join_entry(pending, destination, number);
  } else {
    std::vector<u32> entries;
    try {
      for (const Conjunction& conjunction : pending.spec.conjunctions) {
        compile(pending, conjunction);
        entries.push_back(join_entry(pending, destination, number | kOneOfSeveral));
      }
    } catch (...) {
      for (const u32 entry : entries) leave_entry(entry, destination, number | kOneOfSeveral);
      throw;
    }
    const u32 place = conjunctions_.take();
    conjunctions_[place] = std::move(entries);
    found = place | kSeveral;
  }
  NumberMap& numbers = references_.at(destination);
  numbers.set(number, found);
  if (numbers.count() == 1) ++destinations_used_;
  ++subscriptions_;
  pending.is_compiled = false;
}

void Index::remove(u32 destination, u32 number) {
  if (!has(destination, number))
    throw KernelError("subscription-unknown", "destination " + std::to_string(destination) + " has no subscription " +
                                                  std::to_string(number));
  NumberMap& numbers = references_.at(destination);
  const u32 reference = numbers.find(number);
  if (reference & kSeveral) {
    const u32 place = reference & ~kSeveral;
    for (const u32 entry : conjunctions_[place]) leave_entry(entry, destination, number | kOneOfSeveral);
    conjunctions_.give(place);
  } else {
    leave_entry(reference, destination, number);
  }
  numbers.clear(number);
  --subscriptions_;
  if (numbers.count() == 0) --destinations_used_;
}

u32 Index::join_entry(const Pending& pending, u32 destination, u32 number) {
  const Draft& draft = pending.draft;
  const u32 known = by_program_.find(pending.tag, [&](u32 id) { return draft.same_as(program_of(id), library_); });
  if (known != TagTable::kNone) {
    const Target before = target_of(known), after = members_.with(before, destination, number);
    set_target(known, after);
    if (is_crowd(after) && !is_crowd(before)) move_to_list(known);
    return known;
  }
  const u32 entry = arena_.take(draft.size());
  draft.store_at(arena_.at(entry), library_, words_);
  by_program_.insert(pending.tag, entry);
  ++entries_;
  place_entry(entry, single_target(destination, number));
  return entry;
}

// What a crowd wants is looked at first: it may settle an event, and then nothing else matters.
void Index::move_to_list(u32 entry) {
  if (cluster_field(entry) == kManyPlaces || !(slot_field(entry) & kInSegment)) return;
  const u32 cluster = cluster_field(entry);
  const Target target = target_of(entry);
  take_out(cluster, slot_field(entry), entry);
  put_in_list(cluster, entry, target);
  if (clusters_[cluster].list.count() >= kListMax) grow_segment(cluster);
}

void Index::leave_entry(u32 entry, u32 destination, u32 number) {
  const Target target = target_of(entry);
  if (is_single(target)) return drop_entry(entry);
  set_target(entry, members_.without(target, destination, number));
  each_place(entry, [&](u32 cluster, u32 slot) {
    if (slot & kInSegment) clusters_[cluster].large->segments[(slot & ~kInSegment) >> kSegmentShift]->lose(destination);
  });
}

template <class Each>
void Index::each_place(u32 entry, Each visit) const {
  if (cluster_field(entry) != kManyPlaces) return visit(cluster_field(entry), slot_field(entry));
  for (const Placement& place : places_[slot_field(entry)]) visit(place.cluster, place.slot);
}

Target Index::target_of(u32 entry) const {
  u32 cluster = cluster_field(entry), slot = slot_field(entry);
  if (cluster == kManyPlaces) {
    const Placement first = places_[slot][0];
    cluster = first.cluster;
    slot = first.slot;
  }
  const Cluster& there = clusters_[cluster];
  if (!(slot & kInSegment)) return there.list.target()[slot];
  return there.large->segments[(slot & ~kInSegment) >> kSegmentShift]->target_at(slot % kSegmentEntries);
}

void Index::set_target(u32 entry, Target target) {
  each_place(entry, [&](u32 cluster, u32 slot) {
    const Cluster& there = clusters_[cluster];
    if (slot & kInSegment) there.large->segments[(slot & ~kInSegment) >> kSegmentShift]->set_target(slot % kSegmentEntries, target);
    else there.list.target()[slot] = target;
  });
}

void Index::drop_entry(u32 entry) {
  if (cluster_field(entry) == kManyPlaces) {
    const u32 list = slot_field(entry);
    for (std::size_t i = 0; i < places_[list].size(); ++i) {
      const Placement place = places_[list][i];
      take_out(place.cluster, place.slot, entry);
      places_[list][i].cluster = 0;
      work_off(place.cluster);
      drop_cluster_if_empty(place.cluster);
    }
    places_.give(list);
  } else {
    const u32 cluster = cluster_field(entry);
    take_out(cluster, slot_field(entry), entry);
    work_off(cluster);
    drop_cluster_if_empty(cluster);
  }
  const ProgramView program = program_of(entry);
  by_program_.erase(TagTable::tag_of(hash_program(program, library_, seed_)), entry);
  const u32 size = program.size();
  release(program, library_, words_);
  arena_.give(entry, size);
  --entries_;
}

// How many keys the access attribute has to choose from, per place that the entry would take; 0 if there is no key.
u32 Index::best_access(ProgramView program, Record& best) const {
  u32 score = 0;
  program.each([&](Record record) {
    if (record.op() != Op::kEqKey && !(record.op() == Op::kKeySet && record.count() <= kReplicasMax)) return;
    const u32 found = std::max(1u, words_.attribute(record.attribute()).distinct / record.count());
    if (found <= score) return;
    score = found;
    best = record;
  });
  return score;
}

void Index::place_entry(u32 entry, Target target) {
  const ProgramView program = program_of(entry);
  Record best{nullptr};
  if (best_access(program, best) > 0) {
    if (best.op() == Op::kEqKey) return put_in(cluster_of_key(best.word(0)), entry, target);
    const u32 place = places_.take();
    places_[place].clear();
    for (u32 i = 0; i < best.count(); ++i) places_[place].push_back({cluster_of_key(best.word(i)), 0});
    set_fields(entry, kManyPlaces, place);
    for (u32 i = 0; i < places_[place].size(); ++i) put_in(places_[place][i].cluster, entry, target);
    return;
  }
  u32 rarest = 0;
  program.each([&](Record record) {
    if (record.op() == Op::kAbsent || record.op() == Op::kArea) return;
    if (rarest == 0 || words_.attribute(record.attribute()).uses < words_.attribute(rarest).uses)
      rarest = record.attribute();
  });
  put_in(rarest == 0 ? root_cluster_ : cluster_of_presence(rarest), entry, target);
}

u32 Index::cluster_of_key(u32 key) {
  u32& cluster = words_.key(key).cluster;
  if (cluster == 0) {
    cluster = clusters_.take();
    clusters_[cluster].access_key = key;
    clusters_[cluster].access_attribute = words_.key(key).attribute;
    clusters_[cluster].is_used = true;
  }
  return cluster;
}

u32 Index::cluster_of_presence(u32 attribute) {
  u32& cluster = words_.attribute(attribute).presence_cluster;
  if (cluster == 0) {
    cluster = clusters_.take();
    clusters_[cluster].access_attribute = attribute;
    clusters_[cluster].is_used = true;
  }
  return cluster;
}

void Index::set_slot(u32 entry, u32 cluster, u32 slot) {
  if (cluster_field(entry) != kManyPlaces) return set_fields(entry, cluster, slot);
  for (Placement& place : places_[slot_field(entry)])
    if (place.cluster == cluster) place.slot = slot;
}

void Index::put_in(u32 cluster, u32 entry, Target target) {
  put_in_list(cluster, entry, target);
  if (!clusters_[cluster].is_list_full()) return work_off(cluster);
  if (move_to_better_keys(cluster)) return;
  empty_list(cluster);
  if (clusters_[cluster].list.count() >= kListMin / 2) grow_segment(cluster);
}

// The open segment that suits this program best: one of its shape, else one of any; -1 if there is none.
i32 Index::segment_for(const Large& large, ProgramView program) const {
  // All shapes of a cluster are taken beside the same common keys in practice, so one hash rules out nearly all of them.
  u64 shape = 0;
  i32 found = -1;
  for (std::size_t i = 0; i < large.open.size(); ++i) {
    const Segment& segment = *large.segments[large.open[i]];
    if (large.open_shape[i] != 0) {
      if (shape == 0) shape = segment.shape_of(program, words_, library_);
      if (large.open_shape[i] != shape || !segment.suits(program)) continue;
      return static_cast<i32>(large.open[i]);
    }
    if (found < 0 && segment.suits(program)) found = static_cast<i32>(large.open[i]);
  }
  return found;
}

// Moves the list's entries to the segments that suit them, segment by segment: that touches each block once.
void Index::empty_list(u32 cluster) {
  Cluster& from = clusters_[cluster];
  if (from.large == nullptr) return;
  const Large& large = *from.large;
  const u32 count = from.list.count();
  std::vector<u32> wanted(count), ends(large.segments.size() + 1);  // by segment + 1; 0: none
  for (u32 i = 0; i < count; ++i) {
    const ProgramView program = program_of(from.list.entry()[i] & ~kNeedsCheck);
    wanted[i] = is_crowd(from.list.target()[i]) ? 0 : static_cast<u32>(segment_for(large, program) + 1);
    ++ends[wanted[i]];
  }
  std::exclusive_scan(ends.begin(), ends.end(), ends.begin(), 0u);
  std::vector<Newcomer> movers(count);
  for (u32 i = 0; i < count; ++i)
    movers[ends[wanted[i]]++] = newcomer(from.list.entry()[i] & ~kNeedsCheck, from.list.target()[i]);
  from.list = ShortList();
  for (u32 i = 0, next = 0; i < ends.size(); next = ends[i++]) {
    if (ends[i] == next) continue;
    u32 after = i + 1;
    while (after < ends.size() && ends[after] == ends[i]) ++after;
    if (after < ends.size()) large.segments[after - 1]->prefetch_dimensions();
    const std::span<const Newcomer> group(&movers[next], ends[i] - next);
    const u32 added = i == 0 ? 0 : add_to_segment(cluster, i - 1, group);
    for (const Newcomer& left : group.subspan(added)) put_in_list(cluster, left.entry, left.target);
    if (i == 0) continue;
    Segment& segment = *large.segments[i - 1];
    if (!segment.has_room()) close_segment(cluster, i - 1);
    if (segment.count() >= segment.reshape_at) reshape_segment(cluster, i - 1);
  }
}

void Index::open_segment(u32 cluster, u32 number) {
  Large& large = *clusters_[cluster].large;
  large.open.push_back(number);
  large.open_shape.push_back(large.segments[number]->shape());
}

void Index::close_segment(u32 cluster, u32 number) {
  Large& large = *clusters_[cluster].large;
  const auto place = std::ranges::find(large.open, number) - large.open.begin();
  if (place == static_cast<std::ptrdiff_t>(large.open.size())) return;
  large.open.erase(large.open.begin() + place);
  large.open_shape.erase(large.open_shape.begin() + place);
}

void Index::put_in_list(u32 cluster, u32 entry, Target target) {
  Cluster& into = clusters_[cluster];
  const ProgramView program = program_of(entry);
  if (into.narrow_common(program))
    for (u32 i = 0; i < into.list.count(); ++i) {
      const u32 other = into.list.entry()[i] & ~kNeedsCheck;
      into.list.set(i, other, into.scanned_of(program_of(other)));
    }
  set_slot(entry, cluster, into.list.add(entry, target, into.scanned_of(program)));
  ++placements_;
}

// A list that has grown long may hold entries that were put here when little was known of the keys.
bool Index::move_to_better_keys(u32 cluster) {
  std::vector<u32> movers;
  const Cluster& from = clusters_[cluster];
  const u32 here = from.access_key == 0 ? 0 : words_.attribute(from.access_attribute).distinct;
  for (u32 i = 0; i < from.list.count(); ++i) {
    const u32 entry = from.list.entry()[i] & ~kNeedsCheck;
    if (cluster_field(entry) == kManyPlaces) continue;
    Record best{nullptr};
    const u32 score = best_access(program_of(entry), best);
    if (score >= std::max(2u, here * kBetterBy) && best.attribute() != from.access_attribute) movers.push_back(entry);
  }
  if (movers.size() < kListMin / 8) return false;
  for (const u32 entry : movers) {
    const Target target = target_of(entry);
    take_out(cluster, slot_field(entry), entry);
    place_entry(entry, target);
  }
  drop_cluster_if_empty(cluster);
  return true;
}

// Moves what the entries of a long list have in common, and those that have it, into a new segment.
void Index::grow_segment(u32 cluster) {
  Cluster& from = clusters_[cluster];
  std::vector<Newcomer> entries;
  std::map<std::pair<u16, u32>, u32> uses;
  for (u32 i = 0; i < from.list.count(); ++i) {
    entries.push_back(newcomer(from.list.entry()[i] & ~kNeedsCheck, from.list.target()[i]));
    entries.back().program.each([&](Record record) {
      if (record.op() == Op::kEqKey) ++uses[{record.attribute(), record.word(0)}];
    });
  }
  std::vector<std::pair<u16, u32>> common;
  for (const auto& [key, count] : uses)
    if (count * 5 >= entries.size() * 3) common.push_back(key);
  const auto has_common = [&](const Newcomer& entry) {
    u32 found = 0;
    entry.program.each([&](Record record) {
      if (record.op() != Op::kEqKey) return;
      const std::pair<u16, u32> key(record.attribute(), record.word(0));
      found += std::find(common.begin(), common.end(), key) != common.end();
    });
    return found == common.size();
  };
  const auto is_no_crowd = [](const Newcomer& entry) { return !is_crowd(entry.target); };
  const auto crowds = std::stable_partition(entries.begin(), entries.end(), is_no_crowd);
  auto rest = std::stable_partition(entries.begin(), crowds, has_common);
  if (rest - entries.begin() < kListMin / 4) {
    common.clear();
    // Crowds stay on the list, unless it is full of them.
    rest = crowds - entries.begin() < kListMin / 4 ? entries.end() : crowds;
  }
  from.list = ShortList();
  new_segment(cluster, {entries.begin(), rest}, std::move(common));
  for (auto entry = rest; entry != entries.end(); ++entry) put_in_list(cluster, entry->entry, entry->target);
}

u32 Index::create_segment(u32 cluster, const std::vector<ProgramView>& sample, Segment::Common common, u64 shape) {
  Cluster& into = clusters_[cluster];
  if (into.large == nullptr) into.large = std::make_unique<Large>();
  auto& segments = into.large->segments;
  u32 number = 0;
  while (number < segments.size() && segments[number] != nullptr) ++number;
  if (number == segments.size()) segments.emplace_back();
  segments[number] = std::make_unique<Segment>(sample, std::move(common), shape, words_, library_);
  segments[number]->reshape_at = kNever;
  open_segment(cluster, number);
  return number;
}

void Index::new_segment(u32 cluster, std::span<const Newcomer> entries, Segment::Common common) {
  std::vector<ProgramView> sample;
  for (const Newcomer& entry : entries) sample.push_back(entry.program);
  const u32 number = create_segment(cluster, sample, std::move(common), 0);
  clusters_[cluster].large->segments[number]->reshape_at = grown_from(static_cast<u32>(entries.size()));
  add_to_segment(cluster, number, entries);
}

// Adds the first of these, as many as there is room for; returns how many.
u32 Index::add_to_segment(u32 cluster, u32 number, std::span<const Newcomer> entries) {
  Segment& segment = *clusters_[cluster].large->segments[number];
  const u32 count = std::min(static_cast<u32>(entries.size()), segment.room());
  u32 positions[64];
  for (u32 done = 0; done < count;) {
    const u32 added = segment.add(entries.subspan(done, count - done), words_, library_, positions);
    for (u32 i = 0; i < added; ++i)
      set_slot(entries[done + i].entry, cluster, kInSegment | number << kSegmentShift | positions[i]);
    done += added;
  }
  placements_ += count;
  return count;
}

void Index::drop_segment(u32 cluster, u32 number) {
  Large& large = *clusters_[cluster].large;
  close_segment(cluster, number);
  large.segments[number].reset();
  std::erase_if(large.relocations, [&](const Relocation& relocation) { return relocation.from == number; });
  for (Relocation& relocation : large.relocations)
    if (relocation.to == number) relocation.to = kNoSegment;
}

// Entries that bind the same attributes, if there are enough of them, are to get a segment of their own: it has fewer
// dimensions and finer buckets. The others go to one whose buckets are chosen anew.
void Index::reshape_segment(u32 cluster, u32 number) {
  Large& large = *clusters_[cluster].large;
  Segment& segment = *large.segments[number];
  segment.reshape_at = kNever;
  large.relocations.insert(large.relocations.begin(), {number, kEveryShape});
  const std::vector<u32> counts = segment.marks();
  for (u32 mark = 0; mark < counts.size(); ++mark)
    if (counts[mark] >= kShapeMin) large.relocations.insert(large.relocations.begin() + 1, {number, static_cast<u16>(mark)});
}

// Moves a few of the entries that are to leave a segment, so that nobody waits for all of them.
void Index::work_off(u32 cluster) {
  if (clusters_[cluster].large == nullptr || clusters_[cluster].large->relocations.empty()) return;
  Large& large = *clusters_[cluster].large;
  Relocation& next = large.relocations.back();
  const u32 from = next.from;
  const Segment& segment = *large.segments[from];
  std::vector<u32> positions = segment.positions_of(next.mark, kMovedMax);
  const bool is_rest = next.mark == kEveryShape, is_last = positions.size() < kMovedMax;
  if (!is_rest && !positions.empty()) next.to = segment_of_shape(cluster, segment, positions);
  if (is_rest && next.to == kNoSegment) {
    close_segment(cluster, from);
    next.to = create_segment(cluster, sample_of(segment), segment.common(), segment.shape());
    if (segment.shape() == 0) large.segments[next.to]->reshape_at = grown_from(segment.count());
  }
  const bool is_done = positions.empty() || (move_out(cluster, from, positions, next.to) && is_last);
  if (segment.count() == 0) drop_segment(cluster, from);
  else if (is_done && !is_rest) large.relocations.pop_back();
}

// Where the entries at these positions, or those of them with the shape of the first, have a segment of their own.
u32 Index::segment_of_shape(u32 cluster, const Segment& segment, std::vector<u32>& positions) {
  const auto program_at = [&](u32 position) { return program_of(segment.entry_at(position)); };
  const u64 shape = segment.shape_of(program_at(positions.front()), words_, library_);
  // Marks are short: what has the mark but another shape stays.
  std::erase_if(positions, [&](u32 position) { return segment.shape_of(program_at(position), words_, library_) != shape; });
  const Large& large = *clusters_[cluster].large;
  const i32 known = segment_for(large, program_at(positions.front()));
  if (known >= 0 && large.segments[static_cast<u32>(known)]->shape() == shape) return static_cast<u32>(known);
  std::vector<ProgramView> sample;
  for (const u32 position : positions) sample.push_back(program_at(position));
  return create_segment(cluster, sample, segment.common(), shape);
}

std::vector<ProgramView> Index::sample_of(const Segment& segment) const {
  std::vector<ProgramView> sample;
  const u32 apart = 1 + segment.count() / kSampled;
  u32 seen = 0;
  segment.each_position([&](u32 position) {
    if (seen++ % apart == 0) sample.push_back(program_of(segment.entry_at(position)));
  });
  return sample;
}

// Moves these entries as long as there is room; false, and no place to go, once there is none.
bool Index::move_out(u32 cluster, u32 from, const std::vector<u32>& positions, u32& to) {
  auto& segments = clusters_[cluster].large->segments;
  std::vector<Newcomer> movers;
  for (const u32 position : positions)
    movers.push_back(newcomer(segments[from]->entry_at(position), segments[from]->target_at(position)));
  const u32 moved = add_to_segment(cluster, to, movers);
  for (u32 i = 0; i < moved; ++i) segments[from]->remove(positions[i]);
  if (segments[to]->has_room()) return true;
  close_segment(cluster, to);
  to = kNoSegment;
  return false;
}

void Index::take_out(u32 cluster, u32 slot, u32 entry) {
  Cluster& from = clusters_[cluster];
  if (!(slot & kInSegment)) {
    assert((from.list.entry()[slot] & ~kNeedsCheck) == entry);
    if (const u32 moved = from.list.remove(slot)) set_slot(moved, cluster, slot);
    return;
  }
  const u32 number = (slot & ~kInSegment) >> kSegmentShift;
  auto& large = *from.large;
  auto& segment = large.segments[number];
  assert(segment->entry_at(slot % kSegmentEntries) == entry);
  static_cast<void>(entry);
  const bool was_full = !segment->has_room();
  segment->remove(slot % kSegmentEntries);
  const bool is_leaving = large.is_leaving(number);
  if (was_full && !is_leaving) open_segment(cluster, number);
  if (segment->count() == 0) {
    drop_segment(cluster, number);
    if (std::ranges::all_of(large.segments, [](const auto& s) { return s == nullptr; })) from.large.reset();
  } else if (segment->capacity() > 2 * kBlockEntries && segment->count() * 4 < segment->capacity() && !is_leaving) {
    large.relocations.insert(large.relocations.begin(), {number, kEveryShape});
  }
}

void Index::drop_cluster_if_empty(u32 cluster) {
  if (cluster == root_cluster_ || !clusters_[cluster].is_used || !clusters_[cluster].is_empty()) return;
  const u32 key = clusters_[cluster].access_key, attribute = clusters_[cluster].access_attribute;
  clusters_.give(cluster);
  if (key != 0) {
    words_.key(key).cluster = 0;
    words_.forget_unused_key(key);
  } else {
    words_.attribute(attribute).presence_cluster = 0;
  }
}

std::vector<std::pair<std::string, std::size_t>> Index::memory() const {
  std::size_t clusters = clusters_.bytes(), placements = places_.bytes() + conjunctions_.bytes();
  for (u32 i = 1; i < clusters_.limit(); ++i) clusters += clusters_[i].bytes();
  for (u32 i = 1; i < places_.limit(); ++i) placements += places_[i].capacity() * sizeof(Placement);
  for (u32 i = 1; i < conjunctions_.limit(); ++i) placements += conjunctions_[i].capacity() * sizeof(u32);
  const std::size_t subscriptions = references_.bytes() + marks_.capacity() * sizeof(Mark);
  return {{"names and keys", words_.bytes()}, {"programs", arena_.bytes() + library_.bytes()},
          {"program table", by_program_.bytes()}, {"clusters", clusters}, {"placements", placements},
          {"members", members_.bytes()}, {"subscriptions", subscriptions}};
}

std::size_t Index::bytes() const {
  std::size_t total = 0;
  for (const auto& [part, size] : memory()) total += size;
  return total;
}

}  // namespace tidewire
