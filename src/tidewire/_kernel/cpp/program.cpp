#include "program.hpp"

#include <algorithm>
#include <array>

namespace tidewire {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr u32 kInlineKeysMax = 16;

}  // namespace

void Context::fit(u32 attributes) {
  if (cells.size() >= attributes) return;
  cells.resize(attributes);
  numbers.resize(std::size_t{attributes} * 2, kNaN);
  numbers[0] = 0.0;  // attribute 0 stands for "anything goes"
}

void Context::reset() {
  for (const u32 attribute : touched) {
    cells[attribute] = Cell{};
    numbers[std::size_t{attribute} * 2] = numbers[std::size_t{attribute} * 2 + 1] = kNaN;
  }
  touched.clear();
  matched.clear();
  places.clear();
  is_exact = true;
  is_settled = false;
}

const Context::Place& Context::place(u32 lat, u32 lon) {
  for (const Place& known : places)
    if (known.lat == lat && known.lon == lon) return known;
  Place found{lat, lon, false, {}};
  const Cell &a = cells[lat], &b = cells[lon];
  if (a.kind == Kind::kNumber && b.kind == Kind::kNumber && is_on_earth(a.number.d, b.number.d)) {
    found.is_valid = true;
    found.vector = unit_vector(a.number.d, b.number.d);
  }
  places.push_back(found);
  return places.back();
}

bool ComplexSet::has(const Cell& cell) const {
  if (cell.kind != kind) return false;
  if (kind == Kind::kNumber) {
    auto next = std::upper_bound(numbers.begin(), numbers.end(), cell.number,
                                 [](Number v, const auto& range) { return v < range.first; });
    return next != numbers.begin() && cell.number <= std::prev(next)->second;
  }
  if (kind == Kind::kTimestamp || kind == Kind::kBool) {
    auto next = std::upper_bound(times.begin(), times.end(), cell.time,
                                 [](i64 v, const auto& range) { return v < range.first; });
    return next != times.begin() && cell.time <= std::prev(next)->second;
  }
  auto next = std::upper_bound(texts.begin(), texts.end(), cell.text,
                               [](std::string_view v, const Text& range) { return v < range.low; });
  if (next == texts.begin()) return false;
  const Text& range = *std::prev(next);
  if (range.has_high && cell.text >= range.high) return false;
  return std::all_of(like.begin(), like.end(), [&](const Pattern& p) { return p.matches(cell.text); }) &&
         std::none_of(unlike.begin(), unlike.end(), [&](const Pattern& p) { return p.matches(cell.text); });
}

std::size_t ComplexSet::bytes() const {
  std::size_t total = sizeof *this + numbers.capacity() * sizeof(numbers[0]) + times.capacity() * sizeof(times[0]) +
                      texts.capacity() * sizeof(Text) + raw.capacity();
  for (const Text& text : texts) total += text.low.capacity() + text.high.capacity();
  for (const auto* patterns : {&like, &unlike})
    for (const Pattern& pattern : *patterns) total += sizeof pattern + pattern.bytes();
  return total;
}

std::size_t Library::bytes() const {
  std::size_t total = sets.bytes() + areas.bytes();
  for (u32 i = 1; i < sets.limit(); ++i)
    if (sets[i]) total += sets[i]->bytes();
  for (u32 i = 1; i < areas.limit(); ++i)
    if (areas[i]) total += areas[i]->bytes();
  return total;
}

namespace {

bool record_holds(Record record, Context& event, const Library& library) {
  const Cell& cell = event.cells[record.attribute()];
  switch (record.op()) {
    case Op::kEqKey: return cell.key == record.word(0);
    case Op::kKeySet: {
      if (cell.key == 0) return false;
      for (u32 i = 0; i < record.count(); ++i)
        if (record.word(i) == cell.key) return true;
      return false;
    }
    case Op::kNumGe: return cell.kind == Kind::kNumber && cell.number.d >= record.real(0);
    case Op::kNumLe: return cell.kind == Kind::kNumber && cell.number <= Number{record.real(0), 0};
    case Op::kNumIn:
      return cell.kind == Kind::kNumber && cell.number.d >= record.real(0) && cell.number <= Number{record.real(1), 0};
    case Op::kTimeIn:
      return cell.kind == Kind::kTimestamp && cell.time >= record.time(0) && cell.time <= record.time(1);
    case Op::kIsKind: return cell.kind == static_cast<Kind>(record.count());
    case Op::kPresent: return cell.kind != Kind::kAbsent;
    case Op::kAbsent: return cell.kind == Kind::kAbsent;
    case Op::kAnyNumber: return cell.kind == Kind::kNumber || cell.kind == Kind::kAnyNumber;
    case Op::kComplex: return library.sets[record.word(0)]->has(cell);
    case Op::kArea: {
      const CompiledArea& area = *library.areas[record.word(0)];
      const Context::Place& place = event.place(area.lat, area.lon);
      return place.is_valid && area.holds(cell.number.d, event.cells[area.lon].number.d, place.vector);
    }
  }
  return false;
}

}  // namespace

bool holds(ProgramView program, Context& event, const Library& library) {
  const u8* next = program.at + kProgramHeader;
  for (u32 i = program.records(); i > 0; --i) {
    const Record record{next};
    if (!record_holds(record, event, library)) return false;
    next += record.size();
  }
  return true;
}

u64 hash_program(ProgramView program, const Library& library, u64 seed) {
  u64 state = seed;
  program.each([&](Record record) {
    if (record.op() == Op::kComplex || record.op() == Op::kArea) {
      const std::string& raw =
          record.op() == Op::kComplex ? library.sets[record.word(0)]->raw : library.areas[record.word(0)]->raw;
      state = hash_bytes(raw.data(), raw.size(), hash_bytes(record.at, 4, state));
    } else {
      state = hash_bytes(record.at, record.size(), state);
    }
  });
  return state;
}

void use(ProgramView program, const Library& library, Vocabulary& words) {
  program.each([&](Record record) {
    words.use_attribute(record.attribute());
    if (record.op() == Op::kArea) words.use_attribute(library.areas[record.word(0)]->lon);
    if (record.op() == Op::kEqKey) words.use_key(record.word(0));
    if (record.op() == Op::kKeySet)
      for (u32 i = 0; i < record.count(); ++i) words.use_key(record.word(i));
  });
}

void release(ProgramView program, Library& library, Vocabulary& words) {
  program.each([&](Record record) {
    if (record.op() == Op::kEqKey) words.drop_key(record.word(0));
    if (record.op() == Op::kKeySet)
      for (u32 i = 0; i < record.count(); ++i) words.drop_key(record.word(i));
    if (record.op() == Op::kComplex) library.sets.give(record.word(0));
    if (record.op() == Op::kArea) {
      words.drop_attribute(library.areas[record.word(0)]->lon);
      library.areas.give(record.word(0));
    }
    words.drop_attribute(record.attribute());
  });
}

template <class T>
void Draft::put(T value) {
  u8* at = bytes_.room_for(sizeof value);
  store(at, value);
  bytes_.grown_to(at + sizeof value);
}

void Draft::head(u32 attribute, Op op, u32 count) { put(attribute | static_cast<u32>(op) << 16 | count << 24); }

bool is_points(const FilterSpec& spec, const Constraint& constraint) {
  if (constraint.kind < Kind::kBool || constraint.kind > Kind::kBytes) return false;
  if (constraint.like_count + constraint.unlike_count > 0 || constraint.interval_count > kInlineKeysMax) return false;
  const Interval* first = &spec.intervals[constraint.interval_first];
  return std::all_of(first, first + constraint.interval_count, [&](const Interval& i) {
    if (constraint.kind == Kind::kNumber) return i.low == i.high;
    if (constraint.kind == Kind::kBool || constraint.kind == Kind::kTimestamp) return i.time_low == i.time_high;
    return i.has_high && i.text_high.size() == i.text_low.size() + 1 && i.text_high.back() == '\0' &&
           i.text_high.starts_with(i.text_low);
  });
}

namespace {

template <class Each>
void each_point(const FilterSpec& spec, const Constraint& constraint, Each visit) {
  for (u32 i = 0; i < constraint.interval_count; ++i) {
    const Interval& interval = spec.intervals[constraint.interval_first + i];
    if (constraint.kind == Kind::kNumber) visit(Scalar::of_number(interval.low));
    else if (constraint.kind == Kind::kString || constraint.kind == Kind::kBytes)
      visit(Scalar::of_text(constraint.kind, interval.text_low));
    else visit(Scalar::of_int(constraint.kind, interval.time_low));
  }
}

}  // namespace

void find_tags(const FilterSpec& spec, const Vocabulary& words, std::vector<u32>& into) {
  into.clear();
  for (const Constraint& constraint : spec.constraints) {
    if (!is_points(spec, constraint)) continue;
    const u32 attribute = words.find_attribute(constraint.attribute);
    each_point(spec, constraint, [&](const Scalar& value) { into.push_back(words.tag_of(attribute, value)); });
  }
}

bool Draft::add_points(const FilterSpec& spec, const Constraint& constraint, u32 attribute, Vocabulary& words) {
  if (!is_points(spec, constraint)) return false;
  head(attribute, constraint.interval_count == 1 ? Op::kEqKey : Op::kKeySet, constraint.interval_count);
  each_point(spec, constraint, [&](const Scalar& value) {
    keys_.push_back(words.intern_key(attribute, value));
    put(keys_.back());
  });
  return true;
}

bool Draft::add_interval(const Interval& interval, Kind kind, u32 attribute) {
  if (kind == Kind::kNumber) {
    if (interval.low.r != 0 || interval.high.r != 0) return false;
    const bool from = interval.low.d != -kInfinity, to = interval.high.d != kInfinity;
    if (!from && !to) head(attribute, Op::kIsKind, static_cast<u32>(kind));
    else head(attribute, from && to ? Op::kNumIn : from ? Op::kNumGe : Op::kNumLe, 0);
    if (from) put(interval.low.d);
    if (to) put(interval.high.d);
    return true;
  }
  if (kind == Kind::kTimestamp) {
    head(attribute, Op::kTimeIn, 0);
    put(interval.time_low);
    put(interval.time_high);
    return true;
  }
  if (kind == Kind::kBool || (interval.text_low.empty() && !interval.has_high)) {
    head(attribute, Op::kIsKind, static_cast<u32>(kind));
    return true;
  }
  return false;
}

void Draft::add_set(const FilterSpec& spec, const Constraint& constraint, Vocabulary& words) {
  const u32 attribute = words.intern_attribute(constraint.attribute);
  attributes_.push_back(attribute);
  switch (constraint.kind) {
    case Kind::kAbsent: return head(attribute, Op::kAbsent, 0);
    case Kind::kPresent: return head(attribute, Op::kPresent, 0);
    case Kind::kAnyNumber: return head(attribute, Op::kAnyNumber, 0);
    default: break;
  }
  if (add_points(spec, constraint, attribute, words)) return;
  if (constraint.like_count + constraint.unlike_count == 0 && constraint.interval_count == 1 &&
      add_interval(spec.intervals[constraint.interval_first], constraint.kind, attribute))
    return;
  head(attribute, Op::kComplex, 0);
  references_.push_back({static_cast<u32>(bytes_.size()), &spec, &constraint, nullptr, 0, 0});
  put(u32{0});
}

void Draft::compile(const FilterSpec& spec, const Conjunction& conjunction, Vocabulary& words) {
  bytes_.clear();
  put(std::array<u8, kProgramHeader>{});
  references_.clear();
  attributes_.clear();
  keys_.clear();
  for (u32 i = 0; i < conjunction.constraint_count; ++i)
    add_set(spec, spec.constraints[conjunction.constraint_first + i], words);
  for (u32 i = 0; i < conjunction.area_count; ++i) {
    const Area& area = spec.areas[conjunction.area_first + i];
    // Both are constrained to the area's box, so they have been named above.
    const u32 lat = words.find_attribute(area.latitude), lon = words.find_attribute(area.longitude);
    head(lat, Op::kArea, 0);
    references_.push_back({static_cast<u32>(bytes_.size()), &spec, nullptr, &area, lat, lon});
    put(u32{0});
  }
  store(bytes_.begin(), static_cast<u16>(bytes_.size()));
  store(bytes_.begin() + 2, static_cast<u16>(conjunction.constraint_count + conjunction.area_count));
}

u64 Draft::hash(u64 seed) const {
  u64 state = seed;
  auto reference = references_.begin();
  view().each([&](Record record) {
    if (record.op() == Op::kComplex || record.op() == Op::kArea) {
      const std::string_view raw = reference->set != nullptr ? reference->set->raw : reference->area->raw;
      state = hash_bytes(raw.data(), raw.size(), hash_bytes(record.at, 4, state));
      ++reference;
    } else {
      state = hash_bytes(record.at, record.size(), state);
    }
  });
  return state;
}

bool Draft::same_as(ProgramView stored, const Library& library) const {
  if (stored.size() != size()) return false;
  if (references_.empty())
    return std::memcmp(stored.at + kProgramHeader, bytes_.begin() + kProgramHeader, size() - kProgramHeader) == 0;
  auto reference = references_.begin();
  const u8* theirs = stored.at + kProgramHeader;
  bool same = stored.records() == view().records();
  view().each([&](Record record) {
    if (!same) return;
    same = std::memcmp(theirs, record.at, 4) == 0;
    if (!same) return;
    if (record.op() == Op::kComplex) same = library.sets[Record{theirs}.word(0)]->raw == (reference++)->set->raw;
    else if (record.op() == Op::kArea) same = library.areas[Record{theirs}.word(0)]->raw == (reference++)->area->raw;
    else same = std::memcmp(theirs, record.at, record.size()) == 0;
    theirs += record.size();
  });
  return same;
}

std::unique_ptr<ComplexSet> make_set(const FilterSpec& spec, const Constraint& constraint) {
  auto set = std::make_unique<ComplexSet>();
  set->kind = constraint.kind;
  set->raw = constraint.raw;
  for (u32 i = 0; i < constraint.interval_count; ++i) {
    const Interval& interval = spec.intervals[constraint.interval_first + i];
    if (constraint.kind == Kind::kNumber) set->numbers.emplace_back(interval.low, interval.high);
    else if (constraint.kind == Kind::kTimestamp || constraint.kind == Kind::kBool)
      set->times.emplace_back(interval.time_low, interval.time_high);
    else
      set->texts.push_back({std::string(interval.text_low), std::string(interval.text_high), interval.has_high});
  }
  for (u32 i = 0; i < constraint.like_count; ++i) set->like.emplace_back(spec.patterns[constraint.like_first + i]);
  for (u32 i = 0; i < constraint.unlike_count; ++i) set->unlike.emplace_back(spec.patterns[constraint.unlike_first + i]);
  return set;
}

std::unique_ptr<CompiledArea> make_area(const Area& area, u32 lat, u32 lon) {
  auto made = std::make_unique<CompiledArea>();
  made->lat = lat;
  made->lon = lon;
  made->is_circle = area.is_circle;
  made->inside = area.inside;
  made->raw = area.raw;
  made->corners = area.corners;
  if (area.is_circle) {
    made->center = unit_vector(area.center_lat, area.center_lon);
    made->chord2 = chord_squared(area.radius_m);
  }
  return made;
}

void Draft::store_at(u8* place, Library& library, Vocabulary& words) const {
  std::memcpy(place, bytes_.begin(), bytes_.size());
  for (const Reference& reference : references_) {
    u32 id = 0;
    if (reference.set != nullptr) {
      id = library.sets.take();
      library.sets[id] = make_set(*reference.spec, *reference.set);
    } else {
      id = library.areas.take();
      library.areas[id] = make_area(*reference.area, reference.lat, reference.lon);
    }
    store(place + reference.offset, id);
  }
  use(ProgramView{place}, library, words);
}

void Draft::forget_unused(Vocabulary& words) const {
  for (const u32 key : keys_) words.forget_unused_key(key);
  for (const u32 attribute : attributes_) words.forget_unused_attribute(attribute);
}

}  // namespace tidewire
