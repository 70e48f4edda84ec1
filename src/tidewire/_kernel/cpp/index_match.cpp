// Matching a batch: read a few events, look up their keys, visit the clusters, verify, group by destination.
#include <algorithm>

#include "index.hpp"

namespace tidewire {

namespace {

constexpr u32 kChunk = 128;  // events that are worked on together, so that their cache misses overlap
constexpr u32 kShared = 32;              // events that together touch most of a segment
constexpr std::size_t kVerified = 1024;  // candidates that are verified together, for the same reason
constexpr std::size_t kShapeBytesMax = 8u << 20;

u64 now_ns() {
  return static_cast<u64>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

void add_match(Target target, Matched& into) {
  (is_single(target) ? into.single : is_few(target) ? into.many : into.crowd).push(target);
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
  const bool is_text = type == Type::kString || type == Type::kBytes;
  if (is_text && !event.text_is_inside(slot)) return "a string lies outside of it";
  read_cell(event, slot, type, cell);
  if (type == Type::kBool && (cell.time & ~i64{1}) != 0) return "a boolean is neither true nor false";
  return type == Type::kString && !is_utf8(cell.text) ? "a string is not UTF-8" : nullptr;
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

const char* Index::read_event(const EventView& event, Context& into) {
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
      words_.prefetch_home(cell.key);
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
      for (u32 at = 0; at < there.list.first_bytes() && at < 6 * kLineBytes; at += kLineBytes) prefetch(memory + at);
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

void Index::scan_list(const Cluster& cluster, u32 number) {
  Context& event = contexts_[number];
  for (u32 i = 0; i < 2; ++i)
    if (cluster.common[i] != 0 && event.cells[cluster.common_attribute[i]].key != cluster.common[i]) return;
  u64 words[kListMax / 64 + 1];
  const ShortList& list = cluster.list;
  simd_->scan(list.low(), list.high(), list.dimension(), list.count(), event.numbers.data(), words);
  if (list.has_second() && !list.within_second().has(event.numbers.data())) {
    u64 also[kListMax / 64 + 1];
    simd_->scan(list.second_low(), list.second_high(), list.second_dimension(), list.count(), event.numbers.data(), also);
    for (u32 w = 0; w * 64 < list.count(); ++w) words[w] &= also[w];
  }
  for (u32 w = 0; w * 64 < list.count(); ++w)
    for (u64 bits = words[w]; bits != 0; bits &= bits - 1) {
      const u32 i = w * 64 + static_cast<u32>(std::countr_zero(bits));
      const u32 entry = list.entry()[i];
      if ((entry & kNeedsCheck) == 0 && event.is_exact) add_match(list.target()[i], event.matched);
      else maybe_.push({entry & ~kNeedsCheck, number, list.target()[i]});
    }
  if (maybe_.size() >= kVerified) verify();
}

void Index::verify() {
  constexpr std::size_t kAhead = 12;
  const std::size_t count = maybe_.size();
  const auto fetch = [&](std::size_t i) {
    const u8* program = program_of(maybe_[i].program).at;
    prefetch(program);
    prefetch(program + kLineBytes);
  };
  for (std::size_t i = 0; i < std::min(kAhead, count); ++i) fetch(i);
  for (std::size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) fetch(i + kAhead);
    Context& event = contexts_[maybe_[i].event];
    if (holds(program_of(maybe_[i].program), event, library_)) add_match(maybe_[i].target, event.matched);
  }
  maybe_.clear();
}

void Index::match_large() {
  std::sort(large_visits_.begin(), large_visits_.end(), [](const Visit& a, const Visit& b) {
    return a.cluster != b.cluster ? a.cluster < b.cluster : a.event < b.event;
  });
  for (std::size_t i = 0; i < large_visits_.size();) {
    std::size_t end = i;
    while (end < large_visits_.size() && large_visits_[end].cluster == large_visits_[i].cluster) ++end;
    const auto& segments = clusters_[large_visits_[i].cluster].large->segments;
    const auto events = static_cast<u32>(end - i);
    for (std::size_t number = 0; number < segments.size(); ++number) {
      if (segments[number] == nullptr) continue;
      const Segment* next = number + 1 < segments.size() && events >= kShared ? segments[number + 1].get() : nullptr;
      for (u32 j = 0; j < events; ++j) {
        const u32 event = large_visits_[i + j].event;
        if (next != nullptr) next->prefetch_part(j, events);
        segments[number]->match(contexts_[event], event, *simd_, found_, maybe_);
        if (maybe_.size() >= kVerified) verify();
      }
    }
    i = end;
  }
}

void Index::open_delivery(u32 destination, Mark& mark) {
  const auto first = static_cast<u32>(deliveries_.size()) * named_width_;
  mark = {epoch_, first, first + named_width_ - 2};
  deliveries_.push_back({destination, first, false});
  if (named_.size() < first + named_width_) named_.resize(2 * (std::size_t{first} + named_width_));
}

// The hot loop of grouping, on copies that stay in registers. A number goes to its destination's next place; the place
// behind the last one means that there are more, and the one behind that takes the numbers nobody will read. Which it
// will be cannot be guessed, so there is no branch on it.
struct Index::Namer {
  Index& index;
  Mark* marks;
  u32* named;
  u32 epoch, overflowed = 0;

  explicit Namer(Index& index_)
      : index(index_), marks(index_.marks_.data()), named(index_.named_.data()), epoch(index_.epoch_) {}

  void name(u32 destination, u32 number) {
    Mark& mark = marks[destination];
    if (mark.epoch != epoch) [[unlikely]] {
      index.open_delivery(destination, mark);
      named = index.named_.data();
    }
    if (number & kOneOfSeveral) [[unlikely]] {
      number &= ~kOneOfSeveral;
      const u32* first = named + index.deliveries_[mark.end / index.named_width_].first;
      if (std::find(first, const_cast<const u32*>(named + mark.next), number) != named + mark.next) return;
    }
    const u32 next = mark.next;
    named[next] = number;
    overflowed += next == mark.end;
    mark.next = next + (next <= mark.end);
  }

  bool is_full(u32 destination) const {
    const Mark& mark = marks[destination];
    return mark.epoch == epoch && mark.next > mark.end;
  }

  void name_group(const Crowd::Group& group) {
    Mark& mark = marks[group.destination];
    if (mark.epoch != epoch) {
      index.open_delivery(group.destination, mark);
      named = index.named_.data();
    }
    if (mark.next > mark.end) return;
    // As many as fit, and one more if there is one: that one says that there are more.
    const u32 count = std::min(group.count, mark.end + 1 - mark.next);
    const u32* numbers = group.numbers.get();
    std::memcpy(named + mark.next, numbers, count * sizeof(u32));
    u32 flags = 0;
    for (u32 i = 0; i < count; ++i) flags |= numbers[i];
    if (flags & kOneOfSeveral) [[unlikely]] {
      for (u32 i = 0; i < group.count && mark.next <= mark.end; ++i) name(group.destination, group.numbers[i]);
      return;
    }
    mark.next += count;
    overflowed += mark.next > mark.end;
  }
};

// Crowds first: they may settle the event. Then the few, then the single ones, so that each loop does one thing.
void Index::name_up_to_limit(const Context& event) {
  Namer namer(*this);
  const u32 enough = destinations_used_;  // once all of them have more than the limit, nothing can change any more
  const auto name_crowd = [&](Target target) {
    for (const Crowd::Group& group : members_.crowd(target).groups()) namer.name_group(group);
  };
  for (const Target target : event.matched.crowd) {
    name_crowd(target);
    if (namer.overflowed >= enough) return;
  }
  // While many destinations are full and many are not, which one comes next cannot be guessed; once most are full it can.
  const auto most_are_full = [&] { return namer.overflowed > enough / 4 * 3; };
  constexpr std::size_t kAhead = 12;
  const Buffer<Target>&many = event.matched.many, &single = event.matched.single;
  for (std::size_t i = 0; i < many.size() && namer.overflowed < enough; ++i) {
    if (i + kAhead < many.size()) members_.prefetch_members(many[i + kAhead]);
    if (is_crowd(many[i])) [[unlikely]] {
      name_crowd(many[i]);
      continue;
    }
    const u8* at = members_.few(many[i]);
    const bool can_guess = most_are_full();
    for (u32 count = Memberships::few_count(many[i]); count > 0; --count, at += kFewBytes) {
      const Target one = load_few(at);
      if (!can_guess || !namer.is_full(destination_of(one))) namer.name(destination_of(one), number_of(one));
    }
  }
  for (std::size_t i = 0; i < single.size() && namer.overflowed < enough; ++i)
    if (!most_are_full() || !namer.is_full(destination_of(single[i])))
      namer.name(destination_of(single[i]), number_of(single[i]));
}

void Index::group(Context& event, const Options& options, Matches& into) {
  deliveries_.clear();
  named_width_ = options.limit + 2;
  if (++epoch_ == 0) {
    std::fill(marks_.begin(), marks_.end(), Mark{});
    epoch_ = 1;
  }
  into.entries_matched += event.matched.size();
  if (event.is_settled) {
    put_settled(into);
  } else if (options.limit > 0) {
    name_up_to_limit(event);
    put_named(into);
  } else {
    name_all(event, into);
  }
  into.event_first.push_back(static_cast<u32>(into.destination.size()));
}

void Index::put_named(Matches& into) const {
  for (const Delivery& delivery : deliveries_) {
    const Mark& mark = marks_[delivery.destination];
    const bool has_more = mark.next > mark.end;
    into.destination.push_back(delivery.destination);
    into.more.push_back(has_more);
    if (!has_more) into.numbers.insert(into.numbers.end(), named_.data() + delivery.first, named_.data() + mark.next);
    into.number_first.push_back(static_cast<u32>(into.numbers.size()));
  }
}

// Counts first, then writes each number where it belongs. A mark's `end` is the count here.
void Index::name_all(const Context& event, Matches& into) {
  each_group(event.matched, [&](u32 destination, const u32* numbers, u32 count) {
    Mark& mark = marks_[destination];
    if (mark.epoch != epoch_) {
      mark = {epoch_, static_cast<u32>(deliveries_.size()), 0};
      deliveries_.push_back({destination, 0, false});
    }
    mark.end += count;
    bool several = false;
    for (u32 i = 0; i < count; ++i) several |= (numbers[i] & kOneOfSeveral) != 0;
    deliveries_[mark.next].several |= several;
  });
  const std::size_t start = into.numbers.size();
  std::size_t next = start;
  for (Delivery& delivery : deliveries_) {
    delivery.first = static_cast<u32>(next);
    next += marks_[delivery.destination].end;
  }
  into.numbers.resize(next);
  u32* numbers = into.numbers.data();
  each_group(event.matched, [&](u32 destination, const u32* named, u32 count) {
    u32& at = deliveries_[marks_[destination].next].first;
    for (u32 i = 0; i < count; ++i) numbers[at++] = named[i] & ~kOneOfSeveral;
  });
  u32* end = numbers + start;
  for (const Delivery& delivery : deliveries_) {
    u32 *last = numbers + delivery.first, *first = last - marks_[delivery.destination].end;
    if (delivery.several) {
      std::sort(first, last);
      last = std::unique(first, last);
    }
    end = std::copy(first, last, end);
    into.destination.push_back(delivery.destination);
    into.more.push_back(0);
    into.number_first.push_back(static_cast<u32>(end - numbers));
  }
  into.numbers.resize(static_cast<std::size_t>(end - numbers));
}

void Index::match(std::string_view batch, const Options& options, Matches& into) {
  std::vector<std::string_view> events;
  into.batch_error = walk_batch(batch, [&](u32, std::string_view event) {
    events.push_back(event);
    return true;
  });
  if (into.batch_error == nullptr) match(std::span<const std::string_view>(events), options, into);
}

void Index::match(std::span<const std::string_view> events, const Options& options, Matches& into) {
  if (options.limit > kLimitMax)
    throw KernelError("value-range", "a limit of numbers is at most " + std::to_string(kLimitMax) + "; 0 names all");
  const u64 start = options.budget_ns > 0 ? now_ns() : 0;
  if (contexts_.size() < kChunk) contexts_.resize(kChunk);
  if (marks_.size() < references_.limit()) marks_.resize(references_.limit());
  everyone_.clear();
  u32 next = options.first;
  // Under a budget it starts with one event and then takes as many as fit, by what one has cost so far.
  u32 most = options.budget_ns > 0 ? 1 : kChunk;
  while (next < events.size()) {
    const u32 count = std::min(most, static_cast<u32>(events.size()) - next);
    bool is_damaged[kChunk] = {};
    visits_.clear();
    large_visits_.clear();
    for (u32 i = 0; i < count; ++i) {
      contexts_[i].fit(words_.attribute_limit());
      const char* wrong = view_event(events[next + i], view_);
      if (wrong == nullptr) wrong = read_event(view_, contexts_[i]);
      if (wrong != nullptr) {
        into.damaged.emplace_back(next + i, wrong);
        contexts_[i].reset();
        is_damaged[i] = true;
      }
    }
    for (u32 i = 0; i < count; ++i)
      if (!is_damaged[i]) find_keys(contexts_[i]);
    for (u32 i = 0; i < count; ++i)
      if (!is_damaged[i]) collect_visits(i);
    for (const Visit& visit : visits_) scan_list(clusters_[visit.cluster], visit.event);
    verify();
    if (options.settle && options.limit > 0 && options.limit <= kNamedMax) settle_events();
    if (!large_visits_.empty()) match_large();
    verify();
    for (u32 i = 0; i < count; ++i) {
      group(contexts_[i], options, into);
      contexts_[i].reset();
    }
    next += count;
    if (options.budget_ns == 0) continue;
    const u64 spent = now_ns() - start;
    if (spent >= options.budget_ns) break;
    const u64 each = spent / (next - options.first) + 1;
    most = static_cast<u32>(std::clamp<u64>((options.budget_ns - spent) / each, 1, kChunk));
  }
  into.next = next;
}

void Index::match_one(const EventView& view, std::vector<u32>& numbers) {
  numbers.clear();
  if (contexts_.empty()) contexts_.resize(1);
  Context& event = contexts_[0];
  event.fit(words_.attribute_limit());
  visits_.clear();
  large_visits_.clear();
  if (read_event(view, event) == nullptr) {
    find_keys(event);
    collect_visits(0);
    for (const Visit& visit : visits_) scan_list(clusters_[visit.cluster], 0);
    if (!large_visits_.empty()) match_large();
    verify();
    each_group(event.matched, [&](u32, const u32* some, u32 count) {
      for (u32 i = 0; i < count; ++i) numbers.push_back(some[i] & ~kOneOfSeveral);
    });
  }
  event.reset();
}

}  // namespace tidewire
