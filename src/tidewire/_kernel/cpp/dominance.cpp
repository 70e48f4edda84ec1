#include "dominance.hpp"

#include <bit>

namespace tidewire {

bool DominanceTree::is_too_deep(u32 depth) const { return depth > 12 + 3 * static_cast<u32>(std::bit_width(size_)); }

u32 DominanceTree::leaf_of(const u64* point) const {
  u32 place = 0;
  while (nodes_[place].left != 0)
    place = point[nodes_[place].split_dimension] < nodes_[place].split ? nodes_[place].left : nodes_[place].right;
  return place;
}

void DominanceTree::stretch(Node& node, const u64* point) const {
  if (node.low.empty()) {
    node.low.assign(point, point + dimensions_);
    node.high.assign(point, point + dimensions_);
    return;
  }
  for (u32 d = 0; d < dimensions_; ++d) {
    node.low[d] = std::min(node.low[d], point[d]);
    node.high[d] = std::max(node.high[d], point[d]);
  }
}

void DominanceTree::insert(const u64* point, u32 id) {
  if (nodes_.empty()) nodes_.emplace_back();
  u32 place = 0;
  while (true) {
    Node& node = nodes_[place];
    stretch(node, point);
    if (node.left == 0) break;
    place = point[node.split_dimension] < node.split ? node.left : node.right;
  }
  Node& leaf = nodes_[place];
  leaf.ids.push_back(id);
  leaf.points.insert(leaf.points.end(), point, point + dimensions_);
  ++size_;
  if (leaf.ids.size() > kLeaf && std::has_single_bit(leaf.ids.size() / (kLeaf + 1))) split(place);
}

void DominanceTree::split(u32 place) {
  const u32 depth = nodes_[place].depth + 1;
  const auto count = static_cast<u32>(nodes_[place].ids.size());
  // At the median, by rank: distinct values decide, not distances. Dimensions take turns by depth, the preferred ones
  // alone if they tell the points apart.
  u32 best = 0, best_distinct = 1;
  u64 best_split = 0;
  std::vector<u64> values(count);
  const auto consider = [&](u32 d) {
    for (u32 i = 0; i < count; ++i) values[i] = nodes_[place].points[std::size_t{i} * dimensions_ + d];
    std::sort(values.begin(), values.end());
    const auto distinct = static_cast<u32>(std::unique(values.begin(), values.end()) - values.begin());
    if (distinct <= best_distinct) return;
    best = d;
    best_distinct = distinct;
    best_split = values[distinct / 2];
  };
  for (u32 turn = 0; turn < preferred_ && best_distinct < count / 2; ++turn) consider((depth + turn) % preferred_);
  for (u32 turn = 0; turn < dimensions_ && best_distinct < count / 2; ++turn) consider((depth + turn) % dimensions_);
  if (best_distinct == 1) return;  // all points are equal: the leaf grows
  const auto left = static_cast<u32>(nodes_.size()), right = left + 1;
  nodes_.resize(nodes_.size() + 2);
  Node& node = nodes_[place];
  for (u32 i = 0; i < count; ++i) {
    const u64* point = node.points.data() + std::size_t{i} * dimensions_;
    Node& side = nodes_[point[best] < best_split ? left : right];
    side.ids.push_back(node.ids[i]);
    side.points.insert(side.points.end(), point, point + dimensions_);
    stretch(side, point);
  }
  nodes_[left].depth = nodes_[right].depth = depth;
  node.left = left;
  node.right = right;
  node.split_dimension = best;
  node.split = best_split;
  node.ids = {};
  node.points = {};
  if (is_too_deep(depth)) rebuild();
}

void DominanceTree::remove(const u64* point, u32 id) {
  Node& leaf = nodes_[leaf_of(point)];
  const auto place = static_cast<std::size_t>(std::find(leaf.ids.begin(), leaf.ids.end(), id) - leaf.ids.begin());
  const std::size_t last = leaf.ids.size() - 1;
  leaf.ids[place] = leaf.ids[last];
  std::copy_n(leaf.points.begin() + static_cast<std::ptrdiff_t>(last * dimensions_), dimensions_,
              leaf.points.begin() + static_cast<std::ptrdiff_t>(place * dimensions_));
  leaf.ids.pop_back();
  leaf.points.resize(last * dimensions_);
  if (--size_ == 0) {
    nodes_.clear();
  } else if (size_ * 4 < nodes_.size() * kLeaf / 4 && nodes_.size() > 8) {
    rebuild();
  }
}

void DominanceTree::rebuild() {
  std::vector<Node> old;
  old.swap(nodes_);
  std::vector<std::pair<const u64*, u32>> all;
  for (const Node& node : old)
    for (u32 i = 0; i < node.ids.size(); ++i) all.emplace_back(node.points.data() + std::size_t{i} * dimensions_, node.ids[i]);
  // A fixed shuffle: inserted in order, the tree would lean again.
  u64 state = kMix0;
  for (std::size_t i = all.size(); i > 1; --i) {
    state = hash_u64(state, i);
    std::swap(all[i - 1], all[state % i]);
  }
  nodes_.emplace_back();
  for (const auto& [point, id] : all) {
    u32 place = 0;
    while (true) {
      Node& node = nodes_[place];
      stretch(node, point);
      if (node.left == 0) break;
      place = point[node.split_dimension] < node.split ? node.left : node.right;
    }
    nodes_[place].ids.push_back(id);
    nodes_[place].points.insert(nodes_[place].points.end(), point, point + dimensions_);
    const std::size_t count = nodes_[place].ids.size();
    if (count > kLeaf && std::has_single_bit(count / (kLeaf + 1)) && !is_too_deep(nodes_[place].depth + 1)) split(place);
  }
}

}  // namespace tidewire
