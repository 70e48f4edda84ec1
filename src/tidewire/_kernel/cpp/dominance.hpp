// Points in a few dimensions: who is at least as large as this one in all of them, and closest? Who is at most as large?
//
// A tree of boxes: leaves hold a few points, inner nodes split one dimension. It is built anew when it is too deep.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base.hpp"

namespace tidewire {

// What a search is told of a point it offers. Only what was looked at closely counts against its patience.
enum class Verdict : u8 { kAccepted, kRefused, kPassedOver };

class DominanceTree {
 public:
  // The first `preferred` dimensions tell points apart best and are split first.
  DominanceTree(u32 dimensions, u32 preferred) : dimensions_(dimensions), preferred_(preferred) {}

  u32 size() const { return size_; }
  void insert(const u64* point, u32 id);
  void remove(const u64* point, u32 id);

  // The accepted point above `from` (>= in every dimension) with the least sum; 0 if there is none.
  template <class Accept>
  u32 closest_above(const u64* from, Accept accept) const {
    return closest<true>(from, accept);
  }

  // The accepted point below `from` (<= in every dimension) with the largest sum; 0 if there is none.
  template <class Accept>
  u32 closest_below(const u64* from, Accept accept) const {
    return closest<false>(from, accept);
  }

  template <class Visit>
  void each_below(const u64* from, Visit visit) const {
    if (!nodes_.empty()) all_below(nodes_[0], from, visit);
  }

 private:
  static constexpr u32 kLeaf = 32, kRefusalsMax = 1024;
  struct Node {
    u32 left = 0;  // the other child stands beside it; 0: a leaf
    u32 split_dimension = 0, depth = 0;
    u32 count = 0, room = 0;
    u64 split = 0;
    std::vector<u64> cells;  // a leaf's points, one column of `room` for each dimension, and one for the ids
  };
  struct Search {
    u32 found = 0, refused = 0;
    double best = 0.0;
  };

  template <bool kAbove>
  static bool is_beyond(u64 a, u64 b) {
    return kAbove ? a >= b : a <= b;
  }

  // The box of a node other than the root: its least coordinates, then its greatest.
  const u64* low_of(u32 place) const { return boxes_.data() + std::size_t{place} * 2 * dimensions_; }
  const u64* high_of(u32 place) const { return low_of(place) + dimensions_; }
  u64* column(Node& leaf, u32 d) const { return leaf.cells.data() + std::size_t{d} * leaf.room; }
  const u64* column(const Node& leaf, u32 d) const { return leaf.cells.data() + std::size_t{d} * leaf.room; }
  u32 id_of(const Node& leaf, u32 i) const { return static_cast<u32>(column(leaf, dimensions_)[i]); }

  u32 child_of(const Node& node, const u64* point) const {
    return node.left + (point[node.split_dimension] < node.split ? 0 : 1);
  }
  u32 leaf_for(const u64* point);
  void stretch(u32 place, const u64* point);
  void add_to(Node& leaf, const u64* point, u32 id) const;
  void copy_point(const Node& leaf, u32 i, u64* into) const;
  bool is_due(u32 count) const;
  void split(u32 place);
  void rebuild();
  bool is_too_deep(u32 depth) const;

  template <bool kAbove>
  bool reaches(u32 place, const u64* from) const {
    const u64* far = kAbove ? high_of(place) : low_of(place);
    for (u32 d = 0; d < dimensions_; ++d)
      if (!is_beyond<kAbove>(far[d], from[d])) return false;
    return true;
  }

  // Nothing in this box is closer than this.
  template <bool kAbove>
  double bound_of(u32 place, const u64* from) const {
    const u64* near = kAbove ? low_of(place) : high_of(place);
    double bound = 0.0;
    for (u32 d = 0; d < dimensions_; ++d)
      bound += static_cast<double>(kAbove ? std::max(near[d], from[d]) : std::min(near[d], from[d]));
    return bound;
  }

  double sum_of(const Node& leaf, u32 i) const {
    double sum = 0.0;
    for (u32 d = 0; d < dimensions_; ++d) sum += static_cast<double>(column(leaf, d)[i]);
    return sum;
  }

  // The first dimension is compared without branches, for up to 64 points at once; few are left for the others.
  template <bool kAbove, class Visit>
  void each_in_leaf(const Node& leaf, const u64* from, Visit visit) const {
    for (u32 base = 0; base < leaf.count; base += 64) {
      const u32 count = std::min<u32>(64, leaf.count - base);
      u64 left = ~u64{0} >> (64 - count);
      if (dimensions_ > 0) {
        const u64* first = column(leaf, 0) + base;
        left = 0;
        for (u32 i = 0; i < count; ++i) left |= static_cast<u64>(is_beyond<kAbove>(first[i], from[0])) << i;
      }
      for (; left != 0; left &= left - 1) {
        const u32 i = base + static_cast<u32>(std::countr_zero(left));
        u32 d = 1;
        while (d < dimensions_ && is_beyond<kAbove>(column(leaf, d)[i], from[d])) ++d;
        if (d >= dimensions_) visit(i);
      }
    }
  }

  template <bool kAbove, class Accept>
  u32 closest(const u64* from, Accept& accept) const {
    Search search;
    if (!nodes_.empty()) look<kAbove>(nodes_[0], from, accept, search);
    return search.found;
  }

  template <bool kAbove, class Accept>
  void look(const Node& node, const u64* from, Accept& accept, Search& search) const {
    const auto is_closer = [&](double sum) {
      return search.found == 0 || (kAbove ? sum < search.best : sum > search.best);
    };
    if (node.left != 0) {
      for (const u32 child : {kAbove ? node.left : node.left + 1, kAbove ? node.left + 1 : node.left}) {
        if (search.refused > kRefusalsMax) return;
        if (!reaches<kAbove>(child, from)) continue;
        if (search.found != 0 && !is_closer(bound_of<kAbove>(child, from))) continue;
        look<kAbove>(nodes_[child], from, accept, search);
      }
      return;
    }
    each_in_leaf<kAbove>(node, from, [&](u32 i) {
      const double sum = sum_of(node, i);
      if (!is_closer(sum)) return;
      const Verdict verdict = accept(id_of(node, i));
      search.refused += verdict == Verdict::kRefused;
      if (verdict != Verdict::kAccepted) return;
      search.found = id_of(node, i);
      search.best = sum;
    });
  }

  template <class Visit>
  void all_below(const Node& node, const u64* from, Visit& visit) const {
    if (node.left == 0) {
      each_in_leaf<false>(node, from, [&](u32 i) { visit(id_of(node, i)); });
      return;
    }
    for (const u32 child : {node.left, node.left + 1})
      if (reaches<false>(child, from)) all_below(nodes_[child], from, visit);
  }

  u32 dimensions_, preferred_;
  u32 size_ = 0;
  std::vector<Node> nodes_;
  std::vector<u64> boxes_;
};

}  // namespace tidewire
