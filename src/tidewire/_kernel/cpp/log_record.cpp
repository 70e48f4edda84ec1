#include "log_record.hpp"

#include "crc32c.hpp"

namespace tidewire {

RawRecord load_record(const char* at) {
  RawRecord record;
  LogRecord& fields = record.fields;
  fields.pubend = load<u64>(at + 8);
  fields.tick = load<u64>(at + 16);
  fields.publisher = load<u64>(at + 24);
  fields.sequence = load<u64>(at + 32);
  fields.born_ns = load<i64>(at + 40);
  fields.error_us = load<u32>(at + 48);
  fields.event = {at + kRecordHead, record_size(at)};
  record.kind = record_kind(at);
  record.flags = static_cast<u8>(at[53]);
  return record;
}

void store_record(char* at, const RawRecord& record) {
  const LogRecord& fields = record.fields;
  store(at + 4, static_cast<u32>(fields.event.size()));
  store(at + 8, fields.pubend);
  store(at + 16, fields.tick);
  store(at + 24, fields.publisher);
  store(at + 32, fields.sequence);
  store(at + 40, fields.born_ns);
  store(at + 48, fields.error_us);
  store(at + 52, static_cast<u32>(record.kind) | static_cast<u32>(record.flags) << 8);
  const std::size_t size = fields.event.size();
  const std::size_t padding = record_bytes(size) - kRecordHead - size;
  if (padding > 0) std::memset(at + kRecordHead + size, 0, padding);
  if (size > 0) std::memcpy(at + kRecordHead, fields.event.data(), size);
}

u32 crc_seed(u64 log_id, u64 segment) { return static_cast<u32>(hash_u64(segment, log_id)); }

void store_crc(char* at, u32 seed) { store(at, crc32c(seed, at + 4, kRecordHead - 4 + record_size(at))); }

bool is_record(std::string_view bytes, u32 seed) {
  if (bytes.size() < kRecordHead) return false;
  const std::size_t size = record_size(bytes.data());
  if (size > bytes.size() - kRecordHead || record_bytes(size) > bytes.size()) return false;
  return load<u32>(bytes.data()) == crc32c(seed, bytes.data() + 4, kRecordHead - 4 + size);
}

GroupHead load_group(const char* at) {
  const RawRecord record = load_record(at);
  GroupHead head;
  head.log_id = record.fields.pubend;
  head.number = record.fields.tick;
  head.segment = record.fields.publisher;
  head.durable = record.fields.sequence;
  head.life = static_cast<u32>(static_cast<u64>(record.fields.born_ns) >> 32);
  head.records = static_cast<u32>(record.fields.born_ns);
  head.bytes = record.fields.error_us;
  head.is_snapshot = (record.flags & 1) != 0;
  head.newest = load<u64>(at + kRecordHead);
  return head;
}

void store_group(char* at, const GroupHead& head) {
  RawRecord record;
  record.kind = RecordKind::kGroup;
  record.flags = head.is_snapshot ? 1 : 0;
  record.fields = {head.log_id,  head.number, head.segment,
                   head.durable, static_cast<i64>(u64{head.life} << 32 | head.records), head.bytes,
                   {reinterpret_cast<const char*>(&head.newest), sizeof head.newest}};
  store_record(at, record);
}

void LogGroup::begin(u64 number_, u64 segment_, u64 offset_) {
  number = number_;
  segment = segment_;
  offset = offset_;
  newest = 0;
  records = events = 0;
  is_snapshot = false;
  extents.clear();
  advances.clear();
  releases.clear();
  losses.clear();
  bytes_.clear();
  bytes_.grown_to(bytes_.room_for(kGroupHead) + kGroupHead);
}

void LogGroup::add(const RawRecord& record) {
  const std::size_t size = record_bytes(record.fields.event.size());
  char* at = bytes_.room_for(size);
  store_record(at, record);
  bytes_.grown_to(at + size);
  ++records;
}

void LogGroup::finish(u64 log_id, u64 durable, u32 life) {
  const u32 seed = crc_seed(log_id, segment);
  const auto behind = static_cast<u32>(size() - kGroupHead);
  store_group(bytes_.begin(), {log_id, number, segment, durable, life, records, behind, is_snapshot, newest});
  for (char* at = bytes_.begin(); at < bytes_.end(); at += record_bytes(record_size(at))) store_crc(at, seed);
}

}  // namespace tidewire
