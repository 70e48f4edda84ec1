// Points in a few dimensions: who is at least as large as this one in all of them, and closest? Who is at most as large?
//
// A tree of boxes: leaves hold a few points, inner nodes split one dimension. It is built anew when it has become too deep.
#pragma once

#include <algorithm>
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
    Search search;
    if (!nodes_.empty()) up(0, from, accept, search);
    return search.found;
  }

  // The accepted point below `from` (<= in every dimension) with the largest sum; 0 if there is none.
  template <class Accept>
  u32 closest_below(const u64* from, Accept accept) const {
    Search search;
    if (!nodes_.empty()) down(0, from, accept, search);
    return search.found;
  }

  template <class Visit>
  void each_below(const u64* from, Visit visit) const {
    if (!nodes_.empty()) all_below(0, from, visit);
  }

  template <class Visit>
  void each(Visit visit) const {
    for (const Node& node : nodes_)
      for (const u32 id : node.ids) visit(id);
  }

 private:
  static constexpr u32 kLeaf = 32, kRefusalsMax = 1024;
  struct Node {
    u32 left = 0, right = 0;  // 0: a leaf
    u32 split_dimension = 0, depth = 0;
    u64 split = 0;
    std::vector<u32> ids;
    std::vector<u64> points;
    std::vector<u64> low, high;  // the box
  };
  struct Search {
    u32 found = 0, refused = 0;
    double best = 0.0;
  };

  u32 leaf_of(const u64* point) const;
  void stretch(Node& node, const u64* point) const;
  void split(u32 place);
  void rebuild();
  bool is_too_deep(u32 depth) const;

  template <class Accept>
  void up(u32 place, const u64* from, Accept& accept, Search& search) const {
    const Node& node = nodes_[place];
    double bound = 0.0;
    for (u32 d = 0; d < dimensions_; ++d) {
      if (node.high[d] < from[d]) return;
      bound += static_cast<double>(std::max(node.low[d], from[d]));
    }
    if ((search.found != 0 && bound >= search.best) || search.refused > kRefusalsMax) return;
    if (node.left != 0) {
      up(node.left, from, accept, search);
      up(node.right, from, accept, search);
      return;
    }
    for (u32 i = 0; i < node.ids.size(); ++i) {
      const u64* point = node.points.data() + std::size_t{i} * dimensions_;
      double sum = 0.0;
      bool is_above = true;
      for (u32 d = 0; d < dimensions_ && is_above; ++d) {
        is_above = point[d] >= from[d];
        sum += static_cast<double>(point[d]);
      }
      if (is_above && (search.found == 0 || sum < search.best)) take(node.ids[i], sum, accept, search);
    }
  }

  template <class Accept>
  void down(u32 place, const u64* from, Accept& accept, Search& search) const {
    const Node& node = nodes_[place];
    double bound = 0.0;
    for (u32 d = 0; d < dimensions_; ++d) {
      if (node.low[d] > from[d]) return;
      bound += static_cast<double>(std::min(node.high[d], from[d]));
    }
    if ((search.found != 0 && bound <= search.best) || search.refused > kRefusalsMax) return;
    if (node.left != 0) {
      down(node.right, from, accept, search);
      down(node.left, from, accept, search);
      return;
    }
    for (u32 i = 0; i < node.ids.size(); ++i) {
      const u64* point = node.points.data() + std::size_t{i} * dimensions_;
      double sum = 0.0;
      bool is_below = true;
      for (u32 d = 0; d < dimensions_ && is_below; ++d) {
        is_below = point[d] <= from[d];
        sum += static_cast<double>(point[d]);
      }
      if (is_below && (search.found == 0 || sum > search.best)) take(node.ids[i], sum, accept, search);
    }
  }

  template <class Accept>
  static void take(u32 id, double sum, Accept& accept, Search& search) {
    const Verdict verdict = accept(id);
    if (verdict == Verdict::kAccepted) {
      search.found = id;
      search.best = sum;
    }
    search.refused += verdict == Verdict::kRefused;
  }

  template <class Visit>
  void all_below(u32 place, const u64* from, Visit& visit) const {
    const Node& node = nodes_[place];
    for (u32 d = 0; d < dimensions_; ++d)
      if (node.low[d] > from[d]) return;
    if (node.left != 0) {
      all_below(node.left, from, visit);
      all_below(node.right, from, visit);
      return;
    }
    for (u32 i = 0; i < node.ids.size(); ++i) {
      const u64* point = node.points.data() + std::size_t{i} * dimensions_;
      bool is_below = true;
      for (u32 d = 0; d < dimensions_ && is_below; ++d) is_below = point[d] <= from[d];
      if (is_below) visit(node.ids[i]);
    }
  }

  u32 dimensions_, preferred_;
  u32 size_ = 0;
  std::vector<Node> nodes_;
};

}  // namespace tidewire
