// Many entries under one access key: blocks of 512 with bucket bitmaps per dimension.
//
// A dimension is an attribute with a kind, cut into buckets. Per bucket a block has two lines of 512 bits: the entries
// that some value of the bucket may satisfy (candidates), and those that every value of it satisfies (definite). An event
// takes one pair of lines per dimension and ANDs them. What is a candidate but not definite is compared with the edges of
// its ranges in finer steps, a byte each, which are kept in the block; only what lies on an edge is verified.
#pragma once

#include <memory>
#include <span>

#include "program.hpp"
#include "simd.hpp"
#include "tally.hpp"

namespace tidewire {

inline constexpr u32 kSegmentEntries = 16384;
inline constexpr u16 kEveryShape = 0;

// Who wants an entry, in one word: a single subscription, or where its many are kept (members.hpp).
using Target = u64;
inline bool is_single(Target target) { return target >> 63 == 0; }
inline u32 destination_of(Target single) { return static_cast<u32>(single >> 32); }

// An entry that may match an event: its program decides.
struct Candidate {
  u32 program;
  u32 event;  // its place among those that are worked on together
  Target target;
};

// An entry that is to be added.
struct Newcomer {
  u32 entry;
  Target target;
  ProgramView program;
};

// Room for the places that a match finds, kept from one to the next.
struct Places {
  Buffer<u32> sure, unsure;
};

struct Dimension {
  u16 attribute = 0;
  Kind kind = Kind::kNumber;
  std::string prefix;        // of texts: what most bounds begin with
  std::vector<u64> bounds;   // bucket j holds the keys from bounds[j-1] up to bounds[j]
  std::vector<u64> cuts;     // of each bucket, the steps inside it; empty if the buckets are as fine as can be
  u32 steps = 1;             // per bucket

  u64 key_of_text(std::string_view text) const;
  u64 key_of(const Cell& cell) const;
  u32 bucket_of(u64 key) const;
  u32 line_of(const Cell& cell, u32 lines) const;
  u8 step_of(u64 key, u32 bucket) const;  // from 1 to 254, ascending
};

class Segment {
 public:
  using Common = std::vector<std::pair<u16, u32>>;  // attribute and key that every entry requires

  // Takes its dimensions from a sample of the entries to come, all of which have the common keys. With a shape other than
  // 0, all bind the same attributes beside those: fewer dimensions, so finer buckets.
  Segment(const std::vector<ProgramView>& sample, Common common, u64 shape, const Vocabulary& words, const Library& library);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  bool has_room() const { return count_ < kSegmentEntries; }
  u32 room() const { return kSegmentEntries - count_; }
  bool suits(ProgramView program) const;
  // Adds the first of these, as many as have room in one word of a block; returns how many, and where they are.
  u32 add(std::span<const Newcomer> entries, const Vocabulary& words, const Library& library, u32* positions);
  void remove(u32 position);
  u32 entry_at(u32 position) const { return load<u32>(slot(position, entries_start(), sizeof(u32))); }
  Target target_at(u32 position) const { return load<Target>(slot(position, lines_end(), sizeof(Target))); }
  void set_target(u32 position, Target target) { store(slot(position, lines_end(), sizeof(Target)), target); }
  u32 count() const { return count_; }
  const Common& common() const { return common_; }
  u64 shape() const { return shape_; }
  // Which attributes, beside the common keys, does a program bind, and to what kind?
  u64 shape_of(ProgramView program, const Vocabulary& words, const Library& library) const;
  // While it takes any shape: up to `most` positions of entries with this mark of their shape (kEveryShape: of any).
  std::vector<u32> positions_of(u16 mark, u32 most) const;
  // How many entries have which mark?
  std::vector<u32> marks() const;
  static u16 mark_of(u64 shape) { return static_cast<u16>(shape >> 48 | 1); }
  u32 dimensions() const { return static_cast<u32>(dimensions_.size()); }
  u32 capacity() const { return static_cast<u32>(blocks_.size()) * kBlockEntries; }
  template <class Each>
  void each_position(Each visit) const {
    for (u32 b = 0; b < blocks_.size(); ++b)
      for (u32 w = 0; w < kBlockWords; ++w)
        for (u64 bits = load<u64>(blocks_[b] + 8 * w); bits != 0; bits &= bits - 1)
          visit(b * kBlockEntries + w * 64 + static_cast<u32>(std::countr_zero(bits)));
  }

  // Adds the targets of the entries that surely match, and to `maybe` the entries to be verified, for this event.
  void match(Context& event, u32 number, const SimdOps& simd, Places& places, Buffer<Candidate>& maybe) const;
  // Fetches what adding needs into the cache.
  void prefetch_dimensions() const;
  // Fetches one part of so many into the cache.
  void prefetch_part(u32 part, u32 parts) const;
  // With one dimension, what is definite depends on the line of the value alone, and there is a tally for each. nullptr
  // with more dimensions, or if the event lacks a common key.
  KeptTally* tally_for(const Context& event, u32& line);
  // The targets of the entries that match every event of this line.
  void definite_in(u32 line, Matched& sure) const;
  // Of a destination one subscription goes.
  void lose(u32 destination) {
    for (KeptTally& kept : tallies_) kept.lose(destination);
  }
  std::size_t bytes() const;

  u32 reshape_at = 0;  // at this many entries it is time to look at their shapes, and to choose buckets anew

 private:
  // A block: its lines, then the targets, the entries and the edges of its slots.
  u32 block_bytes() const { return edges_start() + kBlockEntries * edges_bytes(); }
  u32 edges_bytes() const { return 2 * static_cast<u32>(dimensions_.size()); }
  u32 edges_start() const { return entries_start() + kBlockEntries * static_cast<u32>(sizeof(u32)); }
  u32 entries_start() const { return lines_end() + kBlockEntries * static_cast<u32>(sizeof(Target)); }
  u8* slot(u32 position, u32 start, u32 width) const {
    return blocks_[position / kBlockEntries] + start + position % kBlockEntries * width;
  }
  u32 lines_end() const { return kLineBytes * (kHeadLines + static_cast<u32>(dimensions_.size()) * 2 * lines_); }
  u32 line_offset(u32 dimension, bool definite, u32 line) const {
    return kLineBytes * (kHeadLines + (dimension * 2 + definite) * lines_ + line);
  }
  bool has_common_keys(const Context& event) const;
  static constexpr u32 kHeadLines = 3;  // who is alive; who is sure if definite; who is told by its edges
  void choose_dimensions(const std::vector<ProgramView>& all, const Vocabulary& words, const Library& library);
  bool is_alive(u32 position) const { return *(slot(position, 0, 0) + position % kBlockEntries / 8) >> position % 8 & 1; }
  bool is_common(Record record) const;
  u32 open_word();
  struct Columns;
  void columns_of(ProgramView program, const Vocabulary& words, const Library& library, Columns& into) const;

  Common common_;
  u64 shape_;
  std::vector<Dimension> dimensions_;
  std::vector<u8*> blocks_;
  std::vector<KeptTally> tallies_;  // one for each line, or none
  std::vector<u16> marks_;  // of the shapes of its entries, by position, if it takes any
  u32 lines_ = 16;  // per dimension: the buckets, then one for "absent" and one for "of another kind"
  u32 count_ = 0;
  u32 first_open_ = 0;
};

}  // namespace tidewire
