#include "segment.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace tidewire {

namespace {

constexpr u32 kDimensionsMax = 12;
constexpr u32 kCoarseLines = 16, kFineLines = 32;  // fine where they are few, or where all entries use them
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

struct Column {
  u32 candidates = 0, definite = 0;
};

// Which lines of a dimension have this record's bit?
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
  const auto bucket_of = [&](u64 key) {
    return static_cast<u32>(std::upper_bound(bounds.begin(), bounds.end(), key) - bounds.begin());
  };
  const auto lines_from = [](u32 first, u32 end) { return first < end ? (~0u << first) & (~0u >> (32 - end)) : 0; };
  each_range(record, dimension, words, library, [&](KeyRange range) {
    const u32 first = bucket_of(range.low);
    const bool holds_first = range.low_whole && range.low == (first == 0 ? 0 : bounds[first - 1]);
    const u32 definite_end = range.high_whole == kAllKeys ? buckets : bucket_of(range.high_whole);
    column.candidates |= lines_from(first, bucket_of(range.high) + 1);
    column.definite |= lines_from(holds_first ? first : first + 1, definite_end);
  });
  const bool has_patterns = record.op() == Op::kComplex && (!library.sets[record.word(0)]->like.empty() ||
                                                            !library.sets[record.word(0)]->unlike.empty());
  if (has_patterns) column.definite = 0;
  return column;
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

u32 Dimension::bucket_of(const Cell& cell, u32 lines) const {
  if (cell.kind == Kind::kAbsent) return lines - 2;
  if (cell.kind != kind) return lines - 1;
  const u64 key = key_of(cell);
  return static_cast<u32>(std::upper_bound(bounds.begin(), bounds.end(), key) - bounds.begin());
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

u32 Segment::free_position() {
  for (u32 b = first_open_; b < blocks_.size(); ++b)
    for (u32 w = 0; w < kBlockWords; ++w) {
      const u64 alive = load<u64>(blocks_[b] + 8 * w);
      if (~alive != 0) {
        first_open_ = b;
        return b * kBlockEntries + w * 64 + static_cast<u32>(std::countr_one(alive));
      }
    }
  auto* block = static_cast<u8*>(std::aligned_alloc(kLineBytes, block_bytes()));
  if (block == nullptr) throw std::bad_alloc();
  std::memset(block, 0, block_bytes());
  blocks_.push_back(block);
  first_open_ = static_cast<u32>(blocks_.size()) - 1;
  return first_open_ * kBlockEntries;
}

u32 Segment::add(u32 entry, Target target, ProgramView program, const Vocabulary& words, const Library& library) {
  const u32 position = free_position();
  u8* block = blocks_[position / kBlockEntries];
  const u32 slot = position % kBlockEntries;
  u8* word = block + slot / 64 * 8;
  const u64 bit = 1ULL << (slot % 64);
  const auto put = [&](u8* at, bool on) {
    const u64 old = load<u64>(at);
    store(at, on ? old | bit : old & ~bit);
  };
  Column columns[kDimensionsMax];
  for (u32 d = 0; d < dimensions_.size(); ++d) columns[d] = {~0u, ~0u};
  bool is_sure = true;
  program.each([&](Record record) {
    if (is_common(record)) return;
    bool found = false;
    for (u32 d = 0; d < dimensions_.size(); ++d) {
      if (dimensions_[d].attribute != record.attribute() || record.op() == Op::kArea) continue;
      const Column column = column_of(record, dimensions_[d], lines_, words, library);
      columns[d].candidates &= column.candidates;
      columns[d].definite &= column.definite;
      found = true;
    }
    is_sure &= found;
  });
  const u32 every = lines_ == 32 ? ~0u : (1u << lines_) - 1;
  const bool is_fresh = position >= fresh_from_;  // all its bits are clear
  fresh_from_ = std::max(fresh_from_, position + 1);
  for (u32 d = 0; d < dimensions_.size(); ++d) {
    const auto set_column = [&](u8* first, u32 wanted) {
      for (u32 rest = is_fresh ? wanted & every : every; rest != 0; rest &= rest - 1) {
        const auto line = static_cast<u32>(std::countr_zero(rest));
        put(first + line * kLineBytes, wanted >> line & 1);
      }
    };
    set_column(word + line_offset(d, false, 0), columns[d].candidates);
    set_column(word + line_offset(d, true, 0), columns[d].definite);
  }
  put(word + kLineBytes, is_sure);
  put(word, true);
  set_target(position, target);
  store(this->slot(position, entries_start(), sizeof(u32)), entry);
  ++count_;
  return position;
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

KeptTally* Segment::tally_for(const Context& event) {
  if (dimensions_.size() != 1 || !has_common_keys(event)) return nullptr;
  if (tallies_.empty()) tallies_.resize(lines_);
  return &tallies_[dimensions_[0].bucket_of(event.cells[dimensions_[0].attribute], lines_)];
}

void Segment::match(const Context& event, const SimdOps& simd, std::vector<u64>& masks, Matched& sure,
                    Buffer<Candidate>& maybe) const {
  if (!has_common_keys(event)) return;
  u32 candidate_offsets[kDimensionsMax], definite_offsets[kDimensionsMax];
  for (u32 d = 0; d < dimensions_.size(); ++d) {
    const u32 bucket = dimensions_[d].bucket_of(event.cells[dimensions_[d].attribute], lines_);
    candidate_offsets[d] = line_offset(d, false, bucket);
    definite_offsets[d] = line_offset(d, true, bucket);
  }
  masks.resize(blocks_.size() * 2 * kBlockWords);
  const auto dimensions = static_cast<u32>(dimensions_.size());
  if (!simd.block_masks(blocks_.data(), static_cast<u32>(blocks_.size()), candidate_offsets, definite_offsets, dimensions,
                        masks.data()))
    return;
  const u64* mask = masks.data();
  for (const u8* block : blocks_) {
    const u8 *targets = block + lines_end(), *entries = block + entries_start();
    Target *single = sure.single.room_for(kBlockEntries + 1), *many = sure.many.room_for(kBlockEntries + 1);
    Candidate* next_maybe = maybe.room_for(kBlockEntries);
    for (u32 w = 0; w < kBlockWords; ++w, targets += 64 * sizeof(Target), entries += 64 * sizeof(u32)) {
      const u64 surely = mask[kBlockWords + w];
      for (u64 bits = surely; bits != 0; bits &= bits - 1) {
        const auto target = load<Target>(targets + 8 * static_cast<u32>(std::countr_zero(bits)));
        *single = *many = target;
        single += is_single(target);
        many += !is_single(target);
      }
      for (u64 bits = mask[w] & ~surely; bits != 0; bits &= bits - 1) {
        const auto slot = static_cast<u32>(std::countr_zero(bits));
        *next_maybe++ = {load<u32>(entries + 4 * slot), load<Target>(targets + 8 * slot)};
      }
    }
    sure.single.grown_to(single);
    sure.many.grown_to(many);
    maybe.grown_to(next_maybe);
    mask += 2 * kBlockWords;
  }
}

std::size_t Segment::bytes() const {
  std::size_t total = sizeof *this + blocks_.capacity() * sizeof(u8*) + blocks_.size() * block_bytes();
  for (const Dimension& dimension : dimensions_) total += sizeof dimension + dimension.bounds.capacity() * 8;
  for (const KeptTally& kept : tallies_) total += sizeof kept + kept.tally.bytes();
  return total;
}

}  // namespace tidewire
