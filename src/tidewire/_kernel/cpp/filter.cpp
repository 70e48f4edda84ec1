#include "filter.hpp"

#include "pattern.hpp"

namespace tidewire {

namespace {

constexpr std::size_t kConjunctionsMax = 128, kConstraintsMax = 256, kIntervalsMax = 2048, kAreasMax = 16;
constexpr std::size_t kPatternsMax = 32, kCornersMax = 256, kNameMax = 255, kTextMax = 16384;

[[noreturn]] void damaged(const char* why) {
  throw KernelError("filter-damaged", std::string("not a filter in normal form: ") + why);
}

// Only the msgpack that filters are made of: arrays, strings, bytes, integers, doubles, booleans, nil.
class Reader {
 public:
  explicit Reader(std::string_view data) : at_(data.data()), end_(data.data() + data.size()) {}

  const char* position() const { return at_; }
  bool at_end() const { return at_ == end_; }

  u32 array(std::size_t most, const char* why) {
    const u8 head = byte();
    u32 size = 0;
    if ((head & 0xF0) == 0x90) size = head & 0x0F;
    else if (head == 0xDC) size = big<u16>();
    else if (head == 0xDD) size = big<u32>();
    else damaged("an array was expected");
    if (size > most) damaged(why);
    return size;
  }

  void array_of(u32 size) {
    if (array(size, "an array is too long") != size) damaged("an array is too short");
  }

  std::string_view text() {
    const u8 head = byte();
    std::size_t size = 0;
    if ((head & 0xE0) == 0xA0) size = head & 0x1F;
    else if (head == 0xD9) size = byte();
    else if (head == 0xDA) size = big<u16>();
    else if (head == 0xDB) size = big<u32>();
    else damaged("a string was expected");
    const std::string_view found = take(size);
    if (!is_utf8(found)) damaged("a string is not UTF-8");
    return found;
  }

  std::string_view binary() {
    const u8 head = byte();
    std::size_t size = 0;
    if (head == 0xC4) size = byte();
    else if (head == 0xC5) size = big<u16>();
    else if (head == 0xC6) size = big<u32>();
    else damaged("bytes were expected");
    return take(size);
  }

  bool nil() {
    if (at_ == end_ || static_cast<u8>(*at_) != 0xC0) return false;
    ++at_;
    return true;
  }

  bool boolean() {
    const u8 head = byte();
    if (head != 0xC2 && head != 0xC3) damaged("true or false was expected");
    return head == 0xC3;
  }

  i64 integer() {
    const u8 head = byte();
    if (head < 0x80) return head;
    if (head >= 0xE0) return static_cast<std::int8_t>(head);
    switch (head) {
      case 0xCC: return byte();
      case 0xCD: return big<u16>();
      case 0xCE: return big<u32>();
      case 0xCF: {
        const u64 value = big<u64>();
        if (value >> 63) damaged("an integer is beyond int64");
        return static_cast<i64>(value);
      }
      case 0xD0: return static_cast<std::int8_t>(byte());
      case 0xD1: return static_cast<std::int16_t>(big<u16>());
      case 0xD2: return static_cast<i32>(big<u32>());
      case 0xD3: return static_cast<i64>(big<u64>());
      default: damaged("an integer was expected");
    }
  }

  Number number() {
    if (at_ < end_ && static_cast<u8>(*at_) == 0xCB) {
      ++at_;
      const double value = std::bit_cast<double>(big<u64>());
      if (value != value) damaged("a bound is not a number");
      return Number::of(value);
    }
    return Number::of(integer());
  }

  double real() {
    const Number value = number();
    if (std::isinf(value.d)) damaged("a coordinate or distance is infinite");
    return value.d;
  }

 private:
  u8 byte() {
    if (at_ == end_) damaged("it ends too early");
    return static_cast<u8>(*at_++);
  }
  std::string_view take(std::size_t size) {
    if (static_cast<std::size_t>(end_ - at_) < size) damaged("it ends too early");
    if (size > kTextMax) damaged("a string is too long");
    const std::string_view found(at_, size);
    at_ += size;
    return found;
  }
  template <class T>
  T big() {
    if (static_cast<std::size_t>(end_ - at_) < sizeof(T)) damaged("it ends too early");
    T value = load<T>(at_);
    at_ += sizeof(T);
    if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
    else if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
    else return __builtin_bswap64(value);
  }

  const char* at_;
  const char* end_;
};

void read_ends(Reader& in, Kind kind, Interval& found, const Interval* last) {
  switch (kind) {
    case Kind::kBool:
      found.time_low = in.boolean();
      found.time_high = in.nil() ? 1 : in.boolean() - 1;
      break;
    case Kind::kTimestamp: {
      found.time_low = in.integer();
      if (in.nil()) {
        found.time_high = std::numeric_limits<i64>::max();
      } else {
        const i64 high = in.integer();
        if (high == std::numeric_limits<i64>::min()) damaged("an interval is empty");
        found.time_high = high - 1;
      }
      break;
    }
    case Kind::kNumber: {
      found.low = in.number();
      if (in.nil()) {
        found.high = Number::of(kInfinity);
      } else {
        const Number high = in.number();
        if (high.d == -kInfinity) damaged("an interval is empty");
        found.high = before(high);
      }
      if (found.high < found.low) damaged("an interval is empty");
      if (last != nullptr && !(last->high < found.low)) damaged("intervals are not in order");
      return;
    }
    default: {
      const bool is_text = kind == Kind::kString;
      found.text_low = is_text ? in.text() : in.binary();
      found.has_high = !in.nil();
      if (found.has_high) found.text_high = is_text ? in.text() : in.binary();
      if (found.has_high && found.text_high <= found.text_low) damaged("an interval is empty");
      if (last != nullptr && (!last->has_high || last->text_high >= found.text_low))
        damaged("intervals are not in order");
      return;
    }
  }
  if (found.time_high < found.time_low) damaged("an interval is empty");
  if (last != nullptr && last->time_high >= found.time_low) damaged("intervals are not in order");
}

void read_intervals(Reader& in, FilterSpec& into, Constraint& constraint) {
  constraint.interval_first = static_cast<u32>(into.intervals.size());
  constraint.interval_count = in.array(kIntervalsMax, "it has too many intervals");
  const bool typed = constraint.kind >= Kind::kBool && constraint.kind <= Kind::kBytes;
  if (typed != (constraint.interval_count > 0)) damaged("intervals do not fit the kind");
  for (u32 i = 0; i < constraint.interval_count; ++i) {
    in.array_of(2);
    Interval found;
    read_ends(in, constraint.kind, found, i == 0 ? nullptr : &into.intervals.back());
    into.intervals.push_back(found);
  }
}

u32 read_patterns(Reader& in, FilterSpec& into, Kind kind) {
  const u32 count = in.array(kPatternsMax, "it has too many patterns");
  if (count > 0 && kind != Kind::kString) damaged("patterns do not fit the kind");
  for (u32 i = 0; i < count; ++i) {
    const std::string_view pattern = in.text();
    if (!Pattern::is_acceptable(pattern)) damaged("a pattern is not acceptable");
    into.patterns.push_back(pattern);
  }
  return count;
}

void read_constraint(Reader& in, FilterSpec& into, std::string_view previous) {
  Constraint constraint;
  in.array_of(2);
  constraint.attribute = in.text();
  if (constraint.attribute.empty() || constraint.attribute.size() > kNameMax) damaged("an attribute name is empty or too long");
  if (!previous.empty() && constraint.attribute <= previous) damaged("attributes are not in order");
  const char* start = in.position();
  in.array_of(4);
  const i64 kind = in.integer();
  if (kind < 0 || kind > 7) damaged("a kind is unknown");
  constraint.kind = static_cast<Kind>(kind);
  read_intervals(in, into, constraint);
  constraint.like_first = static_cast<u32>(into.patterns.size());
  constraint.like_count = read_patterns(in, into, constraint.kind);
  constraint.unlike_first = static_cast<u32>(into.patterns.size());
  constraint.unlike_count = read_patterns(in, into, constraint.kind);
  constraint.raw = std::string_view(start, static_cast<std::size_t>(in.position() - start));
  into.constraints.push_back(constraint);
}

bool is_place(double lat, double lon, double lon_most) { return std::abs(lat) <= 90.0 && std::abs(lon) <= lon_most; }

void read_area(Reader& in, FilterSpec& into) {
  Area area;
  const char* start = in.position();
  const u32 fields = in.array(7, "an area is not known");
  const i64 tag = in.integer();
  if (!(tag == 0 && fields == 7) && !(tag == 1 && fields == 5)) damaged("an area is not known");
  area.is_circle = tag == 0;
  area.latitude = in.text();
  area.longitude = in.text();
  area.inside = in.boolean();
  if (area.is_circle) {
    area.center_lat = in.real();
    area.center_lon = in.real();
    area.radius_m = in.real();
    if (!is_place(area.center_lat, area.center_lon, 360.0) || area.radius_m < 0) damaged("a circle is not on the Earth");
  } else {
    const u32 corners = in.array(kCornersMax, "a polygon has too many corners");
    if (corners < 3) damaged("a polygon has fewer than three corners");
    for (u32 i = 0; i < corners; ++i) {
      in.array_of(2);
      area.corners.push_back(in.real());
      area.corners.push_back(in.real());
      if (!is_place(area.corners[2 * i], area.corners[2 * i + 1], 720.0)) damaged("a polygon is not on the Earth");
    }
  }
  area.raw = std::string_view(start, static_cast<std::size_t>(in.position() - start));
  into.areas.push_back(std::move(area));
}

// An area is only looked at where both of its attributes are constrained to numbers.
void check_area(const FilterSpec& spec, const Conjunction& conjunction, const Area& area) {
  for (const std::string_view name : {area.latitude, area.longitude}) {
    bool found = false;
    for (u32 i = 0; i < conjunction.constraint_count; ++i) {
      const Constraint& constraint = spec.constraints[conjunction.constraint_first + i];
      found |= constraint.attribute == name && constraint.kind == Kind::kNumber;
    }
    if (!found) damaged("an area's attributes are not constrained to its box");
  }
}

}  // namespace

void FilterSpec::clear() {
  conjunctions.clear();
  constraints.clear();
  intervals.clear();
  patterns.clear();
  areas.clear();
}

void parse_filter(std::string_view msgpack, FilterSpec& into) {
  into.clear();
  Reader in(msgpack);
  in.array_of(1);
  const u32 count = in.array(kConjunctionsMax, "it has too many conjunctions");
  for (u32 i = 0; i < count; ++i) {
    Conjunction conjunction;
    in.array_of(2);
    conjunction.constraint_first = static_cast<u32>(into.constraints.size());
    conjunction.constraint_count = in.array(kConstraintsMax, "it has too many constraints");
    for (u32 j = 0; j < conjunction.constraint_count; ++j)
      read_constraint(in, into, j == 0 ? std::string_view() : into.constraints.back().attribute);
    conjunction.area_first = static_cast<u32>(into.areas.size());
    conjunction.area_count = in.array(kAreasMax, "it has too many areas");
    for (u32 j = 0; j < conjunction.area_count; ++j) {
      read_area(in, into);
      check_area(into, conjunction, into.areas.back());
    }
    into.conjunctions.push_back(conjunction);
  }
  if (!in.at_end()) damaged("something follows it");
}

}  // namespace tidewire
