// A conjunction as the index keeps it: a few packed records, exact, checked against the cells of an event.
#pragma once

#include "event.hpp"
#include "geo.hpp"
#include "pattern.hpp"
#include "vocabulary.hpp"

namespace tidewire {

// What an event has for one attribute of the index.
struct Cell {
  Kind kind = Kind::kAbsent;  // kAnyNumber: NaN
  u32 key = 0;                // the key of this value, if some filter mentions it
  Number number;
  i64 time = 0;               // timestamp or bool
  std::string_view text;
};

// The value that is there, which is right. Leaves the key.
inline void read_cell(const EventView& event, u32 slot, Type type, Cell& cell) {
  switch (type) {
    case Type::kInt:
      cell.kind = Kind::kNumber;
      cell.number = Number::of(static_cast<i64>(event.bits(slot)));
      return;
    case Type::kFloat: {
      const double value = std::bit_cast<double>(event.bits(slot));
      cell.kind = value == value ? Kind::kNumber : Kind::kAnyNumber;
      cell.number = Number::of(value);
      return;
    }
    case Type::kBool:
    case Type::kTimestamp:
      cell.kind = type == Type::kBool ? Kind::kBool : Kind::kTimestamp;
      cell.time = static_cast<i64>(event.bits(slot));
      return;
    default:
      cell.kind = type == Type::kString ? Kind::kString : Kind::kBytes;
      cell.text = event.text(slot);
  }
}

// The targets that match an event, by how many subscriptions each stands for: each kind has its own loop later.
struct Matched {
  Buffer<u64> single, many, crowd;  // a crowd that was not found on a list may be among the many

  std::size_t size() const { return single.size() + many.size() + crowd.size(); }
  void clear() {
    single.clear();
    many.clear();
    crowd.clear();
  }
};

// One event as the index sees it. Cells are reset by those that were touched.
struct Context {
  std::vector<Cell> cells;      // by attribute
  std::vector<double> numbers;  // 2 * attribute: its number; + 1: its key; NaN if it has none
  std::vector<u32> touched;
  bool is_exact = true;  // every number is a double
  bool is_settled = false;  // every destination has more matches than would be named
  Matched matched;
  struct Place {
    u32 lat, lon;
    bool is_valid;
    UnitVector vector;
  };
  std::vector<Place> places;

  void fit(u32 attributes);
  void reset();
  const Place& place(u32 lat, u32 lon);
};

enum class Op : u8 { kEqKey, kKeySet, kNumGe, kNumLe, kNumIn, kTimeIn, kIsKind, kPresent, kAbsent, kAnyNumber, kComplex, kArea };

// A record is 4 bytes (u16 attribute, u8 op, u8 count or kind) and a payload in units of 4 bytes.
struct Record {
  const u8* at;
  u16 attribute() const { return load<u16>(at); }
  Op op() const { return static_cast<Op>(at[2]); }
  u8 count() const { return at[3]; }
  u32 word(u32 i) const { return load<u32>(at + 4 + 4 * i); }
  double real(u32 i) const { return load<double>(at + 4 + 8 * i); }
  i64 time(u32 i) const { return load<i64>(at + 4 + 8 * i); }
  u32 size() const {
    // By op; a set of keys has its count.
    static constexpr u8 kSizes[] = {8, 4, 12, 12, 20, 20, 4, 4, 4, 4, 8, 8};
    return kSizes[at[2]] + (op() == Op::kKeySet ? 4u * count() : 0u);
  }
};

// A program begins with u16 size, u16 records, and where it is kept: u32 cluster, u32 slot.
inline constexpr u32 kProgramHeader = 12;

struct ProgramView {
  const u8* at;
  u32 size() const { return load<u16>(at); }
  u32 records() const { return load<u16>(at + 2); }
  template <class Each>
  void each(Each visit) const {
    const u8* next = at + kProgramHeader;
    for (u32 i = records(); i > 0; --i) {
      const Record record{next};
      visit(record);
      next += record.size();
    }
  }
};

// A set that no short record can say.
struct ComplexSet {
  Kind kind = Kind::kAbsent;
  std::vector<std::pair<Number, Number>> numbers;
  std::vector<std::pair<i64, i64>> times;
  struct Text {
    std::string low, high;
    bool has_high;
  };
  std::vector<Text> texts;
  std::vector<Pattern> like, unlike;
  std::string raw;

  bool has(const Cell& cell) const;
  std::size_t bytes() const;
};

std::unique_ptr<ComplexSet> make_set(const FilterSpec& spec, const Constraint& constraint);
// Is it a few values and nothing else?
bool is_points(const FilterSpec& spec, const Constraint& constraint);
std::unique_ptr<CompiledArea> make_area(const Area& area, u32 lat, u32 lon);

// The sets and areas that records refer to by number.
struct Library {
  Pool<std::unique_ptr<ComplexSet>, 6> sets;
  Pool<std::unique_ptr<CompiledArea>, 6> areas;
  std::size_t bytes() const;
};

bool holds(ProgramView program, Context& event, const Library& library);

// A conjunction compiled but not yet stored; complex sets and areas are only pointed to.
class Draft {
 public:
  void compile(const FilterSpec& spec, const Conjunction& conjunction, Vocabulary& words);
  u64 hash(u64 seed) const;
  bool same_as(ProgramView stored, const Library& library) const;
  u32 size() const { return static_cast<u32>(bytes_.size()); }
  const std::vector<u32>& keys() const { return keys_; }
  // Writes the program and creates what it refers to.
  void store_at(u8* place, Library& library, Vocabulary& words) const;
  ProgramView view() const { return ProgramView{bytes_.begin()}; }
  // Gives back the names and keys that it brought in, if it is not to be stored after all.
  void forget_unused(Vocabulary& words) const;

 private:
  void add_set(const FilterSpec& spec, const Constraint& constraint, Vocabulary& words);
  bool add_points(const FilterSpec& spec, const Constraint& constraint, u32 attribute, Vocabulary& words);
  bool add_interval(const Interval& interval, Kind kind, u32 attribute);
  void head(u32 attribute, Op op, u32 count);
  template <class T>
  void put(T value);

  struct Reference {
    u32 offset;
    const FilterSpec* spec;
    const Constraint* set;
    const Area* area;
    u32 lat, lon;
  };
  Buffer<u8> bytes_;
  std::vector<Reference> references_;
  std::vector<u32> attributes_, keys_;
};

// The tags of the keys that compiling will look for.
void find_tags(const FilterSpec& spec, const Vocabulary& words, std::vector<u32>& into);
u64 hash_program(ProgramView program, const Library& library, u64 seed);
// Gives back what a stored program refers to: sets, areas, keys and attributes.
void release(ProgramView program, Library& library, Vocabulary& words);
void use(ProgramView program, const Library& library, Vocabulary& words);

}  // namespace tidewire
