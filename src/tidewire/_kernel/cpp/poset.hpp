// The covering order of filters: a forest in which every filter but the most general ones has a parent that covers it.
//
// One node per distinct filter. The roots are the covering set: the filters that no other one covers. A parent is a close
// one: of the filters that cover a node, none that is known to lie between them. Filters are kept in groups of one
// *pattern* (which attributes are bound, how: to a point, from below, from above, both ways), in which covering is
// dominance of a few coordinates; what could cover a filter is found by relaxing its pattern, what it could cover by the
// groups that refine it.
#pragma once

#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "covering.hpp"
#include "dominance.hpp"
#include "storage.hpp"

namespace tidewire {

// How a pattern binds one attribute.
// A set is given by its members; a hull has gaps or patterns, and is bound by its ends only roughly.
enum class Form : u8 { kAbsent, kPresent, kAnyNumber, kKind, kPoint, kSet, kLower, kUpper, kBoth, kHull };

struct Element {
  u64 attribute = 0;  // the hash of its name
  u64 point = 0;      // the hash of the value, for a point
  Kind kind = Kind::kAbsent;
  Form form = Form::kAbsent;
  friend bool operator==(const Element&, const Element&) = default;
};

using PatternKey = std::vector<Element>;  // sorted by attribute

// A conjunction with its pattern, and how far out it reaches on both sides of each element, and from side to side.
struct Reach {
  struct Side {
    u64 low, high, width;
  };
  PatternKey pattern;
  std::vector<Side> sides;
  // What cannot be put in order is told apart by bits, hashed: a hull covers another only if it needs no pattern or gap
  // that the other lacks, a set another only if it has its members.
  u64 needs = 0, has = 0, members = 0;
};

class Poset {
 public:
  explicit Poset(u64 seed) : seed_(seed) {}

  // The node of this filter, made if it is new; each insertion is to be removed once.
  u32 insert(std::string_view filter);
  void remove(u32 node);
  // The node of a filter that was inserted; 0: there is none.
  u32 find(std::string_view filter) const;
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
  };
  // A conjunction of a node, as it stands in a group.
  struct Registration {
    u32 node = 0, conjunction = 0, group = 0;
    u32 next = 0;  // of the same node
    u64 needs = 0, has = 0, members = 0;  // as in Reach
  };
  struct Group {
    PatternKey pattern;
    u64 hash = 0;
    DominanceTree all, roots;
    Group(PatternKey pattern_, u64 hash_, u32 sides, u32 widths)
        : pattern(std::move(pattern_)), hash(hash_), all(sides + widths, widths), roots(sides + widths, widths) {}
  };

  Element element_of(const FilterSpec& spec, const Constraint& constraint) const;
  void reach_of(const FilterSpec& spec, const Conjunction& conjunction, Reach& into) const;
  void add_bits(const FilterSpec& spec, const Constraint& constraint, const Element& element, Reach& into) const;
  u64 hash_of(const PatternKey& pattern) const;
  u64 hash_of(const Element& element) const;
  u32 find_group(const PatternKey& pattern, u64 hash) const;
  u32 group_for(const PatternKey& pattern);
  void drop_group(u32 group);
  static void point_in(const PatternKey& pattern, const Reach& reach, std::vector<u64>& into);
  template <class Visit>
  void relaxed_groups(const PatternKey& pattern, Visit visit);
  template <class Visit>
  void relax(std::size_t next, u64 hash, Visit& visit);
  template <class Visit>
  void refined_root_groups(const PatternKey& pattern, Visit visit) const;

  u32 find_parent(u32 node, const FilterSpec& spec);
  bool covers_strictly(const FilterSpec& wide, u32 wide_node, const FilterSpec& narrow, u32 narrow_node) const;
  void adopt_roots(u32 node, const FilterSpec& spec);
  void adopt_neighbour(u32 node, const FilterSpec& spec);
  void attach(u32 node, u32 parent);
  void detach(u32 node);
  void make_root(u32 node, const FilterSpec& spec);
  void end_root(u32 node, const FilterSpec& spec);
  void register_node(u32 node, const FilterSpec& spec);
  void unregister_node(u32 node, const FilterSpec& spec);
  const FilterSpec& parsed(u32 node, FilterSpec& into) const;
  void note_change(u32 node, bool is_root);

  u64 seed_;
  u64 age_ = 0;
  Pool<Node> nodes_;
  Pool<Registration> registrations_;
  Arena arena_;
  TagTable by_bytes_;
  Pool<std::unique_ptr<Group>, 8> groups_;
  TagTable by_pattern_;
  std::unordered_map<u64, u32> form_uses_;                               // attribute, kind and form -> groups
  std::unordered_map<u64, std::unordered_set<u32>> root_groups_;         // element or attribute -> groups with roots
  std::unordered_set<u32> all_root_groups_;
  std::vector<u32> roots_;
  bool is_noting_ = false;
  std::vector<std::pair<std::string, bool>> changes_;
  mutable FilterSpec own_, other_, third_;
  std::vector<u64> point_;
  Reach reach_;
  PatternKey relaxed_;
  std::vector<u32> groups_found_;
  std::vector<std::vector<Element>> options_;
};

}  // namespace tidewire
