// What a segment of the log is made of: records, one behind the other, at multiples of 8 bytes. A group is a record that says
// how many bytes of records follow it.
//
//   u32 crc of all that follows | u32 size of the bytes behind the head
//   u64 pubend | u64 tick | u64 publisher | u64 sequence | i64 born_ns | u32 error_us | u8 kind | u8 flags | u16 0
//   bytes, then zeros up to a multiple of 8 (not in the crc)
//
// The crc starts from a number that is made of the log's id and the segment's number: neither what a file held before nor
// what a publisher puts into an event can be taken for a record.
#pragma once

#include <vector>

#include "storage.hpp"

namespace tidewire {

// An event as the log has it.
struct LogRecord {
  u64 pubend = 0, tick = 0, publisher = 0, sequence = 0;
  i64 born_ns = 0;
  u32 error_us = 0;
  std::string_view event;
};

// 44 bits of milliseconds, 20 bits of counter.
inline constexpr u32 kTickCounterBits = 20;
inline constexpr u64 tick_of_ms(u64 ms) { return ms << kTickCounterBits; }
inline constexpr u64 ms_of_tick(u64 tick) { return tick >> kTickCounterBits; }

// Ticks that were there and cannot be read any more, both included; when that was found, in nanoseconds of 1970 (0: unknown).
struct LogLoss {
  u64 first, last;
  i64 found_ns;
};

struct TickRange {
  u64 first, end;  // half open
};

enum class RecordKind : u8 {
  kGroup = 1,
  kData = 2,
  kPut = 3,        // bytes: key, value; sequence: how long the key is
  kErase = 4,      // bytes: key
  kRelease = 5,    // of a pubend, below a tick
  kAdvance = 6,    // a pubend's last tick is at least this
  kForget = 7,     // a pubend, with its publishers
  kPubend = 8,     // of a snapshot: tick is the last one, sequence the released one
  kPublisher = 9,  // of a snapshot: bytes are the sequences and ticks of its last events
  kLost = 10,      // of a pubend, from the sequence to the tick: was there, and is not any more; born_ns: when that was found
};

inline constexpr u32 kRecordHead = 56, kGroupHead = 64;

inline constexpr std::size_t record_bytes(std::size_t size) { return (kRecordHead + size + 7) & ~std::size_t{7}; }

// A record of any kind; what its fields mean, its kind says.
struct RawRecord {
  LogRecord fields;
  RecordKind kind = RecordKind::kData;
  u8 flags = 0;
};

inline u32 record_size(const char* at) { return load<u32>(at + 4); }
inline RecordKind record_kind(const char* at) { return static_cast<RecordKind>(at[52]); }
RawRecord load_record(const char* at);
// Without its crc.
void store_record(char* at, const RawRecord& record);

u32 crc_seed(u64 log_id, u64 segment);
void store_crc(char* at, u32 seed);
// A whole record at the beginning of these bytes, with the right crc?
bool is_record(std::string_view bytes, u32 seed);

// The head of a group, as fields of a record.
struct GroupHead {
  u64 log_id = 0, number = 0, segment = 0;
  u64 durable = 0;  // all groups up to this one were on the disk when this one was written
  u32 life = 0;     // how often the log had been opened
  u32 records = 0;
  u32 bytes = 0;    // behind the head
  bool is_snapshot = false;
  u64 newest = 0;   // no tick of any pubend up to the end of this group is above this one
};

GroupHead load_group(const char* at);
void store_group(char* at, const GroupHead& head);

// Records that become durable together: the bytes as they are on the disk.
class LogGroup {
 public:
  struct Extent {
    u64 pubend, first, last;  // ticks, both included
  };

  u64 number = 0, segment = 0, offset = 0, newest = 0;
  u32 records = 0, events = 0;
  bool is_snapshot = false;
  std::vector<Extent> extents;  // of its events, one for each pubend
  std::vector<std::pair<u64, u64>> advances, releases;  // pubend and tick
  std::vector<Extent> losses;                           // what is known to be lost from this group on

  // Begins with room for the head.
  void begin(u64 number_, u64 segment_, u64 offset_);
  void add(const RawRecord& record);
  std::size_t size() const { return bytes_.size(); }
  std::size_t capacity() const { return bytes_.capacity(); }
  std::string_view bytes() const { return {bytes_.begin(), bytes_.size()}; }
  // Head and every crc, when nothing will be added any more.
  void finish(u64 log_id, u64 durable, u32 life);

  // call(const LogRecord&) for each event, in order.
  template <class Call>
  void each_event(Call call) const {
    for (const char* at = bytes_.begin() + kGroupHead; at < bytes_.end(); at += record_bytes(record_size(at)))
      if (record_kind(at) == RecordKind::kData) call(load_record(at).fields);
  }

 private:
  Buffer<char> bytes_;
};

}  // namespace tidewire
