// Matching a batch: read a few events, look up their keys, visit the clusters, verify, group by destination.
#include <algorithm>

#include "index.hpp"

namespace tidewire {

namespace {

constexpr u32 kChunk = 32;  // events that are worked on together, so that their cache misses overlap
constexpr u32 kManyMembers = 0xFFFFFFFE;
constexpr std::size_t kShapeBytesMax = 8u << 20;

u64 now_ns() {
  return static_cast<u64>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

}  // namespace

// The attributes of a shape that some filter mentions, and where their values are.
struct Index::Shape {
  std::string bytes;
  u32 count = 0;
  struct Slot {
    u32 slot, attribute;
    Type type;
  };
  std::vector<Slot> known;
};

Index::Index(u64 seed, const SimdOps& simd) : seed_(seed), simd_(&simd), words_(seed) {
  root_cluster_ = clusters_.take();
  clusters_[root_cluster_].is_used = true;
}

Index::~Index() = default;

const Index::Shape* Index::shape_of(const EventView& event, const char*& wrong) {
  if (shapes_generation_ != words_.generation() || shape_bytes_ > kShapeBytesMax) {
    shapes_.clear();
    last_shape_ = nullptr;
    shape_bytes_ = 0;
    shapes_generation_ = words_.generation();
  }
  const auto is_this = [&](const Shape& shape) { return shape.count == event.attribute_count && shape.bytes == event.shape; };
  if (last_shape_ != nullptr && is_this(*last_shape_)) return last_shape_;
  auto& known = shapes_[hash_bytes(event.shape.data(), event.shape.size(), seed_ + event.attribute_count)];
  if (known != nullptr && is_this(*known)) return last_shape_ = known.get();
  auto shape = std::make_unique<Shape>();
  shape->bytes = event.shape;
  shape->count = event.attribute_count;
  std::vector<std::string_view> names;
  wrong = walk_shape(event.shape, event.attribute_count, [&](u32 slot, Type type, std::string_view name) -> const char* {
    names.push_back(name);
    if (const u32 attribute = words_.find_attribute(name)) shape->known.push_back({slot, attribute, type});
    return nullptr;
  });
  std::sort(names.begin(), names.end());
  if (wrong == nullptr && std::adjacent_find(names.begin(), names.end()) != names.end())
    wrong = "an attribute stands in it twice";
  if (wrong != nullptr) {
    if (known == nullptr) shapes_.erase(hash_bytes(event.shape.data(), event.shape.size(), seed_ + event.attribute_count));
    return nullptr;
  }
  shape_bytes_ += sizeof(Shape) + shape->bytes.capacity() + shape->known.capacity() * sizeof(Shape::Slot) + 64;
  last_shape_ = nullptr;
  known = std::move(shape);
  return last_shape_ = known.get();
}

namespace {

// Fills a cell; nullptr, or what is wrong with the value.
const char* read_value(const EventView& event, u32 slot, Type type, Cell& cell) {
  switch (type) {
    case Type::kInt:
      cell.kind = Kind::kNumber;
      cell.number = Number::of(static_cast<i64>(event.bits(slot)));
      return nullptr;
    case Type::kFloat: {
      const double value = std::bit_cast<double>(event.bits(slot));
      cell.kind = value == value ? Kind::kNumber : Kind::kAnyNumber;
      cell.number = Number::of(value);
      return nullptr;
    }
    case Type::kBool:
    case Type::kTimestamp:
      cell.kind = type == Type::kBool ? Kind::kBool : Kind::kTimestamp;
      cell.time = static_cast<i64>(event.bits(slot));
      return type == Type::kBool && (cell.time & ~i64{1}) != 0 ? "a boolean is neither true nor false" : nullptr;
    default:
      if (!event.text_is_inside(slot)) return "a string lies outside of it";
      cell.kind = type == Type::kString ? Kind::kString : Kind::kBytes;
      cell.text = event.text(slot);
      return type == Type::kString && !is_utf8(cell.text) ? "a string is not UTF-8" : nullptr;
  }
}

Scalar scalar_of(const Cell& cell) {
  switch (cell.kind) {
    case Kind::kNumber: return Scalar::of_number(cell.number);
    case Kind::kBool:
    case Kind::kTimestamp: return Scalar::of_int(cell.kind, cell.time);
    default: return Scalar::of_text(cell.kind, cell.text);
  }
}

}  // namespace

const char* Index::read_event(std::string_view bytes, Context& into) {
  EventView event;
  if (const char* wrong = view_event(bytes, event)) return wrong;
  const char* wrong = nullptr;
  const Shape* shape = shape_of(event, wrong);
  if (shape == nullptr) return wrong;
  for (const Shape::Slot& slot : shape->known) {
    Cell& cell = into.cells[slot.attribute];
    into.touched.push_back(slot.attribute);
    if ((wrong = read_value(event, slot.slot, slot.type, cell)) != nullptr) return wrong;
    if (cell.kind == Kind::kNumber) {
      into.numbers[std::size_t{slot.attribute} * 2] = cell.number.d;
      into.is_exact &= cell.number.r == 0;
    }
    if (words_.attribute(slot.attribute).distinct > 0 && cell.kind != Kind::kAnyNumber) {
      cell.key = words_.tag_of(slot.attribute, scalar_of(cell));
      words_.prefetch_key(cell.key);
    }
  }
  return nullptr;
}

// Until here the cells have the tags of their keys; from here on the keys.
void Index::find_keys(Context& event) {
  for (const u32 attribute : event.touched) {
    Cell& cell = event.cells[attribute];
    if (words_.attribute(attribute).distinct == 0 || cell.kind == Kind::kAnyNumber) continue;
    cell.key = words_.find_key(cell.key, attribute, scalar_of(cell));
    if (cell.key == 0) continue;
    event.numbers[std::size_t{attribute} * 2 + 1] = cell.key;
    if (const u32 cluster = words_.key(cell.key).cluster) prefetch(&clusters_[cluster]);
  }
}

void Index::collect_visits(u32 number) {
  const Context& event = contexts_[number];
  const auto visit = [&](u32 cluster) {
    const Cluster& there = clusters_[cluster];
    if (there.list.count() > 0) {
      visits_.push_back({cluster, number});
      const u8* memory = there.list.memory();
      for (u32 at = 0; at < there.list.memory_bytes() && at < 4 * kLineBytes; at += kLineBytes) prefetch(memory + at);
    }
    if (there.large != nullptr) large_visits_.push_back({cluster, number});
  };
  visit(root_cluster_);
  for (const u32 attribute : event.touched) {
    if (const u32 cluster = words_.attribute(attribute).presence_cluster) visit(cluster);
    const u32 key = event.cells[attribute].key;
    if (key != 0 && words_.key(key).cluster != 0) visit(words_.key(key).cluster);
  }
}

void Index::scan_list(const Cluster& cluster, Context& event) {
  for (u32 i = 0; i < 2; ++i)
    if (cluster.common[i] != 0 && event.cells[cluster.common_attribute[i]].key != cluster.common[i]) return;
  u64 words[kSmallMax / 64 + 1];
  const ShortList& list = cluster.list;
  simd_->scan(list.low(), list.high(), list.dimension(), list.count(), event.numbers.data(), words);
  for (u32 w = 0; w * 64 < list.count(); ++w)
    for (u64 bits = words[w]; bits != 0; bits &= bits - 1) {
      const u32 entry = list.entry()[w * 64 + static_cast<u32>(std::countr_zero(bits))];
      prefetch(&entries_[entry & ~kNeedsCheck]);
      if ((entry & kNeedsCheck) == 0 && event.is_exact) event.matched.push_back(entry);
      else maybe_.push_back(entry & ~kNeedsCheck);
    }
  if (!maybe_.empty()) verify(maybe_, event);
  maybe_.clear();
}

void Index::verify(const std::vector<u32>& maybe, Context& event) {
  constexpr std::size_t kFar = 24, kNear = 12;
  const std::size_t count = maybe.size();
  for (std::size_t i = 0; i < std::min(kFar, count); ++i) prefetch(&entries_[maybe[i]]);
  for (std::size_t i = 0; i < count; ++i) {
    if (i + kFar < count) prefetch(&entries_[maybe[i + kFar]]);
    if (i + kNear < count) {
      const u8* program = program_of(maybe[i + kNear]).at;
      prefetch(program);
      prefetch(program + kLineBytes);
    }
    if (holds(program_of(maybe[i]), event, library_)) event.matched.push_back(maybe[i]);
  }
}

void Index::match_large() {
  std::sort(large_visits_.begin(), large_visits_.end(), [](const Visit& a, const Visit& b) {
    return a.cluster != b.cluster ? a.cluster < b.cluster : a.event < b.event;
  });
  for (std::size_t i = 0; i < large_visits_.size();) {
    std::size_t end = i;
    while (end < large_visits_.size() && large_visits_[end].cluster == large_visits_[i].cluster) ++end;
    for (const auto& segment : clusters_[large_visits_[i].cluster].large->segments) {
      if (segment == nullptr) continue;
      for (std::size_t j = i; j < end; ++j) {
        Context& event = contexts_[large_visits_[j].event];
        segment->match(event, *simd_, masks_, event.matched, maybe_);
        if (!maybe_.empty()) verify(maybe_, event);
        maybe_.clear();
      }
    }
    i = end;
  }
}

// False once every destination has more than the limit: nothing can change any more.
bool Index::deliver(u32 destination, const u32* numbers, u32 count, const Options& options) {
  Mark& mark = marks_[destination];
  if (mark.epoch != epoch_) {
    mark = {epoch_, static_cast<u32>(deliveries_.size())};
    deliveries_.push_back({destination, 0, 0, false});
    if (options.limit > 0) named_.resize(deliveries_.size() * options.limit);
  }
  Delivery& delivery = deliveries_[mark.delivery];
  if (options.limit == 0) {
    for (u32 i = 0; i < count; ++i) {
      all_named_.emplace_back(mark.delivery, numbers[i] & ~kOneOfSeveral);
      delivery.several |= (numbers[i] & kOneOfSeveral) != 0;
    }
    delivery.count += count;
    return true;
  }
  if (delivery.count > options.limit) return true;
  u32* named = named_.data() + std::size_t{mark.delivery} * options.limit;
  for (u32 i = 0; i < count && delivery.count <= options.limit; ++i) {
    const u32 number = numbers[i] & ~kOneOfSeveral;
    const bool again = (numbers[i] & kOneOfSeveral) != 0 && std::find(named, named + delivery.count, number) != named + delivery.count;
    if (again) continue;
    if (delivery.count < options.limit) named[delivery.count] = number;
    ++delivery.count;
  }
  if (delivery.count > options.limit) ++overflowed_;
  return overflowed_ < destinations_used_;
}

void Index::group(Context& event, const Options& options, Matches& into) {
  deliveries_.clear();
  named_.clear();
  all_named_.clear();
  overflowed_ = 0;
  if (++epoch_ == 0) {
    std::fill(marks_.begin(), marks_.end(), Mark{});
    epoch_ = 1;
  }
  constexpr std::size_t kAhead = 16;
  const std::vector<u32>& matched = event.matched;
  into.entries_matched += matched.size();
  bool go_on = true;
  for (std::size_t i = 0; i < matched.size() && (go_on || options.count_all); ++i) {
    if (i + kAhead < matched.size()) prefetch(&entries_[matched[i + kAhead]]);
    const Entry& entry = entries_[matched[i]];
    if (entry.destination != kManyMembers) {
      go_on = deliver(entry.destination, &entry.member, 1, options);
      continue;
    }
    for (const Members::Group& members : members_[entry.member]->groups())
      go_on = deliver(members.destination, members.begin(), members.count, options);
  }
  if (options.limit == 0) name_all(into);
  else name_few(options.limit, into);
  into.event_first.push_back(static_cast<u32>(into.destination.size()));
}

void Index::name_few(u32 limit, Matches& into) const {
  for (u32 i = 0; i < deliveries_.size(); ++i) {
    const Delivery& delivery = deliveries_[i];
    const u32* named = named_.data() + std::size_t{i} * limit;
    into.destination.push_back(delivery.destination);
    into.more.push_back(delivery.count > limit);
    if (delivery.count <= limit) into.numbers.insert(into.numbers.end(), named, named + delivery.count);
    into.number_first.push_back(static_cast<u32>(into.numbers.size()));
  }
}

void Index::name_all(Matches& into) {
  u32 next = 0;
  for (Delivery& delivery : deliveries_) {
    delivery.first = next;
    next += delivery.count;
  }
  named_.resize(next);
  for (const auto& [delivery, number] : all_named_) named_[deliveries_[delivery].first++] = number;
  for (const Delivery& delivery : deliveries_) {
    const auto end = named_.begin() + delivery.first, begin = end - delivery.count;
    auto last = end;
    if (delivery.several) {
      std::sort(begin, end);
      last = std::unique(begin, end);
    }
    into.destination.push_back(delivery.destination);
    into.more.push_back(0);
    into.numbers.insert(into.numbers.end(), begin, last);
    into.number_first.push_back(static_cast<u32>(into.numbers.size()));
  }
}

void Index::match(std::string_view batch, const Options& options, Matches& into) {
  const u64 start = options.budget_ns > 0 ? now_ns() : 0;
  if (contexts_.empty()) contexts_.resize(kChunk);
  if (marks_.size() < destinations_.size()) marks_.resize(destinations_.size());
  std::vector<std::string_view> events;
  into.batch_error = walk_batch(batch, [&](u32, std::string_view event) {
    events.push_back(event);
    return true;
  });
  if (into.batch_error != nullptr) return;
  u32 next = options.first;
  while (next < events.size()) {
    const u32 count = std::min(kChunk, static_cast<u32>(events.size()) - next);
    bool is_damaged[kChunk] = {};
    visits_.clear();
    large_visits_.clear();
    for (u32 i = 0; i < count; ++i) {
      contexts_[i].fit(words_.attribute_limit());
      if (const char* wrong = read_event(events[next + i], contexts_[i])) {
        into.damaged.emplace_back(next + i, wrong);
        contexts_[i].reset();
        is_damaged[i] = true;
      }
    }
    for (u32 i = 0; i < count; ++i)
      if (!is_damaged[i]) find_keys(contexts_[i]);
    for (u32 i = 0; i < count; ++i)
      if (!is_damaged[i]) collect_visits(i);
    for (const Visit& visit : visits_) scan_list(clusters_[visit.cluster], contexts_[visit.event]);
    if (!large_visits_.empty()) match_large();
    for (u32 i = 0; i < count; ++i) {
      group(contexts_[i], options, into);
      contexts_[i].reset();
    }
    next += count;
    if (options.budget_ns > 0 && now_ns() - start >= options.budget_ns) break;
  }
  into.next = next;
}

}  // namespace tidewire
