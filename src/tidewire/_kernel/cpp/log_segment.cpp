#include "log_segment.hpp"

#include <algorithm>
#include <charconv>

#include "crc32c.hpp"

namespace tidewire {

namespace {

constexpr std::string_view kMagic = "TIDELOG\n";
constexpr std::string_view kSegmentEnding = ".log", kIndexEnding = ".idx";
constexpr std::size_t kDigits = 16;
constexpr u32 kCrcAt = 12, kIdAt = 16, kNumberAt = 24, kSizeAt = 32;

std::string name_of(u64 number, std::string_view ending) {
  std::string name(kDigits, '0');
  for (std::size_t i = kDigits; number > 0; number >>= 4) name[--i] = "0123456789abcdef"[number & 15];
  return name.append(ending);
}

u32 head_crc(std::string_view bytes) { return crc32c(crc32c(0, bytes.data(), kCrcAt), bytes.data() + kIdAt, kSegmentHead - kIdAt); }

}  // namespace

std::string segment_name(u64 number) { return name_of(number, kSegmentEnding); }
std::string index_name(u64 number) { return name_of(number, kIndexEnding); }

u64 segment_number(std::string_view name) {
  if (name.size() != kDigits + kSegmentEnding.size() || !name.ends_with(kSegmentEnding)) return 0;
  u64 number = 0;
  const auto read = std::from_chars(name.data(), name.data() + kDigits, number, 16);
  return read.ptr == name.data() + kDigits ? number : 0;
}

std::string segment_head(u64 log_id, u64 number, u64 size) {
  std::string head(kSegmentHead, '\0');
  std::memcpy(head.data(), kMagic.data(), kMagic.size());
  store(head.data() + kMagic.size(), kLogVersion);
  store(head.data() + kIdAt, log_id);
  store(head.data() + kNumberAt, number);
  store(head.data() + kSizeAt, size);
  store(head.data() + kCrcAt, head_crc(head));
  return head;
}

SegmentHead load_segment_head(std::string_view bytes) {
  SegmentHead head;
  if (bytes.size() < kSegmentHead || !bytes.starts_with(kMagic)) return head;
  const u32 version = load<u32>(bytes.data() + kMagic.size());
  // The crc of a head is there in every version: a damaged one is not taken for a newer one.
  if (version == 0 || load<u32>(bytes.data() + kCrcAt) != head_crc(bytes)) return head;
  if (version > kLogVersion) {
    head.version = version;
    return head;
  }
  return {version, load<u64>(bytes.data() + kIdAt), load<u64>(bytes.data() + kNumberAt), load<u64>(bytes.data() + kSizeAt)};
}

SegmentScan::SegmentScan(const File& file, u64 number)
    : number_(number), size_(file.size()), bytes_(std::make_unique_for_overwrite<char[]>(file.size())) {
  constexpr u64 kPiece = 4u << 20;
  for (u64 at = 0; at < size_; at += kPiece) file.read_at(at, bytes_.get() + at, std::min(kPiece, size_ - at));
}

u64 SegmentScan::claimed_id() const {
  if (size_ < kSegmentHead + kGroupHead || record_kind(bytes_.get() + kSegmentHead) != RecordKind::kGroup) return 0;
  const u64 id = load_group(bytes_.get() + kSegmentHead).log_id;
  return is_record(bytes(kSegmentHead, size_), crc_seed(id, number_)) ? id : 0;
}

// May a record begin here? Most bytes are refused by this, before any crc.
bool SegmentScan::is_possible(u64 at) const {
  if (at + kRecordHead > size_) return false;
  const u32 last = load<u32>(bytes_.get() + at + 52);
  return (last & 0xFF) >= static_cast<u32>(RecordKind::kGroup) && (last & 0xFF) <= static_cast<u32>(RecordKind::kLost) &&
         last >> 16 == 0;
}

bool SegmentScan::is_group(u64 at, u64 log_id, const Group* before) const {
  if (at + kGroupHead > size_ || record_kind(bytes_.get() + at) != RecordKind::kGroup) return false;
  if (load<u64>(bytes_.get() + at + 8) != log_id || record_bytes(record_size(bytes_.get() + at)) != kGroupHead) return false;
  if (!is_record(bytes(at, at + kGroupHead), seed_)) return false;
  const GroupHead head = load_group(bytes_.get() + at);
  if (head.segment != number_ || head.bytes > size_ - at - kGroupHead) return false;
  // What was torn when the log was opened the last time is still there, behind what was written since.
  return before == nullptr || (head.number > before->head.number && head.life >= before->head.life);
}

void SegmentScan::find_groups(u64 log_id) {
  seed_ = crc_seed(log_id, number_);
  groups_.clear();
  bool is_next = true;
  for (u64 at = kSegmentHead; at + kGroupHead <= size_;) {
    const Group* before = groups_.empty() ? nullptr : &groups_.back();
    bool is_found = is_group(at, log_id, before);
    const GroupHead head = load_group(bytes_.get() + at);
    if (is_found && is_next && before != nullptr && head.number != before->head.number + 1) is_found = false;
    if (!is_found) {
      is_next = false;
      at += 8;
      continue;
    }
    groups_.push_back({head, at});
    at = groups_.back().end();
    is_next = true;
  }
}

u64 SegmentScan::proved() const {
  u64 found = 0;
  for (const Group& group : groups_) found = std::max(found, group.head.durable);
  return found;
}

void SegmentScan::mark_bad(u64 offset, u64 end) {
  if (!bad_.empty() && bad_.back().end == offset) bad_.back().end = end;
  else bad_.push_back({offset, end});
}

// Whole records, one behind the other? What is none is marked, up to where the next one begins.
bool SegmentScan::look_at(u64 offset, u64 end) {
  bool is_whole = true;
  for (u64 at = offset; at < end;) {
    if (is_possible(at) && is_record(bytes(at, end), seed_)) {
      at += record_bytes(record_size(bytes_.get() + at));
      continue;
    }
    is_whole = false;
    mark_bad(at, std::min(at + 8, end));
    at += 8;
  }
  return is_whole;
}

void SegmentScan::settle(u64 proved, u64 number_before) {
  bad_.clear();
  has_lost_tail_ = false;
  end_ = kSegmentHead;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    const auto bad_before = bad_.size();
    if (group.offset != end_) {
      if (number_before + 1 > proved) {
        groups_.resize(i);
        return;
      }
      look_at(end_, group.offset);
    }
    group.is_whole = look_at(group.offset, group.end());
    if (!group.is_whole && group.head.number > proved) {
      bad_.resize(bad_before);
      groups_.resize(i);
      return;
    }
    end_ = group.end();
    number_before = group.head.number;
  }
  if (number_before >= proved) return;
  const u64 lost_end = std::min(end_ + torn_bytes() + 7, size_) & ~u64{7};
  if (lost_end <= end_) return lose_tail();  // zeros, or the file ends there
  look_at(end_, lost_end);
  end_ = lost_end;
}

void SegmentScan::give_up() {
  bad_ = {{kSegmentHead, size_}};
  end_ = size_;
}

u64 SegmentScan::torn_bytes() const {
  u64 last = size_;
  while (last > end_ && bytes_[last - 1] == '\0') --last;
  return last - end_;
}

LogIndex SegmentScan::index() const {
  LogIndex index;
  std::vector<LogGroup::Extent> extents;
  const auto note = [&](const LogRecord& record) {
    for (LogGroup::Extent& extent : extents)
      if (extent.pubend == record.pubend) {
        extent.last = record.tick;
        return;
      }
    extents.push_back({record.pubend, record.tick, record.tick});
  };
  // A group is the unit; where its head is damaged, what can be read of it belongs to the one before.
  u64 begin = kSegmentHead;
  const auto close = [&](u64 end) {
    if (end > begin) index.add(begin, end - begin, extents);
    extents.clear();
    begin = end;
  };
  each_record(
      [&](const RawRecord& record, u64 at) {
        if (record.kind == RecordKind::kGroup) close(at);
        else if (record.kind == RecordKind::kData) note(record.fields);
      },
      [&](const Bad& bad) { index.suspect(bad.offset, bad.end); });
  close(end_);
  return index;
}

}  // namespace tidewire
