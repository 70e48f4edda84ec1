// The covering order of filters: a forest in which every filter but the most general ones has a parent that covers it.
//
// One node per distinct filter. The roots are the covering set: the filters that no other one covers. A parent is a close
// one: of the filters that cover a node, none that is known to lie between them. Filters are kept in groups of one
// *pattern* (which attributes are bound, how: to a point, from below, from above, both ways), in which covering is
// dominance of a few coordinates; what could cover a filter is found by relaxing its pattern, what it could cover by the
// groups that refine it. Sets of values have no order that would do: they are found by one of their members.
#pragma once

#include <memory>
#include <unordered_map>

#include "covering.hpp"
#include "dominance.hpp"
#include "reach.hpp"
#include "storage.hpp"

namespace tidewire {

class Poset {
 public:
  explicit Poset(u64 seed) : seed_(seed) { nodes_[0].age = ~u64{0}; }  // what is not in it is younger than all that is
  Poset(const Poset&) = default;  // with the same numbers for the nodes

  // The node of this filter, made if it is new; each insertion is to be removed once.
  u32 insert(std::string_view filter);
  void remove(u32 node);
  // The node of a filter that was inserted; 0: there is none.
  u32 find(std::string_view filter) const;
  // Is it in the order, or covered by one that is?
  bool is_covered(std::string_view filter);
  bool has(u32 node) const { return node > 0 && node < nodes_.limit() && nodes_[node].uses > 0; }

  const std::vector<u32>& roots() const { return roots_; }
  u32 parent(u32 node) const { return nodes_[node].parent; }
  std::vector<u32> children(u32 node) const;
  u32 uses(u32 node) const { return nodes_[node].uses; }
  std::string_view filter(u32 node) const;
  u32 size() const { return nodes_.used(); }

  // Which filters have become roots since the last call (true), and which are no longer (false)? In the order in which
  // it happened; what came and went in between is not told. Nothing is noted before the first call.
  std::vector<std::pair<std::string, bool>> take_changes();

 private:
  struct Node {
    u32 bytes = 0, size = 0;
    u32 uses = 0;
    u32 parent = 0, first_child = 0, next = 0, previous = 0;
    u32 root_place = 0;  // in roots_, + 1
    u32 registration = 0;
    u64 age = 0;
    u64 looked_at_by = 0;  // the age of the last one that looked whether it covers this
  };
  // A conjunction of a node, as it stands in a group.
  struct Registration {
    u32 node = 0, conjunction = 0, group = 0;
    u32 next = 0;  // of the same node
    u64 needs_bits = 0, has_bits = 0, member_bits = 0;  // as in Reach
  };
  using Postings = std::unordered_map<u64, std::vector<u32>>;
  struct Group {
    PatternKey pattern;
    u64 hash = 0;
    u64 attributes = 0;  // a bit for each, hashed
    DominanceTree all, roots;
    Postings by_member;  // the registrations that have a value, for the attributes that the pattern binds to sets
    std::vector<u32> places;  // where it stands in the lists of groups with roots
    Group(PatternKey pattern_, u64 hash_, Dimensions dimensions)
        : pattern(std::move(pattern_)), hash(hash_), all(dimensions.all, dimensions.preferred),
          roots(dimensions.all, dimensions.preferred) {}
  };
  // One of the lists of groups with roots has a group here, as the one of this number.
  struct Listed {
    u64 attributes;
    u32 group, number;
  };
  using Listing = std::vector<Listed>;
  // A kind and form that groups bind an attribute to.
  struct FormUse {
    Kind kind;
    Form form;
    u32 groups;
  };
  struct Option {
    Element element;
    u64 hash;
  };
  using Reaches = std::vector<Reach>;  // of a filter's conjunctions; may be longer than they are

  void reaches_of(const FilterSpec& spec, Reaches& into) const;
  u32 find_group(const PatternKey& pattern, u64 hash) const;
  u32 group_for(const PatternKey& pattern);
  void drop_group(u32 group);
  void list_group(u32 group);
  void unlist_group(u32 group);
  template <class Visit>
  void relaxed_groups(const PatternKey& pattern, Visit visit);
  template <class Visit>
  void relax(std::size_t next, u64 hash, Visit& visit);
  template <class Visit>
  void refined_root_groups(const PatternKey& pattern, Visit visit) const;

  u32 find_parent(u32 node, const FilterSpec& spec, const Reach& reach);
  u32 closest_cover(const Group& group, u32 node, const FilterSpec& spec, const Reach& reach);
  bool covers_strictly(const FilterSpec& wide, u32 wide_node, const FilterSpec& narrow, u32 narrow_node) const;
  void adopt_roots(u32 node, const FilterSpec& spec, const Reaches& reaches);
  void adopt_neighbour(u32 node, const FilterSpec& spec, const Reach& reach);
  void attach(u32 node, u32 parent);
  void detach(u32 node);
  void make_root(u32 node, const Reaches& reaches);
  void end_root(u32 node, const Reaches& reaches);
  void register_node(u32 node, const FilterSpec& spec, const Reaches& reaches);
  void unregister_node(u32 node, const Reaches& reaches);
  const FilterSpec& parsed(u32 node, FilterSpec& into) const;
  void note_change(u32 node, bool is_root);

  u64 seed_;
  u64 age_ = 0;
  Pool<Node> nodes_;
  Pool<Registration> registrations_;
  Arena arena_;
  TagTable by_bytes_;
  Pool<Owned<Group>, 8> groups_;
  TagTable by_pattern_;
  std::unordered_map<u64, std::vector<FormUse>> form_uses_;  // by attribute
  std::unordered_map<u64, Listing> root_groups_;             // element or attribute -> groups with roots
  Listing all_root_groups_;
  std::vector<u32> roots_;
  bool is_noting_ = false;
  std::vector<std::pair<std::string, bool>> changes_;
  mutable FilterSpec own_, other_, third_;
  FilterSpec closest_;
  std::vector<u64> point_;
  Reaches reaches_ = Reaches(1), other_reaches_;
  PatternKey relaxed_;
  std::vector<u32> groups_found_;
  std::vector<std::vector<Option>> options_;
};

}  // namespace tidewire
