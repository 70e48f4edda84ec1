#include "poset.hpp"

namespace tidewire {

namespace {

constexpr u32 kRelaxationsMax = 2048;

u32 sides_of(const PatternKey& pattern) {
  u32 sides = 0;
  for (const Element& element : pattern)
    sides += element.form == Form::kLower || element.form == Form::kUpper ? 1
             : element.form == Form::kBoth || element.form == Form::kHull || element.form == Form::kSet ? 2
                                                                          : 0;
  return sides;
}

// A wider set is wider: where sets have two ends, their width tells most of them apart at once.
bool has_width(const Element& element) {
  return (element.form == Form::kBoth || element.form == Form::kHull || element.form == Form::kSet) &&
         (element.kind == Kind::kNumber || element.kind == Kind::kTimestamp);
}

// Could a set of the first form cover one of the second?
bool could_cover(const Element& wide, const Element& narrow) {
  switch (wide.form) {
    case Form::kAbsent: return narrow.form == Form::kAbsent;
    case Form::kPresent: return narrow.form != Form::kAbsent;
    case Form::kAnyNumber: return narrow.form == Form::kAnyNumber || narrow.kind == Kind::kNumber;
    default: break;
  }
  if (wide.kind != narrow.kind) return false;
  switch (wide.form) {
    case Form::kKind: return true;
    case Form::kPoint: return narrow.form == Form::kPoint && narrow.point == wide.point;
    case Form::kSet: return narrow.form == Form::kPoint || narrow.form == Form::kSet;
    case Form::kLower: return narrow.form >= Form::kPoint && narrow.form != Form::kUpper;
    case Form::kUpper: return narrow.form >= Form::kPoint && narrow.form != Form::kLower;
    case Form::kBoth: return narrow.form >= Form::kPoint && narrow.form != Form::kLower && narrow.form != Form::kUpper;
    default: return narrow.form >= Form::kPoint;
  }
}

bool could_cover(const PatternKey& wide, const PatternKey& narrow) {
  std::size_t j = 0;
  for (const Element& element : wide) {
    while (j < narrow.size() && narrow[j].attribute < element.attribute) ++j;
    if (j == narrow.size() || narrow[j].attribute != element.attribute || !could_cover(element, narrow[j])) return false;
  }
  return true;
}

bool is_point(Kind kind, const Interval& interval) {
  if (kind == Kind::kNumber) return interval.low == interval.high;
  if (kind == Kind::kBool || kind == Kind::kTimestamp) return interval.time_low == interval.time_high;
  return interval.has_high && interval.text_high.size() == interval.text_low.size() + 1 &&
         interval.text_high.back() == '\0' && interval.text_high.starts_with(interval.text_low);
}

u64 bit_of(u64 hash) { return u64{1} << (hash >> 58) | u64{1} << (hash >> 52 & 63); }

u64 hash_of_low(Kind kind, const Interval& interval, u64 seed) {
  if (kind == Kind::kNumber) return hash_u64(key_of_double(interval.low.d) + static_cast<u64>(interval.low.r) * kMix0, seed);
  if (kind == Kind::kBool || kind == Kind::kTimestamp) return hash_u64(key_of_int(interval.time_low), seed);
  return hash_bytes(interval.text_low.data(), interval.text_low.size(), seed);
}

// Coarse keys; larger means further out on both sides.
Reach::Side side_of(const FilterSpec& spec, const Constraint& constraint) {
  constexpr u64 kEverything = ~u64{0};
  if (constraint.interval_count == 0) return {kEverything, kEverything, kEverything};
  const Interval& first = spec.intervals[constraint.interval_first];
  const Interval& last = spec.intervals[constraint.interval_first + constraint.interval_count - 1];
  switch (constraint.kind) {
    case Kind::kNumber: {
      const double width = first.low.d == last.high.d ? 0.0 : last.high.d - first.low.d;
      return {~key_of_double(first.low.d), key_of_double(last.high.d), key_of_double(width)};
    }
    case Kind::kBool:
    case Kind::kTimestamp: {
      const u64 low = key_of_int(first.time_low), high = key_of_int(last.time_high);
      return {~low, high, high - low};
    }
    default: return {~key_of_string(first.text_low), last.has_high ? key_of_string(last.text_high) : kEverything, 0};
  }
}

}  // namespace

Element Poset::element_of(const FilterSpec& spec, const Constraint& constraint) const {
  Element element;
  element.attribute = hash_bytes(constraint.attribute.data(), constraint.attribute.size(), seed_);
  element.kind = constraint.kind;
  switch (constraint.kind) {
    case Kind::kAbsent: element.form = Form::kAbsent; return element;
    case Kind::kPresent: element.form = Form::kPresent; return element;
    case Kind::kAnyNumber: element.form = Form::kAnyNumber; return element;
    default: break;
  }
  const bool is_plain = constraint.interval_count == 1 && constraint.like_count + constraint.unlike_count == 0;
  const Interval& only = spec.intervals[constraint.interval_first];
  bool from = false, to = false;
  switch (constraint.kind) {
    case Kind::kNumber:
      from = only.low.d != -kInfinity;
      to = only.high.d != kInfinity;
      break;
    case Kind::kBool:
    case Kind::kTimestamp:
      from = only.time_low != (constraint.kind == Kind::kBool ? 0 : std::numeric_limits<i64>::min());
      to = only.time_high != (constraint.kind == Kind::kBool ? 1 : std::numeric_limits<i64>::max());
      break;
    default:
      from = !only.text_low.empty();
      to = only.has_high;
  }
  if (!is_plain) {
    const Interval* first = &spec.intervals[constraint.interval_first];
    const bool is_set = constraint.like_count + constraint.unlike_count == 0 &&
                        std::all_of(first, first + constraint.interval_count,
                                    [&](const Interval& i) { return is_point(constraint.kind, i); });
    element.form = is_set ? Form::kSet : Form::kHull;
  } else if (is_point(constraint.kind, only)) {
    element.form = Form::kPoint;
    element.point = hash_bytes(constraint.raw.data(), constraint.raw.size(), seed_);
  } else {
    element.form = from && to ? Form::kBoth : from ? Form::kLower : to ? Form::kUpper : Form::kKind;
  }
  return element;
}

void Poset::add_bits(const FilterSpec& spec, const Constraint& constraint, const Element& element, Reach& into) const {
  const Interval* first = spec.intervals.data() + constraint.interval_first;
  if (element.form == Form::kSet || element.form == Form::kPoint)
    for (u32 i = 0; i < constraint.interval_count; ++i)
      into.members |= bit_of(hash_of_low(constraint.kind, first[i], element.attribute));
  if (element.form != Form::kHull) return;
  u64 bits = 0;
  for (u32 i = 0; i < constraint.like_count; ++i) {
    const std::string_view pattern = spec.patterns[constraint.like_first + i];
    bits |= bit_of(hash_bytes(pattern.data(), pattern.size(), element.attribute));
  }
  for (u32 i = 0; i < constraint.unlike_count; ++i) {
    const std::string_view pattern = spec.patterns[constraint.unlike_first + i];
    bits |= bit_of(hash_bytes(pattern.data(), pattern.size(), ~element.attribute));
  }
  into.needs |= bits;
  into.has |= bits;
  // A gap of one value, in a set that has no other bounds, is like a pattern: who covers it must have no other gaps.
  bool only_points_lack = true;
  u64 gaps = 0;
  for (u32 i = 0; i + 1 < constraint.interval_count; ++i) {
    const bool is_one = constraint.kind == Kind::kNumber ? before(before(first[i + 1].low)) == first[i].high
                        : constraint.kind == Kind::kTimestamp ? first[i + 1].time_low - first[i].time_high == 2
                        : constraint.kind != Kind::kBool && first[i + 1].text_low.size() == first[i].text_high.size() + 1 &&
                              first[i + 1].text_low.back() == '\0' && first[i + 1].text_low.starts_with(first[i].text_high);
    only_points_lack &= is_one;
    if (is_one) gaps |= bit_of(hash_of_low(constraint.kind, first[i + 1], element.attribute + 1));
  }
  const Interval& last = first[constraint.interval_count - 1];
  const bool is_unbound = constraint.kind == Kind::kNumber ? first->low.d == -kInfinity && last.high.d == kInfinity
                          : constraint.kind == Kind::kTimestamp
                              ? first->time_low == std::numeric_limits<i64>::min() && last.time_high == std::numeric_limits<i64>::max()
                              : first->text_low.empty() && !last.has_high;
  into.needs |= gaps;
  into.has |= only_points_lack && is_unbound ? gaps : ~u64{0};
}

void Poset::reach_of(const FilterSpec& spec, const Conjunction& conjunction, Reach& into) const {
  into.needs = into.has = into.members = 0;
  const u32 count = conjunction.constraint_count;
  into.pattern.resize(count);
  into.sides.resize(count);
  for (u32 i = 0; i < count; ++i) {
    const Constraint& constraint = spec.constraints[conjunction.constraint_first + i];
    const Element element = element_of(spec, constraint);
    u32 place = i;  // insertion sort: there are few
    for (; place > 0 && into.pattern[place - 1].attribute > element.attribute; --place) {
      into.pattern[place] = into.pattern[place - 1];
      into.sides[place] = into.sides[place - 1];
    }
    into.pattern[place] = element;
    into.sides[place] = side_of(spec, constraint);
    add_bits(spec, constraint, element, into);
  }
}

u64 Poset::hash_of(const Element& element) const {
  return hash_u64(element.attribute ^ element.point, static_cast<u64>(element.kind) << 8 | static_cast<u64>(element.form));
}

// A sum: the pattern can be hashed element by element, in any order.
u64 Poset::hash_of(const PatternKey& pattern) const {
  u64 hash = seed_;
  for (const Element& element : pattern) hash += hash_of(element);
  return hash;
}

u32 Poset::find_group(const PatternKey& pattern, u64 hash) const {
  return by_pattern_.find(TagTable::tag_of(hash), [&](u32 id) { return groups_[id]->hash == hash && groups_[id]->pattern == pattern; });
}

namespace {

u64 form_key(const Element& element) {
  return hash_u64(element.attribute, static_cast<u64>(element.kind) << 8 | static_cast<u64>(element.form));
}

}  // namespace

u32 Poset::group_for(const PatternKey& pattern) {
  const u64 hash = hash_of(pattern);
  if (const u32 found = find_group(pattern, hash)) return found;
  const u32 id = groups_.take();
  const auto widths = static_cast<u32>(std::count_if(pattern.begin(), pattern.end(), has_width));
  groups_[id] = std::make_unique<Group>(pattern, hash, sides_of(pattern), widths);
  by_pattern_.insert(TagTable::tag_of(hash), id);
  for (const Element& element : pattern) ++form_uses_[form_key(element)];
  return id;
}

void Poset::drop_group(u32 id) {
  const Group& group = *groups_[id];
  for (const Element& element : group.pattern) {
    const auto uses = form_uses_.find(form_key(element));
    if (--uses->second == 0) form_uses_.erase(uses);
  }
  by_pattern_.erase(TagTable::tag_of(group.hash), id);
  groups_.give(id);
}

// The coordinates of a conjunction on the sides of a group's pattern; where it is not bound it reaches everything.
void Poset::point_in(const PatternKey& pattern, const Reach& reach, std::vector<u64>& into) {
  constexpr u64 kEverything = ~u64{0};
  into.clear();
  std::size_t j = 0, widths = 0;
  for (const Element& element : pattern) {
    if (element.form < Form::kSet) continue;
    while (j < reach.pattern.size() && reach.pattern[j].attribute < element.attribute) ++j;
    const bool is_bound = j < reach.pattern.size() && reach.pattern[j].attribute == element.attribute;
    const Reach::Side side = is_bound ? reach.sides[j] : Reach::Side{kEverything, kEverything, kEverything};
    if (has_width(element)) into.insert(into.begin() + static_cast<std::ptrdiff_t>(widths++), side.width);
    if (element.form != Form::kUpper) into.push_back(side.low);
    if (element.form != Form::kLower) into.push_back(side.high);
  }
}

template <class Visit>
void Poset::relax(std::size_t next, u64 hash, Visit& visit) {
  if (next == options_.size()) {
    if (const u32 group = find_group(relaxed_, hash)) visit(group);
    return;
  }
  relax(next + 1, hash, visit);
  for (const Element& element : options_[next]) {
    relaxed_.push_back(element);
    relax(next + 1, hash + hash_of(element), visit);
    relaxed_.pop_back();
  }
}

// Every group whose pattern could cover this conjunction's.
template <class Visit>
void Poset::relaxed_groups(const PatternKey& pattern, Visit visit) {
  u64 product = 1;
  options_.resize(pattern.size());
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    options_[i].clear();
    const Element& own = pattern[i];
    constexpr Form kForms[] = {Form::kAbsent, Form::kPresent, Form::kAnyNumber, Form::kKind, Form::kPoint,
                               Form::kSet,    Form::kLower,   Form::kUpper,     Form::kBoth, Form::kHull};
    for (const Form form : kForms) {
      Element wide{own.attribute, form == Form::kPoint ? own.point : 0, own.kind, form};
      if (form == Form::kAbsent) wide.kind = Kind::kAbsent;
      if (form == Form::kPresent) wide.kind = Kind::kPresent;
      if (form == Form::kAnyNumber) wide.kind = Kind::kAnyNumber;
      if (could_cover(wide, own) && form_uses_.contains(form_key(wide))) options_[i].push_back(wide);
    }
    product = std::min<u64>(product * (options_[i].size() + 1), u64{1} << 32);
  }
  if (product <= kRelaxationsMax) {
    relaxed_.clear();
    relax(0, seed_, visit);
    return;
  }
  for (u32 id = 1; id < groups_.limit(); ++id)
    if (groups_[id] != nullptr && could_cover(groups_[id]->pattern, pattern)) visit(id);
}

// Every group with roots whose pattern this one could cover, by the element that the fewest of them have.
template <class Visit>
void Poset::refined_root_groups(const PatternKey& pattern, Visit visit) const {
  const std::unordered_set<u32>* fewest = &all_root_groups_;
  for (const Element& element : pattern) {
    const auto found = root_groups_.find(element.form == Form::kPoint ? hash_of(element) : element.attribute);
    if (found == root_groups_.end()) return;
    if (found->second.size() < fewest->size()) fewest = &found->second;
  }
  for (const u32 group : *fewest)
    if (could_cover(pattern, groups_[group]->pattern)) visit(group);
}

std::string_view Poset::filter(u32 node) const {
  return {reinterpret_cast<const char*>(arena_.at(nodes_[node].bytes)), nodes_[node].size};
}

const FilterSpec& Poset::parsed(u32 node, FilterSpec& into) const {
  parse_filter(filter(node), into);
  return into;
}

// Of two filters that cover each other the older one is the parent, so that there is no circle.
bool Poset::covers_strictly(const FilterSpec& wide, u32 wide_node, const FilterSpec& narrow, u32 narrow_node) const {
  if (wide_node == narrow_node || !covers(wide, narrow)) return false;
  return nodes_[wide_node].age < nodes_[narrow_node].age || !covers(narrow, wide);
}

namespace {

// Which bits of the narrow one count, beside a wide one of this pattern? Where the narrow one is no hull itself, what the
// wide one needs may follow from its values, and every bit does.
u64 counted_bits(const PatternKey& wide, const PatternKey& narrow, u64 has) {
  std::size_t j = 0;
  for (const Element& element : wide) {
    if (element.form != Form::kHull) continue;
    while (j < narrow.size() && narrow[j].attribute < element.attribute) ++j;
    if (j == narrow.size() || narrow[j].attribute != element.attribute || narrow[j].form != Form::kHull) return ~u64{0};
  }
  return has;
}

// The same for members: they are compared where the wide one is a set on all attributes on which the narrow one has any.
bool compares_members(const PatternKey& wide, const PatternKey& narrow) {
  std::size_t j = 0;
  for (const Element& element : narrow) {
    if (element.form != Form::kSet && element.form != Form::kPoint) continue;
    while (j < wide.size() && wide[j].attribute < element.attribute) ++j;
    if (j == wide.size() || wide[j].attribute != element.attribute) return false;
    if (wide[j].form != Form::kSet && wide[j].form != Form::kPoint) return false;
  }
  return true;
}

}  // namespace

u32 Poset::find_parent(u32 node, const FilterSpec& spec) {
  if (spec.conjunctions.empty()) return 0;
  u32 best = 0;
  std::size_t best_elements = 0;
  reach_of(spec, spec.conjunctions[0], reach_);
  groups_found_.clear();
  relaxed_groups(reach_.pattern, [&](u32 group) { groups_found_.push_back(group); });
  for (const u32 id : groups_found_) {
    const Group& group = *groups_[id];
    // A pattern with more elements is closer; only a closer one is worth the search.
    if (best != 0 && group.pattern.size() <= best_elements) continue;
    point_in(group.pattern, reach_, point_);
    const u64 has = counted_bits(group.pattern, reach_.pattern, reach_.has);
    const u64 members = compares_members(group.pattern, reach_.pattern) ? reach_.members : 0;
    const u32 found = group.all.closest_above(point_.data(), [&](u32 r) {
      const Registration& registration = registrations_[r];
      if ((registration.needs & ~has) != 0 || (members & ~registration.members) != 0 || registration.node == node)
        return Verdict::kPassedOver;
      const bool covers_it = covers_strictly(parsed(registration.node, other_), registration.node, spec, node);
      return covers_it ? Verdict::kAccepted : Verdict::kRefused;
    });
    if (found == 0) continue;
    best = registrations_[found].node;
    best_elements = group.pattern.size();
  }
  return best;
}

void Poset::attach(u32 node, u32 parent) {
  Node& record = nodes_[node];
  record.parent = parent;
  record.previous = 0;
  record.next = nodes_[parent].first_child;
  if (record.next != 0) nodes_[record.next].previous = node;
  nodes_[parent].first_child = node;
}

void Poset::detach(u32 node) {
  Node& record = nodes_[node];
  if (record.parent == 0) return;
  if (record.previous != 0) nodes_[record.previous].next = record.next;
  else nodes_[record.parent].first_child = record.next;
  if (record.next != 0) nodes_[record.next].previous = record.previous;
  record.parent = record.next = record.previous = 0;
}

std::vector<u32> Poset::children(u32 node) const {
  std::vector<u32> found;
  for (u32 child = nodes_[node].first_child; child != 0; child = nodes_[child].next) found.push_back(child);
  return found;
}

void Poset::note_change(u32 node, bool is_root) {
  if (is_noting_) changes_.emplace_back(filter(node), is_root);
}

std::vector<std::pair<std::string, bool>> Poset::take_changes() {
  is_noting_ = true;
  std::unordered_map<std::string_view, u32> flips;  // twice is as never
  for (const auto& [filter, is_root] : changes_) ++flips[filter];
  std::vector<std::pair<std::string, bool>> left;
  for (auto& change : changes_)
    if (u32& count = flips[change.first]; count % 2 == 1) {
      count = 0;
      left.push_back(change);
    }
  changes_.clear();
  return left;
}

void Poset::make_root(u32 node, const FilterSpec& spec) {
  if (spec.conjunctions.empty()) return;  // what is never true is neither covered nor does it cover
  roots_.push_back(node);
  nodes_[node].root_place = static_cast<u32>(roots_.size());
  note_change(node, true);
  for (u32 r = nodes_[node].registration; r != 0; r = registrations_[r].next) {
    const u32 id = registrations_[r].group;
    Group& group = *groups_[id];
    reach_of(spec, spec.conjunctions[registrations_[r].conjunction], reach_);
    point_in(group.pattern, reach_, point_);
    group.roots.insert(point_.data(), r);
    if (group.roots.size() > 1) continue;
    all_root_groups_.insert(id);
    for (const Element& element : group.pattern) {
      root_groups_[element.attribute].insert(id);
      if (element.form == Form::kPoint) root_groups_[hash_of(element)].insert(id);
    }
  }
}

void Poset::end_root(u32 node, const FilterSpec& spec) {
  const u32 place = nodes_[node].root_place - 1;
  roots_[place] = roots_.back();
  nodes_[roots_[place]].root_place = place + 1;
  roots_.pop_back();
  nodes_[node].root_place = 0;
  note_change(node, false);
  const auto forget = [&](u64 key, u32 id) {
    const auto found = root_groups_.find(key);
    found->second.erase(id);
    if (found->second.empty()) root_groups_.erase(found);
  };
  for (u32 r = nodes_[node].registration; r != 0; r = registrations_[r].next) {
    const u32 id = registrations_[r].group;
    Group& group = *groups_[id];
    reach_of(spec, spec.conjunctions[registrations_[r].conjunction], reach_);
    point_in(group.pattern, reach_, point_);
    group.roots.remove(point_.data(), r);
    if (group.roots.size() > 0) continue;
    all_root_groups_.erase(id);
    for (const Element& element : group.pattern) {
      forget(element.attribute, id);
      if (element.form == Form::kPoint) forget(hash_of(element), id);
    }
  }
}

void Poset::register_node(u32 node, const FilterSpec& spec) {
  for (u32 i = 0; i < spec.conjunctions.size(); ++i) {
    reach_of(spec, spec.conjunctions[i], reach_);
    const u32 group = group_for(reach_.pattern);
    const u32 registration = registrations_.take();
    registrations_[registration] = {node, i, group, nodes_[node].registration, reach_.needs, reach_.has, reach_.members};
    nodes_[node].registration = registration;
    point_in(reach_.pattern, reach_, point_);
    groups_[group]->all.insert(point_.data(), registration);
  }
}

void Poset::unregister_node(u32 node, const FilterSpec& spec) {
  for (u32 r = nodes_[node].registration; r != 0;) {
    const Registration registration = registrations_[r];
    Group& group = *groups_[registration.group];
    reach_of(spec, spec.conjunctions[registration.conjunction], reach_);
    point_in(group.pattern, reach_, point_);
    group.all.remove(point_.data(), r);
    registrations_.give(r);
    if (group.all.size() == 0) drop_group(registration.group);
    r = registration.next;
  }
  nodes_[node].registration = 0;
}

// A new root takes over the roots that it covers.
void Poset::adopt_roots(u32 node, const FilterSpec& spec) {
  std::unordered_set<u32> seen;
  std::vector<u32> covered;
  for (const Conjunction& conjunction : spec.conjunctions) {
    reach_of(spec, conjunction, reach_);
    refined_root_groups(reach_.pattern, [&](u32 id) {
      const PatternKey& theirs = groups_[id]->pattern;
      point_in(theirs, reach_, point_);
      const bool count_all = counted_bits(reach_.pattern, theirs, 0) != 0;
      const bool count_members = compares_members(reach_.pattern, theirs);
      groups_[id]->roots.each_below(point_.data(), [&](u32 r) {
        const Registration& registration = registrations_[r];
        if (!count_all && (reach_.needs & ~registration.has) != 0) return;
        if (count_members && (registration.members & ~reach_.members) != 0) return;
        const u32 candidate = registration.node;
        if (candidate == node || !seen.insert(candidate).second) return;
        if (covers_strictly(spec, node, parsed(candidate, other_), candidate)) covered.push_back(candidate);
      });
    });
  }
  std::sort(covered.begin(), covered.end());  // the sets above have no order of their own
  for (const u32 root : covered) {
    end_root(root, parsed(root, other_));
    attach(root, node);
  }
}

// The next one below in the same group, if it hangs from the same parent, belongs under the new one.
void Poset::adopt_neighbour(u32 node, const FilterSpec& spec) {
  if (spec.conjunctions.size() != 1) return;
  const Group& group = *groups_[registrations_[nodes_[node].registration].group];
  reach_of(spec, spec.conjunctions[0], reach_);
  point_in(group.pattern, reach_, point_);
  const u32 parent = nodes_[node].parent;
  const u32 found = group.all.closest_below(point_.data(), [&](u32 r) {
    const Registration& registration = registrations_[r];
    const bool could_be = (reach_.needs & ~registration.has) == 0 && (registration.members & ~reach_.members) == 0;
    return could_be && registration.node != node ? Verdict::kAccepted : Verdict::kPassedOver;
  });
  if (found == 0) return;
  const u32 neighbour = registrations_[found].node;
  if (nodes_[neighbour].parent != parent || !covers_strictly(spec, node, parsed(neighbour, other_), neighbour)) return;
  detach(neighbour);
  attach(neighbour, node);
}

u32 Poset::find(std::string_view bytes) const {
  const u32 tag = TagTable::tag_of(hash_bytes(bytes.data(), bytes.size(), seed_));
  const u32 known = by_bytes_.find(tag, [&](u32 id) { return filter(id) == bytes; });
  return known == TagTable::kNone ? 0 : known;
}

u32 Poset::insert(std::string_view bytes) {
  parse_filter(bytes, own_);
  const u32 tag = TagTable::tag_of(hash_bytes(bytes.data(), bytes.size(), seed_));
  if (const u32 known = find(bytes)) {
    ++nodes_[known].uses;
    return known;
  }
  const u32 node = nodes_.take();
  Node& record = nodes_[node];
  record.size = static_cast<u32>(bytes.size());
  record.bytes = arena_.take(record.size);
  std::memcpy(arena_.at(record.bytes), bytes.data(), bytes.size());
  record.uses = 1;
  record.age = ++age_;
  by_bytes_.insert(tag, node);
  const u32 parent = find_parent(node, own_);
  register_node(node, own_);
  if (parent != 0) {
    attach(node, parent);
    adopt_neighbour(node, own_);
  } else {
    adopt_roots(node, own_);
    make_root(node, own_);
  }
  return node;
}

void Poset::remove(u32 node) {
  if (!has(node)) throw KernelError("subscription-unknown", "the poset has no node " + std::to_string(node));
  if (--nodes_[node].uses > 0) return;
  parsed(node, own_);
  const u32 parent = nodes_[node].parent;
  const std::vector<u32> orphans = children(node);
  if (nodes_[node].root_place != 0) end_root(node, own_);
  detach(node);
  unregister_node(node, own_);
  for (const u32 orphan : orphans) {
    detach(orphan);
    if (parent != 0) {
      attach(orphan, parent);
      continue;
    }
    const FilterSpec& spec = parsed(orphan, third_);
    if (const u32 found = find_parent(orphan, spec)) attach(orphan, found);
    else make_root(orphan, spec);
  }
  const std::string_view bytes = filter(node);
  by_bytes_.erase(TagTable::tag_of(hash_bytes(bytes.data(), bytes.size(), seed_)), node);
  arena_.give(nodes_[node].bytes, nodes_[node].size);
  nodes_.give(node);
}

}  // namespace tidewire
