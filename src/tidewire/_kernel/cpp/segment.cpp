#include "segment.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace tidewire {

namespace {

constexpr u32 kDimensionsMax = 12;
constexpr u32 kCoarseLines = 16, kFineLines = 32;  // fine where they are few, or where all entries use them
constexpr u32 kSteps = 256;  // of all lines of a dimension
constexpr u64 kAllKeys = ~u64{0};

// An interval of a record in key space: which keys it touches, and up to which it holds all.
struct KeyRange {
  u64 low;         // the first key it touches
  bool low_whole;  // it holds every value of that first key
  u64 high;        // the last key it touches
  u64 high_whole;  // it holds every value below this key (from `low` on)
};

KeyRange number_range(Number low, Number high) {
  constexpr double kExact = 9007199254740992.0;
  KeyRange range{};
  range.low = low.d == -kInfinity ? 0 : key_of_double(low.d);
  range.low_whole = low.r == 0;
  range.high = high.d == kInfinity ? kAllKeys : key_of_double(high.d);
  range.high_whole = high.d == kInfinity ? kAllKeys : std::abs(high.d) < kExact ? range.high + 1 : range.high;
  return range;
}

KeyRange int_range(i64 low, i64 high, Kind kind) {
  if (kind == Kind::kBool) return {static_cast<u64>(low), true, static_cast<u64>(high), high == 1 ? kAllKeys : 1};
  KeyRange range{key_of_int(low), true, key_of_int(high), key_of_int(high) + 1};
  if (low == std::numeric_limits<i64>::min()) range.low = 0;
  if (high == std::numeric_limits<i64>::max()) range.high = range.high_whole = kAllKeys;
  return range;
}

// A text has a key of its own if at most seven bytes follow the dimension's prefix.
bool is_whole_key(const Dimension& dimension, std::string_view text) {
  return text.starts_with(dimension.prefix) && text.size() - dimension.prefix.size() <= 7;
}

KeyRange text_range(const Dimension& dimension, std::string_view low, std::string_view high, bool has_high) {
  KeyRange range{};
  range.low = low.empty() ? 0 : dimension.key_of_text(low);
  range.low_whole = low.empty() || is_whole_key(dimension, low);
  range.high = range.high_whole = kAllKeys;
  if (has_high) {
    range.high_whole = dimension.key_of_text(high);
    range.high = is_whole_key(dimension, high) ? range.high_whole - 1 : range.high_whole;
  }
  return range;
}

KeyRange scalar_range(const Dimension& dimension, const Scalar& value) {
  switch (value.kind) {
    case Kind::kNumber: {
      const Number number{std::bit_cast<double>(value.bits), value.rest};
      return number_range(number, number);
    }
    case Kind::kBool:
    case Kind::kTimestamp: return int_range(static_cast<i64>(value.bits), static_cast<i64>(value.bits), value.kind);
    default: {
      const u64 key = dimension.key_of_text(value.text);
      const bool whole = is_whole_key(dimension, value.text);
      return {key, whole, key, whole ? key + 1 : key};
    }
  }
}

Kind kind_of(Record record, const Vocabulary& words, const Library& library) {
  switch (record.op()) {
    case Op::kEqKey:
    case Op::kKeySet: return words.key(record.word(0)).kind;
    case Op::kTimeIn: return Kind::kTimestamp;
    case Op::kIsKind: return static_cast<Kind>(record.count());
    case Op::kComplex: return library.sets[record.word(0)]->kind;
    case Op::kPresent: return Kind::kPresent;
    case Op::kAbsent: return Kind::kAbsent;
    case Op::kAnyNumber: return Kind::kAnyNumber;
    default: return Kind::kNumber;
  }
}

template <class Each>
void each_range(Record record, const Dimension& dimension, const Vocabulary& words, const Library& library, Each visit) {
  switch (record.op()) {
    case Op::kEqKey:
    case Op::kKeySet:
      for (u32 i = 0; i < record.count(); ++i) visit(scalar_range(dimension, words.key(record.word(i)).scalar()));
      break;
    case Op::kNumGe: visit(number_range(Number{record.real(0), 0}, Number{kInfinity, 0})); break;
    case Op::kNumLe: visit(number_range(Number{-kInfinity, 0}, Number{record.real(0), 0})); break;
    case Op::kNumIn: visit(number_range(Number{record.real(0), 0}, Number{record.real(1), 0})); break;
    case Op::kTimeIn: visit(int_range(record.time(0), record.time(1), Kind::kTimestamp)); break;
    case Op::kComplex: {
      const ComplexSet& set = *library.sets[record.word(0)];
      for (const auto& [low, high] : set.numbers) visit(number_range(low, high));
      for (const auto& [low, high] : set.times) visit(int_range(low, high, set.kind));
      for (const auto& text : set.texts) visit(text_range(dimension, text.low, text.high, text.has_high));
      break;
    }
    default: visit(KeyRange{0, true, kAllKeys, kAllKeys});
  }
}

constexpr u8 kLowest = 0, kHighest = 255;  // edges that every step is inside of

struct Column {
  u32 candidates = 0, definite = 0;
  u8 low = kLowest, high = kHighest;  // inside of these it holds, outside it does not, on them it must be verified
  bool is_told = false;               // the edges say all there is to say
};

// Which lines of a dimension have this record's bit, and in which steps are the edges of its range?
Column column_of(Record record, const Dimension& dimension, u32 lines, const Vocabulary& words, const Library& library) {
  const u32 buckets = static_cast<u32>(dimension.bounds.size()) + 1;
  const u32 all = buckets == 32 ? ~0u : (1u << buckets) - 1, absent = 1u << (lines - 2), other = 1u << (lines - 1);
  switch (const Kind kind = kind_of(record, words, library)) {
    case Kind::kAbsent: return {absent, absent};
    case Kind::kPresent: return {all | other, all | other};
    case Kind::kAnyNumber: return dimension.kind == Kind::kNumber ? Column{all | other, all} : Column{other, 0};
    default:
      if (kind != dimension.kind) return {other, 0};
  }
  Column column;
  const auto& bounds = dimension.bounds;
  u32 ranges = 0;
  const auto lines_from = [](u32 first, u32 end) { return first < end ? (~0u << first) & (~0u >> (32 - end)) : 0; };
  each_range(record, dimension, words, library, [&](KeyRange range) {
    const u32 first = dimension.bucket_of(range.low);
    const bool holds_first = range.low_whole && range.low == (first == 0 ? 0 : bounds[first - 1]);
    u32 definite_end = buckets, last = buckets - 1;
    if (range.high_whole != kAllKeys) {
      definite_end = last = dimension.bucket_of(range.high_whole);
      if (last > 0 && range.high < bounds[last - 1]) --last;  // the last key it touches is the one before
    } else if (range.high != kAllKeys) {
      last = dimension.bucket_of(range.high);
    }
    column.candidates |= lines_from(first, last + 1);
    column.definite |= lines_from(holds_first ? first : first + 1, definite_end);
    column.low = static_cast<u8>(dimension.step_of(range.low, first) - holds_first);
    column.high = range.high_whole == kAllKeys ? kHighest : dimension.step_of(range.high_whole, definite_end);
    ++ranges;
  });
  const bool has_patterns = record.op() == Op::kComplex && (!library.sets[record.word(0)]->like.empty() ||
                                                            !library.sets[record.word(0)]->unlike.empty());
  if (has_patterns) column.definite = 0;
  column.is_told = ranges == 1 && !has_patterns;
  return column;
}

// How many of these ascending keys are at most this one? A binary search without branches: its way cannot be guessed.
// (With `?:` the compiler makes a branch.)
u32 count_up_to(const u64* keys, u32 count, u64 key) {
  u32 found = 0;
  while (count > 0) {
    const u32 half = (count + 1) / 2;
    found += half * static_cast<u32>(keys[found + half - 1] <= key);
    count -= half;
  }
  return found;
}

std::string common_prefix(const std::vector<std::string>& texts) {
  std::string prefix = texts.empty() ? std::string() : texts.front();
  for (const std::string& text : texts) {
    std::size_t same = 0;
    while (same < prefix.size() && same < text.size() && prefix[same] == text[same]) ++same;
    prefix.resize(same);
  }
  return prefix;
}

void collect_texts(Record record, const Vocabulary& words, const Library& library, std::vector<std::string>& into) {
  if (record.op() == Op::kEqKey || record.op() == Op::kKeySet)
    for (u32 i = 0; i < record.count(); ++i) into.push_back(words.key(record.word(i)).text);
  if (record.op() == Op::kComplex)
    for (const auto& text : library.sets[record.word(0)]->texts) {
      if (!text.low.empty()) into.push_back(text.low);
      if (text.has_high) into.push_back(text.high);
    }
}

// Cuts where the bounds of the filters are, so that few of them fall inside a bucket.
void choose_bounds(Dimension& dimension, std::vector<u64>& keys, u32 lines) {
  std::sort(keys.begin(), keys.end());
  const std::size_t most = lines - 3;
  if (keys.empty()) return;
  std::vector<u64> distinct = keys;
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (distinct.size() <= most) {
    dimension.bounds = distinct;
    return;
  }
  for (std::size_t i = 0; i < most; ++i) {
    const u64 key = keys[(2 * i + 1) * keys.size() / (2 * most)];
    if (dimension.bounds.empty() || dimension.bounds.back() < key) dimension.bounds.push_back(key);
  }
  dimension.steps = kSteps / lines;
  auto first = keys.begin();
  for (std::size_t bucket = 0; bucket <= dimension.bounds.size(); ++bucket) {
    const auto end = bucket == dimension.bounds.size() ? keys.end() : std::lower_bound(first, keys.end(), dimension.bounds[bucket]);
    const auto inside = static_cast<std::size_t>(end - first);
    for (std::size_t i = 1; i < dimension.steps; ++i)
      dimension.cuts.push_back(inside == 0 ? kAllKeys : first[static_cast<std::ptrdiff_t>(i * inside / dimension.steps)]);
    first = end;
  }
}

}  // namespace

u64 Dimension::key_of_text(std::string_view text) const {
  if (text.starts_with(prefix)) return key_of_string(text.substr(prefix.size())) + 1;
  return text < prefix ? 0 : kAllKeys - 1;
}

u64 Dimension::key_of(const Cell& cell) const {
  switch (kind) {
    case Kind::kNumber: return key_of_double(cell.number.d);
    case Kind::kBool: return static_cast<u64>(cell.time);
    case Kind::kTimestamp: return key_of_int(cell.time);
    default: return key_of_text(cell.text);
  }
}

u32 Dimension::bucket_of(u64 key) const {
  return count_up_to(bounds.data(), static_cast<u32>(bounds.size()), key);
}

u32 Dimension::line_of(const Cell& cell, u32 lines) const {
  if (cell.kind == kind) return bucket_of(key_of(cell));
  return cell.kind == Kind::kAbsent ? lines - 2 : lines - 1;
}

u8 Dimension::step_of(u64 key, u32 bucket) const {
  const u32 inside = cuts.empty() ? 0 : count_up_to(cuts.data() + bucket * (steps - 1), steps - 1, key);
  return static_cast<u8>(1 + bucket * steps + inside);
}

Segment::Segment(const std::vector<ProgramView>& sample, Common common, u64 shape, const Vocabulary& words,
                 const Library& library)
    : common_(std::move(common)), shape_(shape) {
  choose_dimensions(sample, words, library);
}

Segment::~Segment() {
  for (u8* block : blocks_) std::free(block);
}

bool Segment::is_common(Record record) const {
  if (record.op() != Op::kEqKey) return false;
  const std::pair<u16, u32> key(record.attribute(), record.word(0));
  return std::find(common_.begin(), common_.end(), key) != common_.end();
}

void Segment::choose_dimensions(const std::vector<ProgramView>& all, const Vocabulary& words, const Library& library) {
  constexpr std::size_t kEnough = 1024;
  std::vector<ProgramView> sample;
  for (std::size_t i = 0; i < all.size(); i += 1 + all.size() / (kEnough + 1)) sample.push_back(all[i]);
  struct Use {
    u32 count = 0;
    std::vector<Record> records;
  };
  std::map<std::pair<u16, Kind>, Use> uses;
  for (const ProgramView program : sample)
    program.each([&](Record record) {
      if (is_common(record) || record.op() == Op::kArea) return;
      Kind kind = kind_of(record, words, library);
      if (kind == Kind::kPresent || kind == Kind::kAbsent || kind == Kind::kAnyNumber) kind = Kind::kNumber;
      Use& use = uses[{record.attribute(), kind}];
      ++use.count;
      use.records.push_back(record);
    });
  std::vector<std::pair<u32, std::pair<u16, Kind>>> ranked;
  for (const auto& [name, use] : uses)
    if (use.count * 16 >= sample.size()) ranked.emplace_back(use.count, name);
  std::sort(ranked.begin(), ranked.end(), std::greater<>());
  if (ranked.size() > kDimensionsMax) ranked.resize(kDimensionsMax);
  lines_ = ranked.size() <= (shape_ == 0 ? 2 : 4) ? kFineLines : kCoarseLines;
  for (const auto& [count, name] : ranked) {
    Dimension dimension;
    dimension.attribute = name.first;
    dimension.kind = name.second;
    std::vector<std::string> texts;
    for (const Record record : uses[name].records) collect_texts(record, words, library, texts);
    dimension.prefix = common_prefix(texts);
    std::vector<u64> keys;
    for (const Record record : uses[name].records)
      if (kind_of(record, words, library) == dimension.kind)
        each_range(record, dimension, words, library, [&](KeyRange range) {
          if (range.low != 0) keys.push_back(range.low);
          if (range.high_whole != kAllKeys) keys.push_back(range.high_whole);
        });
    choose_bounds(dimension, keys, lines_);
    dimensions_.push_back(std::move(dimension));
  }
}

u64 Segment::shape_of(ProgramView program, const Vocabulary& words, const Library& library) const {
  u64 shape = 1;
  program.each([&](Record record) {
    if (is_common(record)) return;
    const auto kind = record.op() == Op::kArea ? 0xFF : static_cast<u64>(kind_of(record, words, library));
    shape = hash_u64(shape, kind << 16 | record.attribute());
  });
  return shape | 1;
}

bool Segment::suits(ProgramView program) const {
  u32 common = 0, covered = 0, rest = 0;
  program.each([&](Record record) {
    if (is_common(record)) {
      ++common;
      return;
    }
    const bool known = std::any_of(dimensions_.begin(), dimensions_.end(),
                                   [&](const Dimension& d) { return d.attribute == record.attribute(); });
    ++(known ? covered : rest);
  });
  return common == common_.size() && covered >= rest;
}

// The first word of a block that is not full, as the position of its first slot.
u32 Segment::open_word() {
  for (u32 b = first_open_; b < blocks_.size(); ++b)
    for (u32 w = 0; w < kBlockWords; ++w)
      if (~load<u64>(blocks_[b] + 8 * w) != 0) {
        first_open_ = b;
        return b * kBlockEntries + w * 64;
      }
  auto* block = static_cast<u8*>(std::aligned_alloc(kLineBytes, block_bytes()));
  if (block == nullptr) throw std::bad_alloc();
  std::memset(block, 0, kLineBytes);  // nobody is alive: what else it holds is not looked at
  blocks_.push_back(block);
  first_open_ = static_cast<u32>(blocks_.size()) - 1;
  return first_open_ * kBlockEntries;
}

struct Segment::Columns {
  Column of[kDimensionsMax];
  bool is_sure, is_told;
};

void Segment::columns_of(ProgramView program, const Vocabulary& words, const Library& library, Columns& into) const {
  for (u32 d = 0; d < dimensions_.size(); ++d) into.of[d] = {~0u, ~0u, kLowest, kHighest, true};
  into.is_sure = into.is_told = true;
  program.each([&](Record record) {
    if (is_common(record)) return;
    bool found = false, told = false;
    for (u32 d = 0; d < dimensions_.size(); ++d) {
      if (dimensions_[d].attribute != record.attribute() || record.op() == Op::kArea) continue;
      const Column column = column_of(record, dimensions_[d], lines_, words, library);
      Column& all = into.of[d];
      all.candidates &= column.candidates;
      all.definite &= column.definite;
      all.low = std::max(all.low, column.low);
      all.high = std::min(all.high, column.high);
      found = true;
      told |= column.is_told;
    }
    into.is_sure &= found;
    into.is_told &= told;
  });
}

namespace {

// The lines of one dimension, for a word of entries. Kept as changes: which bits differ from the line before. An entry
// with a range changes twice, however many lines it has, and all entries of the word are written at once.
struct Lines {
  u64 changes[kFineLines + 1];

  void add(u32 wanted, u64 entry) {
    for (u64 rest = wanted ^ u64{wanted} << 1; rest != 0; rest &= rest - 1) changes[std::countr_zero(rest)] ^= entry;
  }
  void write(u8* first, u32 lines, u64 entries) const {
    u64 bits = 0;
    for (u32 line = 0; line < lines; ++line) {
      bits ^= changes[line];
      u8* at = first + line * kLineBytes;
      store(at, (load<u64>(at) & ~entries) | bits);
    }
  }
};

}  // namespace

u32 Segment::add(std::span<const Newcomer> entries, const Vocabulary& words, const Library& library, u32* positions) {
  const u32 first = open_word();
  u8* word = blocks_[first / kBlockEntries] + first % kBlockEntries / 8;
  const auto dimensions = static_cast<u32>(dimensions_.size());
  Lines candidates[kDimensionsMax], definite[kDimensionsMax];
  for (u32 d = 0; d < dimensions; ++d) candidates[d] = definite[d] = Lines{};
  u64 added = 0, sure = 0, told = 0;
  u32 count = 0;
  if (shape_ == 0) marks_.resize(capacity());
  for (u64 open = ~load<u64>(word); open != 0 && count < entries.size(); open &= open - 1, ++count) {
    const auto& [entry, target, program] = entries[count];
    const u32 position = first + static_cast<u32>(std::countr_zero(open));
    const u64 bit = open & ~(open - 1);
    Columns columns;
    columns_of(program, words, library, columns);
    u8* edges = slot(position, edges_start(), edges_bytes());
    for (u32 d = 0; d < dimensions; ++d) {
      candidates[d].add(columns.of[d].candidates, bit);
      definite[d].add(columns.of[d].definite, bit);
      edges[2 * d] = columns.of[d].low;
      edges[2 * d + 1] = columns.of[d].high;
    }
    added |= bit;
    sure |= columns.is_sure ? bit : 0;
    told |= columns.is_told ? bit : 0;
    set_target(position, target);
    store(slot(position, entries_start(), sizeof(u32)), entry);
    if (shape_ == 0) marks_[position] = mark_of(shape_of(program, words, library));
    positions[count] = position;
  }
  for (u32 d = 0; d < dimensions; ++d) {
    candidates[d].write(word + line_offset(d, false, 0), lines_, added);
    definite[d].write(word + line_offset(d, true, 0), lines_, added);
  }
  const auto put = [&](u8* at, u64 bits) { store(at, (load<u64>(at) & ~added) | bits); };
  put(word + kLineBytes, sure);
  put(word + 2 * kLineBytes, told);
  put(word, added);
  count_ += count;
  return count;
}

std::vector<u32> Segment::positions_of(u16 mark, u32 most) const {
  std::vector<u32> found;
  for (u32 position = 0; position < capacity() && found.size() < most; ++position)
    if ((mark == kEveryShape || marks_[position] == mark) && is_alive(position)) found.push_back(position);
  return found;
}

std::vector<u32> Segment::marks() const {
  std::vector<u32> counts(1u << 16);
  each_position([&](u32 position) { ++counts[marks_[position]]; });
  return counts;
}

void Segment::remove(u32 position) {
  u8* word = blocks_[position / kBlockEntries] + position % kBlockEntries / 64 * 8;
  store(word, load<u64>(word) & ~(1ULL << (position % 64)));
  --count_;
  if (is_single(target_at(position))) lose(destination_of(target_at(position)));
  else tallies_.clear();
  first_open_ = std::min(first_open_, position / kBlockEntries);
}

bool Segment::has_common_keys(const Context& event) const {
  return std::all_of(common_.begin(), common_.end(),
                     [&](const auto& common) { return event.cells[common.first].key == common.second; });
}

KeptTally* Segment::tally_for(const Context& event, u32& line) {
  if (dimensions_.size() != 1 || !has_common_keys(event)) return nullptr;
  if (tallies_.empty()) tallies_.resize(lines_);
  line = dimensions_[0].line_of(event.cells[dimensions_[0].attribute], lines_);
  return &tallies_[line];
}

void Segment::definite_in(u32 line, Matched& sure) const {
  for (const u8* block : blocks_)
    for (u32 w = 0; w < kBlockWords; ++w) {
      const u64 alive = load<u64>(block + 8 * w), is_sure = load<u64>(block + kLineBytes + 8 * w);
      const u64 definite = load<u64>(block + line_offset(0, true, line) + 8 * w);
      for (u64 bits = alive & is_sure & definite; bits != 0; bits &= bits - 1) {
        const u32 slot = w * 64 + static_cast<u32>(std::countr_zero(bits));
        const auto target = load<Target>(block + lines_end() + slot * sizeof(Target));
        (is_single(target) ? sure.single : sure.many).push(target);
      }
    }
}

namespace {

// How far inside its edges an entry is: below 0 it is outside, at 0 it may be either.
i32 room_inside(const u8* edges, const u8* steps, u32 dimensions) {
  i32 least = kHighest;
  for (u32 d = 0; d < dimensions; ++d, edges += 2)
    least = std::min(least, std::min(i32{steps[d]} - edges[0], edges[1] - i32{steps[d]}));
  return least;
}

}  // namespace

void Segment::match(Context& event, u32 number, const SimdOps& simd, Places& places, Buffer<Candidate>& maybe) const {
  if (!has_common_keys(event)) return;
  u32 candidate_offsets[kDimensionsMax], definite_offsets[kDimensionsMax];
  u8 steps[kDimensionsMax];
  for (u32 d = 0; d < dimensions_.size(); ++d) {
    const Dimension& dimension = dimensions_[d];
    const Cell& cell = event.cells[dimension.attribute];
    u32 bucket = cell.kind == Kind::kAbsent ? lines_ - 2 : lines_ - 1;
    steps[d] = 1;  // inside of every entry that does not ask for a value of this kind
    if (cell.kind == dimension.kind) {
      const u64 key = dimension.key_of(cell);
      bucket = dimension.bucket_of(key);
      steps[d] = dimension.step_of(key, bucket);
    }
    candidate_offsets[d] = line_offset(d, false, bucket);
    definite_offsets[d] = line_offset(d, true, bucket);
  }
  const auto dimensions = static_cast<u32>(dimensions_.size());
  places.sure.clear();
  places.unsure.clear();
  u32 *sure_end = places.sure.room_for(capacity() + kBlockSpare), *unsure_end = places.unsure.room_for(capacity() + kBlockSpare);
  simd.find(blocks_.data(), static_cast<u32>(blocks_.size()), candidate_offsets, definite_offsets, dimensions, sure_end,
            unsure_end);
  places.sure.grown_to(sure_end);
  places.unsure.grown_to(unsure_end);
  Matched& matched = event.matched;
  const std::size_t most = places.sure.size() + places.unsure.size() + 1;
  Target *single = matched.single.room_for(most), *many = matched.many.room_for(most);
  Candidate* next_maybe = maybe.room_for(places.unsure.size() + 1);
  // Whether it is a match, and whose, cannot be guessed, so there is no branch on it.
  const auto put = [&](Target target, bool is_match) {
    *single = *many = target;
    single += is_match & is_single(target);
    many += is_match & !is_single(target);
  };
  for (const u32 position : places.sure) put(target_at(position), true);
  for (const u32 position : places.unsure) {
    const bool is_told = blocks_[position / kBlockEntries][2 * kLineBytes + position % kBlockEntries / 8] >> position % 8 & 1;
    const i32 inside = is_told ? room_inside(slot(position, edges_start(), edges_bytes()), steps, dimensions) : 0;
    const Target target = target_at(position);
    put(target, inside > 0);
    *next_maybe = {entry_at(position), number, target};
    next_maybe += inside == 0;
  }
  matched.single.grown_to(single);
  matched.many.grown_to(many);
  maybe.grown_to(next_maybe);
}

void Segment::prefetch_dimensions() const {
  for (const Dimension& dimension : dimensions_)
    for (const auto* keys : {&dimension.bounds, &dimension.cuts})
      for (std::size_t i = 0; i < keys->size(); i += kLineBytes / sizeof(u64)) prefetch(&(*keys)[i]);
}

void Segment::prefetch_part(u32 part, u32 parts) const {
  const u32 lines = block_bytes() / kLineBytes, total = lines * static_cast<u32>(blocks_.size());
  for (u64 i = u64{total} * part / parts; i < u64{total} * (part + 1) / parts; ++i)
    prefetch(blocks_[i / lines] + i % lines * kLineBytes);
}

std::size_t Segment::bytes() const {
  std::size_t total = sizeof *this + marks_.capacity() * sizeof(u16) + blocks_.capacity() * sizeof(u8*) +
                      blocks_.size() * block_bytes();
  for (const Dimension& dimension : dimensions_)
    total += sizeof dimension + (dimension.bounds.capacity() + dimension.cuts.capacity()) * 8;
  for (const KeptTally& kept : tallies_) total += sizeof kept + kept.tally.bytes();
  return total;
}

}  // namespace tidewire
