#include "poset.hpp"

namespace tidewire {

namespace {

constexpr u32 kRelaxationsMax = 2048;
constexpr std::size_t kPostingsMin = 1024, kPostingsShare = 16;

u64 hash_of(const Element& element) {
  const u64 how = static_cast<u64>(element.kind) << 8 | static_cast<u64>(element.form);
  return hash_u64(element.attribute ^ element.point, how);
}

// A sum: the pattern can be hashed element by element, in any order.
u64 hash_of(const PatternKey& pattern, u64 seed) {
  u64 hash = seed;
  for (const Element& element : pattern) hash += hash_of(element);
  return hash;
}

u64 attribute_bits(const PatternKey& pattern) {
  u64 bits = 0;
  for (const Element& element : pattern) bits |= u64{1} << (element.attribute >> 58);
  return bits;
}

Form form_of(const PatternKey& pattern, u64 attribute) {
  for (const Element& element : pattern)
    if (element.attribute == attribute) return element.form;
  return Form::kPresent;
}

// Is it cheaper to go through so many registrations than to search so many in their tree?
bool is_short(std::size_t postings, std::size_t all) {
  return postings <= std::max(kPostingsMin, all / kPostingsShare);
}

// The shortest list in which all registrations stand that could have every member; null if it is too long, or if the
// group has no sets. The empty list means that there are none.
template <class Postings>
const std::vector<u32>* supersets(const PatternKey& pattern, const Postings& by_member, const Reach& reach,
                                  std::size_t all) {
  static const std::vector<u32> kNobody;
  const std::vector<u32>* shortest = nullptr;
  for (const Member& member : reach.members) {
    if (form_of(pattern, member.attribute) != Form::kSet) continue;
    const auto found = by_member.find(member.hash);
    if (found == by_member.end()) return &kNobody;
    if (shortest == nullptr || found->second.size() < shortest->size()) shortest = &found->second;
  }
  return shortest != nullptr && is_short(shortest->size(), all) ? shortest : nullptr;
}

// Visits all registrations that have only such members, and others, maybe more than once; false if it were too many, or
// if there is no attribute on which both are sets.
template <class Postings, class Visit>
bool each_subset(const PatternKey& pattern, const Postings& by_member, const Reach& reach, std::size_t all,
                 Visit visit) {
  const auto on_both = [&](const Element& element) {
    if (element.form != Form::kSet) return false;
    const Form own = form_of(reach.pattern, element.attribute);
    return own == Form::kSet || own == Form::kPoint;
  };
  const auto each_list = [&](u64 attribute, auto take) {
    for (const Member& member : reach.members) {
      if (member.attribute != attribute) continue;
      if (const auto found = by_member.find(member.hash); found != by_member.end()) take(found->second);
    }
  };
  std::size_t least = ~std::size_t{0};
  u64 best = 0;
  for (const Element& element : pattern) {
    if (!on_both(element)) continue;
    std::size_t total = 0;
    each_list(element.attribute, [&](const std::vector<u32>& list) { total += list.size(); });
    if (total < least) best = element.attribute;
    least = std::min(least, total);
  }
  if (!is_short(least, all)) return false;
  each_list(best, [&](const std::vector<u32>& list) { std::for_each(list.begin(), list.end(), visit); });
  return true;
}

}  // namespace

void Poset::reaches_of(const FilterSpec& spec, Reaches& into) const {
  if (into.size() < spec.conjunctions.size()) into.resize(spec.conjunctions.size());
  for (std::size_t i = 0; i < spec.conjunctions.size(); ++i) reach_of(spec, spec.conjunctions[i], seed_, into[i]);
}

u32 Poset::find_group(const PatternKey& pattern, u64 hash) const {
  return by_pattern_.find(TagTable::tag_of(hash), [&](u32 id) {
    return groups_[id]->hash == hash && groups_[id]->pattern == pattern;
  });
}

u32 Poset::group_for(const PatternKey& pattern) {
  const u64 hash = hash_of(pattern, seed_);
  if (const u32 found = find_group(pattern, hash)) return found;
  const u32 id = groups_.take();
  groups_[id] = std::make_unique<Group>(pattern, hash, dimensions_of(pattern));
  groups_[id]->attributes = attribute_bits(pattern);
  by_pattern_.insert(TagTable::tag_of(hash), id);
  for (const Element& element : pattern) {
    std::vector<FormUse>& uses = form_uses_[element.attribute];
    const auto same = [&](const FormUse& use) { return use.kind == element.kind && use.form == element.form; };
    const auto found = std::find_if(uses.begin(), uses.end(), same);
    if (found == uses.end()) uses.push_back({element.kind, element.form, 1});
    else ++found->groups;
  }
  return id;
}

void Poset::drop_group(u32 id) {
  const Group& group = *groups_[id];
  for (const Element& element : group.pattern) {
    const auto uses = form_uses_.find(element.attribute);
    const auto same = [&](const FormUse& use) { return use.kind == element.kind && use.form == element.form; };
    const auto found = std::find_if(uses->second.begin(), uses->second.end(), same);
    if (--found->groups > 0) continue;
    uses->second.erase(found);
    if (uses->second.empty()) form_uses_.erase(uses);
  }
  by_pattern_.erase(TagTable::tag_of(group.hash), id);
  groups_.give(id);
}

// Under all attributes of its pattern, under its points, and among all.
void Poset::list_group(u32 id) {
  Group& group = *groups_[id];
  group.places.clear();
  const auto list = [&](Listing& listing) {
    group.places.push_back(static_cast<u32>(listing.size()));
    listing.push_back({group.attributes, id, static_cast<u32>(group.places.size() - 1)});
  };
  list(all_root_groups_);
  for (const Element& element : group.pattern) {
    list(root_groups_[element.attribute]);
    if (element.form == Form::kPoint) list(root_groups_[hash_of(element)]);
  }
}

void Poset::unlist_group(u32 id) {
  Group& group = *groups_[id];
  u32 number = 0;
  const auto unlist = [&](Listing& listing) {
    const u32 place = group.places[number++];
    listing[place] = listing.back();
    groups_[listing[place].group]->places[listing[place].number] = place;
    listing.pop_back();
  };
  const auto forget = [&](u64 key) {
    const auto found = root_groups_.find(key);
    unlist(found->second);
    if (found->second.empty()) root_groups_.erase(found);
  };
  unlist(all_root_groups_);
  for (const Element& element : group.pattern) {
    forget(element.attribute);
    if (element.form == Form::kPoint) forget(hash_of(element));
  }
}

template <class Visit>
void Poset::relax(std::size_t next, u64 hash, Visit& visit) {
  if (next == options_.size()) {
    if (const u32 group = find_group(relaxed_, hash)) visit(group);
    return;
  }
  relax(next + 1, hash, visit);
  for (const Option& option : options_[next]) {
    relaxed_.push_back(option.element);
    relax(next + 1, hash + option.hash, visit);
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
    if (const auto uses = form_uses_.find(own.attribute); uses != form_uses_.end())
      for (const FormUse& use : uses->second) {
        const Element wide{own.attribute, use.form == Form::kPoint ? own.point : 0, use.kind, use.form};
        if (could_cover(wide, own)) options_[i].push_back({wide, hash_of(wide)});
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
  const Listing* fewest = &all_root_groups_;
  for (const Element& element : pattern) {
    const auto found = root_groups_.find(element.form == Form::kPoint ? hash_of(element) : element.attribute);
    if (found == root_groups_.end()) return;
    if (found->second.size() < fewest->size()) fewest = &found->second;
  }
  const u64 attributes = attribute_bits(pattern);
  for (const Listed& listed : *fewest)
    if ((attributes & ~listed.attributes) == 0 && could_cover(pattern, groups_[listed.group]->pattern))
      visit(listed.group);
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

// Of the filters of a group that cover this one, a closest one's registration; 0 if there is none.
u32 Poset::closest_cover(const Group& group, u32 node, const FilterSpec& spec, const Reach& reach) {
  const u64 has = counted_bits(group.pattern, reach.pattern, reach.has_bits);
  const u64 members = compares_members(group.pattern, reach.pattern) ? reach.member_bits : 0;
  const auto could_be = [&](u32 r) {
    const Registration& other = registrations_[r];
    return (other.needs_bits & ~has) == 0 && (members & ~other.member_bits) == 0 && other.node != node;
  };
  const auto* few = supersets(group.pattern, group.by_member, reach, group.all.size());
  if (few == nullptr) {
    point_in(group.pattern, reach, Role::kNarrow, point_);
    return group.all.closest_above(point_.data(), [&](u32 r) {
      if (!could_be(r)) return Verdict::kPassedOver;
      const u32 other = registrations_[r].node;
      return covers_strictly(parsed(other, other_), other, spec, node) ? Verdict::kAccepted : Verdict::kRefused;
    });
  }
  u32 found = 0;
  for (const u32 r : *few) {
    if (!could_be(r)) continue;
    const u32 other = registrations_[r].node;
    if (!covers_strictly(parsed(other, other_), other, spec, node)) continue;
    if (found != 0 && !covers(closest_, other_)) continue;
    found = r;
    std::swap(closest_, other_);
  }
  return found;
}

u32 Poset::find_parent(u32 node, const FilterSpec& spec, const Reach& reach) {
  if (spec.conjunctions.empty()) return 0;
  u32 best = 0;
  std::size_t best_elements = 0;
  groups_found_.clear();
  relaxed_groups(reach.pattern, [&](u32 group) { groups_found_.push_back(group); });
  for (const u32 id : groups_found_) {
    const Group& group = *groups_[id];
    // A pattern with more elements is closer; only a closer one is worth the search.
    if (best != 0 && group.pattern.size() <= best_elements) continue;
    const u32 found = closest_cover(group, node, spec, reach);
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

void Poset::make_root(u32 node, const Reaches& reaches) {
  if (nodes_[node].registration == 0) return;  // what is never true is neither covered nor does it cover
  roots_.push_back(node);
  nodes_[node].root_place = static_cast<u32>(roots_.size());
  note_change(node, true);
  for (u32 r = nodes_[node].registration; r != 0; r = registrations_[r].next) {
    const u32 id = registrations_[r].group;
    Group& group = *groups_[id];
    point_in(group.pattern, reaches[registrations_[r].conjunction], Role::kNarrow, point_);
    group.roots.insert(point_.data(), r);
    if (group.roots.size() == 1) list_group(id);
  }
}

void Poset::end_root(u32 node, const Reaches& reaches) {
  const u32 place = nodes_[node].root_place - 1;
  roots_[place] = roots_.back();
  nodes_[roots_[place]].root_place = place + 1;
  roots_.pop_back();
  nodes_[node].root_place = 0;
  note_change(node, false);
  for (u32 r = nodes_[node].registration; r != 0; r = registrations_[r].next) {
    const u32 id = registrations_[r].group;
    Group& group = *groups_[id];
    point_in(group.pattern, reaches[registrations_[r].conjunction], Role::kNarrow, point_);
    group.roots.remove(point_.data(), r);
    if (group.roots.size() == 0) unlist_group(id);
  }
}

void Poset::register_node(u32 node, const FilterSpec& spec, const Reaches& reaches) {
  for (u32 i = 0; i < spec.conjunctions.size(); ++i) {
    const Reach& reach = reaches[i];
    const u32 id = group_for(reach.pattern);
    const u32 r = registrations_.take();
    registrations_[r] = {node, i, id, nodes_[node].registration, reach.needs_bits, reach.has_bits, reach.member_bits};
    nodes_[node].registration = r;
    Group& group = *groups_[id];
    point_in(group.pattern, reach, Role::kWide, point_);
    group.all.insert(point_.data(), r);
    for (const Member& member : reach.members)
      if (form_of(group.pattern, member.attribute) == Form::kSet) group.by_member[member.hash].push_back(r);
  }
}

void Poset::unregister_node(u32 node, const Reaches& reaches) {
  for (u32 r = nodes_[node].registration; r != 0;) {
    const Registration registration = registrations_[r];
    const Reach& reach = reaches[registration.conjunction];
    Group& group = *groups_[registration.group];
    point_in(group.pattern, reach, Role::kWide, point_);
    group.all.remove(point_.data(), r);
    for (const Member& member : reach.members) {
      if (form_of(group.pattern, member.attribute) != Form::kSet) continue;
      const auto found = group.by_member.find(member.hash);
      std::vector<u32>& list = found->second;
      *std::find(list.begin(), list.end(), r) = list.back();
      list.pop_back();
      if (list.empty()) group.by_member.erase(found);
    }
    registrations_.give(r);
    if (group.all.size() == 0) drop_group(registration.group);
    r = registration.next;
  }
  nodes_[node].registration = 0;
}

// A new root takes over the roots that it covers.
void Poset::adopt_roots(u32 node, const FilterSpec& spec, const Reaches& reaches) {
  std::vector<u32> covered;
  for (std::size_t i = 0; i < spec.conjunctions.size(); ++i) {
    const Reach& reach = reaches[i];
    refined_root_groups(reach.pattern, [&](u32 id) {
      const Group& group = *groups_[id];
      const bool count_all = counted_bits(reach.pattern, group.pattern, 0) != 0;
      const bool count_members = compares_members(reach.pattern, group.pattern);
      const auto look_at = [&](u32 r) {
        const Registration& registration = registrations_[r];
        if (!count_all && (reach.needs_bits & ~registration.has_bits) != 0) return;
        if (count_members && (registration.member_bits & ~reach.member_bits) != 0) return;
        const u32 candidate = registration.node;
        Node& record = nodes_[candidate];
        if (record.root_place == 0 || candidate == node || record.looked_at_by == nodes_[node].age) return;
        record.looked_at_by = nodes_[node].age;
        if (covers_strictly(spec, node, parsed(candidate, other_), candidate)) covered.push_back(candidate);
      };
      if (each_subset(group.pattern, group.by_member, reach, group.roots.size(), look_at)) return;
      point_in(group.pattern, reach, Role::kWide, point_);
      group.roots.each_below(point_.data(), look_at);
    });
  }
  for (const u32 root : covered) {
    reaches_of(parsed(root, other_), other_reaches_);
    end_root(root, other_reaches_);
    attach(root, node);
  }
}

// The next one below in the same group, if it hangs from the same parent, belongs under the new one.
void Poset::adopt_neighbour(u32 node, const FilterSpec& spec, const Reach& reach) {
  if (spec.conjunctions.size() != 1) return;
  const Group& group = *groups_[registrations_[nodes_[node].registration].group];
  const u32 parent = nodes_[node].parent;
  const auto could_be = [&](u32 r) {
    const Registration& other = registrations_[r];
    return (reach.needs_bits & ~other.has_bits) == 0 && (other.member_bits & ~reach.member_bits) == 0 &&
           other.node != node;
  };
  const auto is_to_adopt = [&](u32 r) {
    const u32 other = registrations_[r].node;
    return nodes_[other].parent == parent && covers_strictly(spec, node, parsed(other, other_), other);
  };
  u32 found = 0;
  const bool is_done = each_subset(group.pattern, group.by_member, reach, group.all.size(), [&](u32 r) {
    if (found == 0 && could_be(r) && is_to_adopt(r)) found = r;
  });
  if (!is_done) {
    point_in(group.pattern, reach, Role::kWide, point_);
    found = group.all.closest_below(point_.data(), [&](u32 r) {
      return could_be(r) ? Verdict::kAccepted : Verdict::kPassedOver;
    });
    if (found != 0 && !is_to_adopt(found)) found = 0;
  }
  if (found == 0) return;
  const u32 neighbour = registrations_[found].node;
  detach(neighbour);
  attach(neighbour, node);
}

u32 Poset::find(std::string_view bytes) const {
  const u32 tag = TagTable::tag_of(hash_bytes(bytes.data(), bytes.size(), seed_));
  const u32 known = by_bytes_.find(tag, [&](u32 id) { return filter(id) == bytes; });
  return known == TagTable::kNone ? 0 : known;
}

bool Poset::is_covered(std::string_view bytes) {
  if (find(bytes) != 0) return true;
  parse_filter(bytes, own_);
  reaches_of(own_, reaches_);
  return find_parent(0, own_, reaches_[0]) != 0;
}

u32 Poset::insert(std::string_view bytes) {
  const u32 tag = TagTable::tag_of(hash_bytes(bytes.data(), bytes.size(), seed_));
  if (const u32 known = find(bytes)) {
    ++nodes_[known].uses;
    return known;
  }
  parse_filter(bytes, own_);
  reaches_of(own_, reaches_);
  const u32 node = nodes_.take();
  Node& record = nodes_[node];
  record.size = static_cast<u32>(bytes.size());
  record.bytes = arena_.take(record.size);
  std::memcpy(arena_.at(record.bytes), bytes.data(), bytes.size());
  record.uses = 1;
  record.age = ++age_;
  by_bytes_.insert(tag, node);
  const u32 parent = find_parent(node, own_, reaches_[0]);
  register_node(node, own_, reaches_);
  if (parent != 0) {
    attach(node, parent);
    adopt_neighbour(node, own_, reaches_[0]);
  } else {
    adopt_roots(node, own_, reaches_);
    make_root(node, reaches_);
  }
  return node;
}

void Poset::remove(u32 node) {
  if (!has(node)) throw KernelError("subscription-unknown", "the poset has no node " + std::to_string(node));
  if (--nodes_[node].uses > 0) return;
  reaches_of(parsed(node, own_), reaches_);
  const u32 parent = nodes_[node].parent;
  const std::vector<u32> orphans = children(node);
  if (nodes_[node].root_place != 0) end_root(node, reaches_);
  detach(node);
  unregister_node(node, reaches_);
  for (const u32 orphan : orphans) {
    detach(orphan);
    if (parent != 0) {
      attach(orphan, parent);
      continue;
    }
    const FilterSpec& spec = parsed(orphan, third_);
    reaches_of(spec, reaches_);
    if (const u32 found = find_parent(orphan, spec, reaches_[0])) attach(orphan, found);
    else make_root(orphan, reaches_);
  }
  const std::string_view bytes = filter(node);
  by_bytes_.erase(TagTable::tag_of(hash_bytes(bytes.data(), bytes.size(), seed_)), node);
  arena_.give(nodes_[node].bytes, nodes_[node].size);
  nodes_.give(node);
}

}  // namespace tidewire
