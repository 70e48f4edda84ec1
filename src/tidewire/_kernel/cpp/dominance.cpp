#include "dominance.hpp"

#include <bit>

namespace tidewire {

bool DominanceTree::is_too_deep(u32 depth) const { return depth > 12 + 3 * static_cast<u32>(std::bit_width(size_)); }

// Points that are all equal cannot be split: it is tried again when they are twice as many.
bool DominanceTree::is_due(u32 count) const { return count > kLeaf && std::has_single_bit(count / (kLeaf + 1)); }

// The leaf for a new point, with the boxes on the way grown to have it.
u32 DominanceTree::leaf_for(const u64* point) {
  u32 place = 0;
  while (nodes_[place].left != 0) stretch(place = child_of(nodes_[place], point), point);
  return place;
}

void DominanceTree::stretch(u32 place, const u64* point) {
  u64* low = boxes_.data() + std::size_t{place} * 2 * dimensions_;
  u64* high = low + dimensions_;
  for (u32 d = 0; d < dimensions_; ++d) {
    low[d] = std::min(low[d], point[d]);
    high[d] = std::max(high[d], point[d]);
  }
}

void DominanceTree::add_to(Node& leaf, const u64* point, u32 id) const {
  if (leaf.count == leaf.room) {
    const u32 room = std::max<u32>(2, 2 * leaf.room);
    std::vector<u64> larger(std::size_t{room} * (dimensions_ + 1));
    for (u32 d = 0; d <= dimensions_ && leaf.count > 0; ++d)
      std::copy_n(column(leaf, d), leaf.count, larger.data() + std::size_t{d} * room);
    leaf.cells = std::move(larger);
    leaf.room = room;
  }
  for (u32 d = 0; d < dimensions_; ++d) column(leaf, d)[leaf.count] = point[d];
  column(leaf, dimensions_)[leaf.count++] = id;
}

void DominanceTree::copy_point(const Node& leaf, u32 i, u64* into) const {
  for (u32 d = 0; d < dimensions_; ++d) into[d] = column(leaf, d)[i];
}

void DominanceTree::insert(const u64* point, u32 id) {
  if (nodes_.empty()) nodes_.emplace_back();
  const u32 place = leaf_for(point);
  add_to(nodes_[place], point, id);
  ++size_;
  if (is_due(nodes_[place].count)) split(place);
}

void DominanceTree::split(u32 place) {
  Node full = std::move(nodes_[place]);
  const u32 depth = full.depth + 1;
  // At the median, by rank: distinct values decide, not distances. Dimensions take turns by depth, the preferred ones
  // alone if they tell the points apart.
  u32 best = 0, best_distinct = 1;
  u64 best_split = 0;
  std::vector<u64> values;
  const auto consider = [&](u32 d) {
    values.assign(column(full, d), column(full, d) + full.count);
    std::sort(values.begin(), values.end());
    const auto distinct = static_cast<u32>(std::unique(values.begin(), values.end()) - values.begin());
    if (distinct <= best_distinct) return;
    best = d;
    best_distinct = distinct;
    best_split = values[distinct / 2];
  };
  for (const u32 few : {preferred_, dimensions_})
    for (u32 turn = 0; turn < few && best_distinct < full.count / 2; ++turn) consider((depth + turn) % few);
  if (best_distinct == 1) {  // all points are equal: the leaf grows
    nodes_[place] = std::move(full);
    return;
  }
  const auto left = static_cast<u32>(nodes_.size());
  nodes_.resize(nodes_.size() + 2);
  boxes_.resize(nodes_.size() * 2 * dimensions_);
  for (const u32 child : {left, left + 1}) {
    std::fill_n(boxes_.data() + std::size_t{child} * 2 * dimensions_, dimensions_, ~u64{0});
    nodes_[child].depth = depth;
  }
  Node& node = nodes_[place];
  node.left = left;
  node.count = node.room = 0;  // its points are its children's
  node.depth = full.depth;
  node.split_dimension = best;
  node.split = best_split;
  std::vector<u64> point(dimensions_);
  for (u32 i = 0; i < full.count; ++i) {
    copy_point(full, i, point.data());
    const u32 child = child_of(node, point.data());
    stretch(child, point.data());
    add_to(nodes_[child], point.data(), id_of(full, i));
  }
  if (is_too_deep(depth)) rebuild();
}

void DominanceTree::remove(const u64* point, u32 id) {
  u32 place = 0;
  while (nodes_[place].left != 0) place = child_of(nodes_[place], point);
  Node& leaf = nodes_[place];
  const u64* ids = column(leaf, dimensions_);
  const auto i = static_cast<u32>(std::find(ids, ids + leaf.count, id) - ids);
  --leaf.count;
  for (u32 d = 0; d <= dimensions_; ++d) column(leaf, d)[i] = column(leaf, d)[leaf.count];
  if (--size_ == 0) {
    nodes_.clear();
    boxes_.clear();
  } else if (size_ * 4 < nodes_.size() * kLeaf / 4 && nodes_.size() > 8) {
    rebuild();
  }
}

void DominanceTree::rebuild() {
  std::vector<Node> old;
  old.swap(nodes_);
  boxes_.clear();
  std::vector<std::pair<const Node*, u32>> all;
  for (const Node& node : old)
    for (u32 i = 0; i < node.count; ++i) all.emplace_back(&node, i);
  // A fixed shuffle: inserted in order, the tree would lean again.
  u64 state = kMix0;
  for (std::size_t i = all.size(); i > 1; --i) {
    state = hash_u64(state, i);
    std::swap(all[i - 1], all[state % i]);
  }
  nodes_.emplace_back();
  std::vector<u64> point(dimensions_);
  for (const auto& [leaf, i] : all) {
    copy_point(*leaf, i, point.data());
    const u32 place = leaf_for(point.data());
    add_to(nodes_[place], point.data(), id_of(*leaf, i));
    if (is_due(nodes_[place].count) && !is_too_deep(nodes_[place].depth + 1)) split(place);
  }
}

}  // namespace tidewire
