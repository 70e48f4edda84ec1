// Which ticks may be lost where bytes are damaged: for each pubend those between its events on both sides.
#pragma once

#include <algorithm>
#include <map>

#include "log.hpp"
#include "log_segment.hpp"

namespace tidewire {

class DamageNotes {
 public:
  explicit DamageNotes(std::vector<LogDamage>& damage) : damage_(damage) {}

  // All records of a segment; call(const RawRecord&) for each that is good.
  template <class Call>
  void go_through(const SegmentScan& scan, Call call) {
    scan.each_record(
        [&](const RawRecord& record, u64) {
          const LogRecord& fields = record.fields;
          if (record.kind == RecordKind::kData) see(fields.pubend, fields.tick);
          else if (record.kind == RecordKind::kPubend) see(fields.pubend, fields.tick, true);
          else if (record.kind == RecordKind::kGroup) newest_ = std::max(newest_, load<u64>(fields.event.data()));
          call(record);
        },
        [&](const SegmentScan::Bad& bad) { note(segment_name(scan.number()), bad); });
  }
  void go_through(const SegmentScan& scan) {
    go_through(scan, [](const RawRecord&) {});
  }

  // An event with this tick, or (of a snapshot) the last one has it.
  void see(u64 pubend, u64 tick, bool is_included = false);
  // A segment that is not there.
  void miss(const std::string& file) { note(file, {0, 0}); }

  // Nothing more follows. The pubends of which there was nothing behind the damage: up to the newest tick anything may be lost.
  std::vector<u64> finish();

 private:
  void note(const std::string& file, const SegmentScan::Bad& bad);
  void reach(u64 pubend, u64 tick);

  std::vector<LogDamage>& damage_;
  std::map<u64, u64> last_;                    // by pubend
  std::map<u64, std::vector<std::size_t>> open_;  // by pubend: damage behind which it has not been seen
  u64 newest_ = 0;
};

}  // namespace tidewire
