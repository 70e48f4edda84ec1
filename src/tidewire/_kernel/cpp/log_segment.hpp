// A segment is a file of the log: 64 bytes that say whose it is, then groups, then zeros up to the size that it was made with.
#pragma once

#include <memory>

#include "files.hpp"
#include "log_index.hpp"

namespace tidewire {

inline constexpr u32 kLogVersion = 2;  // 1: heads without a size, and no losses
inline constexpr u64 kSegmentHead = 64;

std::string segment_name(u64 number);
std::string index_name(u64 number);
// 0: the name is no segment's.
u64 segment_number(std::string_view name);

std::string segment_head(u64 log_id, u64 number, u64 size);
struct SegmentHead {
  u32 version = 0;  // 0: these bytes are no head
  u64 log_id = 0, number = 0;
  u64 size = 0;  // that the file was made with; 0: it does not say
};
// Of a newer version only that is known.
SegmentHead load_segment_head(std::string_view bytes);

// A segment whose bytes have been read and sorted out.
class SegmentScan {
 public:
  struct Group {
    GroupHead head;
    u64 offset;
    bool is_whole = false;
    u64 end() const { return offset + kGroupHead + head.bytes; }
  };
  struct Bad {
    u64 offset, end;
  };

  SegmentScan(const File& file, u64 number);

  u64 number() const { return number_; }
  // The id that the first group says, 0 if it is none: for a log whose heads of segments are all gone.
  u64 claimed_id() const;

  // Finds the groups. Behind a place where none begins, those further on are looked for.
  void find_groups(u64 log_id);
  bool has_groups() const { return !groups_.empty(); }
  const std::vector<Group>& groups() const { return groups_; }
  // All groups up to this one were on the disk, as far as this segment knows.
  u64 proved() const;

  // Looks at every record. Groups that are not whole, or are not there, are damaged if their number is proved to have been on
  // the disk; else the log ends before them.
  void settle(u64 proved, u64 number_before);
  // Not one group was found in a segment that had some.
  void give_up();
  // Groups that were behind the last one are not there.
  void lose_tail() { has_lost_tail_ = true; }
  bool has_lost_tail() const { return has_lost_tail_; }
  const std::vector<Bad>& bad() const { return bad_; }
  u64 end() const { return end_; }      // behind the last group
  u64 torn_bytes() const;               // behind that, up to the last byte that is not zero
  bool has_snapshot() const {
    return !groups_.empty() && groups_[0].offset == kSegmentHead && groups_[0].is_whole && groups_[0].head.is_snapshot;
  }
  std::string_view bytes(u64 offset, u64 end) const { return {bytes_.get() + offset, end - offset}; }
  u64 size() const { return size_; }

  // call(const RawRecord&, u64 offset) for every good record up to the end, and bad(const Bad&) in its place.
  template <class Call, class OnBad>
  void each_record(Call call, OnBad on_bad) const {
    std::size_t next_bad = 0;
    for (u64 at = kSegmentHead; at < end_;) {
      if (next_bad < bad_.size() && bad_[next_bad].offset == at) {
        on_bad(bad_[next_bad]);
        at = bad_[next_bad++].end;
        continue;
      }
      call(load_record(bytes_.get() + at), at);
      at += record_bytes(record_size(bytes_.get() + at));
    }
    if (has_lost_tail_) on_bad(Bad{end_, end_});
  }

  LogIndex index() const;

 private:
  bool is_group(u64 at, u64 log_id, const Group* before) const;
  bool look_at(u64 offset, u64 end);
  void mark_bad(u64 offset, u64 end);
  bool is_possible(u64 at) const;

  u64 number_, size_, end_ = kSegmentHead;
  u32 seed_ = 0;
  std::unique_ptr<char[]> bytes_;
  std::vector<Group> groups_;
  std::vector<Bad> bad_;
  bool has_lost_tail_ = false;
};

}  // namespace tidewire
