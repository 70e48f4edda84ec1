// Opening: which files are there, where does the log end, what is damaged, what is the state.
//
// Groups carry ascending numbers, the log's id, how often it had been opened, and up to which number all were on the disk when
// they were written. So what follows the last whole group is told apart: a group that some other one proves to have been on
// the disk is damaged, and reported; any other was never acknowledged, and is cut.
#include <sys/random.h>

#include <algorithm>

#include "log_damage.hpp"
#include "log_parts.hpp"

namespace tidewire {

struct Log::Parts::Found {
  std::map<u64, std::shared_ptr<LogSegment>> files;
  std::map<u64, std::unique_ptr<SegmentScan>> scans;  // of the end of the log
  u64 last = 0, base = 0;                             // the segment that goes on; the one from which the state is known
  u64 proved = 0;
  bool has_lost_end = false;  // there was more, and nobody knows how much
  std::vector<std::string> indexes;
  std::vector<u64> behind;  // segments that are to be removed, when what they tell is written down

  // The segment before this one, of those that are there; 0: none is.
  u64 before(u64 number) const {
    const auto it = files.lower_bound(number);
    return it == files.begin() ? 0 : std::prev(it)->first;
  }

  SegmentScan& scan(u64 number) {
    std::unique_ptr<SegmentScan>& one = scans[number];
    if (one == nullptr) one = std::make_unique<SegmentScan>(*files.at(number)->file, number);
    return *one;
  }
};

namespace {

SegmentHead head_of(const LogSegment& one) {
  if (one.bytes < kSegmentHead) return {};
  char bytes[kSegmentHead];
  one.file->read_at(0, bytes, kSegmentHead);
  return load_segment_head({bytes, kSegmentHead});
}

// Has the file been cut? A head that does not say its size, or cannot be read, proves nothing.
bool is_short(const LogSegment& one) { return one.bytes < head_of(one).size; }

// The number of the group that a segment begins with; 0: it cannot be read.
u64 first_number(const LogSegment& one, u64 log_id) {
  if (one.bytes < kSegmentHead + kGroupHead) return 0;
  char bytes[kGroupHead];
  one.file->read_at(kSegmentHead, bytes, kGroupHead);
  if (record_kind(bytes) != RecordKind::kGroup || !is_record({bytes, kGroupHead}, crc_seed(log_id, one.number))) return 0;
  return load_group(bytes).number;
}

// The group before the first one that a segment has, if what is missing ahead of it is one group.
u64 number_before(const SegmentScan& scan) {
  const SegmentScan::Group& first = scan.groups().front();
  return first.head.number - (first.offset == kSegmentHead ? 1 : 2);
}

}  // namespace

void Log::Parts::open() {
  lock = files->lock();
  Found found;
  find_files(found);
  id = found.files.empty() ? 0 : find_id(found);
  if (id == 0) return create_new();
  const bool had_more = found.files.rbegin()->first > 1;
  scan_end(found);
  if (found.last == 0) {
    for (const u64 number : found.behind) remove_segment(number);
    create_new();
    if (had_more) report.damage.push_back({segment_name(1), 0, 0, {}});  // what was made ready to follow is all that is left
    return;
  }
  scan_back(found);
  replay(found);
  adopt_older(found);
  account_for_missing(found);
  begin_life(found);
  write_losses(found);
}

void Log::Parts::create_new() {
  report.is_new = true;
  if (id == 0) id = options.id;
  while (id == 0) [[maybe_unused]]
    const ssize_t got = ::getrandom(&id, sizeof id, 0);
  life = 1;
  const std::shared_ptr<LogSegment> first = create_segment(1, options.segment_bytes);
  segments[1] = first;
  segment = 1;
  offset = kSegmentHead;
  segment_size = first->bytes;
  begin_group();
  open_group->is_snapshot = true;
  commit();
}

void Log::Parts::find_files(Found& found) {
  for (const Files::Entry& entry : files->list()) {
    const u64 number = segment_number(entry.name);
    if (number == 0) {
      found.indexes.push_back(entry.name);
      continue;
    }
    auto one = std::make_shared<LogSegment>();
    one->number = number;
    one->bytes = entry.size;
    one->file = files->open(entry.name);
    found.files[number] = std::move(one);
  }
}

// 0: the log was about to be made when the power went.
u64 Log::Parts::find_id(Found& found) {
  u64 heads = 0;
  for (const auto& [number, one] : found.files) {
    const SegmentHead head = head_of(*one);
    if (head.version > kLogVersion)
      throw KernelError("store-format", "the log in " + files->place() + " is of version " + std::to_string(head.version) +
                                            ", and this program knows versions up to " + std::to_string(kLogVersion) +
                                            "; use the program that wrote it, or a newer one");
    if (head.version == 0 || head.number != number) {
      report.damage.push_back({segment_name(number), 0, kSegmentHead, {}});
      continue;
    }
    if (heads != 0 && heads != head.log_id)
      throw KernelError("store-damaged", "the folder " + files->place() + " holds segments of different logs; keep one of them");
    heads = head.log_id;
  }
  if (heads != 0) return heads;
  for (const auto& [number, one] : found.files)
    if (const u64 claimed = found.scan(number).claimed_id()) return claimed;
  if (found.files.size() == 1 && found.files.contains(1)) {
    SegmentScan& only = found.scan(1);
    if (only.torn_bytes() == 0) {
      report.damage.clear();
      return 0;
    }
  }
  throw KernelError("store-damaged", "no segment of the log in " + files->place() + " can be read; restore the folder, or empty it");
}

// Where does it end? Segments that were prepared, or whose first groups are torn, are behind the end.
void Log::Parts::scan_end(Found& found) {
  for (auto it = found.files.rbegin(); it != found.files.rend(); ++it) {
    SegmentScan& scan = found.scan(it->first);
    scan.find_groups(id);
    if (scan.has_groups()) {
      found.proved = std::max(found.proved, scan.proved());
      scan.settle(found.proved, number_before(scan));
    }
    if (scan.has_groups() && lacks_tail(found, it->first, scan)) {
      found.has_lost_end = true;
      scan.lose_tail();
    } else if (scan.torn_bytes() > 0) {
      report.cut_bytes += scan.torn_bytes();
      report.cut_file = segment_name(it->first);
    }
    if (scan.has_groups()) {
      found.last = it->first;
      break;
    }
  }
  if (found.last == 0 && report.cut_bytes > kGroupHead)  // more than a log that was about to be made
    throw KernelError("store-damaged", "no group of the log in " + files->place() + " can be read; restore the folder, or empty it");
  if (found.last != 0 && !found.has_lost_end && has_lost_end(found)) {
    found.has_lost_end = true;
    found.scan(found.last).lose_tail();
  }
  // What is behind the end is made anew when it is needed, but for one that is as good as new.
  for (auto it = found.files.upper_bound(found.last); it != found.files.end();) {
    const u64 number = it->first;
    const bool is_next = number == found.last + 1 && found.scan(number).torn_bytes() == 0 && head_of(*it->second).number == number;
    found.scans.erase(number);
    if (is_next && found.last != 0) {
      prepared = it->second;
      prepared->index = std::make_shared<LogIndex>();
    } else {
      found.behind.push_back(number);
    }
    it = found.files.erase(it);
  }
  std::erase_if(report.damage, [&](const LogDamage& one) { return segment_number(one.file) > found.last; });
}

// A file that was cut: is there nothing behind the last group, not even the zeros that are behind the last one of all?
bool Log::Parts::lacks_tail(Found& found, u64 number, SegmentScan& scan) {
  LogSegment& one = *found.files.at(number);
  if (!is_short(one)) return false;
  return scan.end() + kGroupHead > one.bytes || scan.torn_bytes() > 0;
}

// Segments are made one after the other, each when the one before is used; the index of one is written when the next one has
// something durable. So what is there tells of what is not.
bool Log::Parts::has_lost_end(const Found& found) {
  const auto next = found.files.find(found.last + 1);
  const bool is_next_whole = next != found.files.end() && head_of(*next->second).number == next->first && !is_short(*next->second);
  if (!is_next_whole && found.files.rbegin()->first > found.last + 1) return true;
  return std::find(found.indexes.begin(), found.indexes.end(), index_name(found.last)) != found.indexes.end();
}

// So it is told once: what the head says is what the file is from now on.
void Log::Parts::mend_head(LogSegment& one) {
  if (one.bytes < kSegmentHead) return;
  one.file->write_at(0, std::string_view(segment_head(id, one.number, one.bytes)));
  one.file->sync();
}

// The state is that of the last snapshot, and what was done to it since.
void Log::Parts::scan_back(Found& found) {
  found.base = found.last;
  while (!found.scan(found.base).has_snapshot() && found.before(found.base) != 0) {
    found.base = found.before(found.base);
    settle_older(found, found.base, found.scan(found.base));
  }
  for (auto it = found.files.find(found.base); it != found.files.end(); ++it)
    for (const SegmentScan::Group& group : found.scan(it->first).groups()) {
      life = std::max(life, group.head.life);
      next_number = std::max(found.proved, group.head.number) + 1;
    }
}

// What the segment behind proves is there, or damaged.
void Log::Parts::settle_older(Found& found, u64 number, SegmentScan& scan) {
  const auto next = found.files.find(number + 1);
  const u64 behind = next == found.files.end() ? 0 : first_number(*next->second, id);
  const bool is_cut = is_short(*found.files.at(number));
  scan.find_groups(id);
  if (!scan.has_groups()) return scan.give_up();
  scan.settle(behind == 0 ? scan.groups().back().head.number : behind - 1, number_before(scan));
  if (is_cut && behind == 0) scan.lose_tail();
}

void Log::Parts::replay(Found& found) {
  DamageNotes notes(report.damage);
  for (auto it = found.files.find(found.base); it != found.files.end(); ++it) {
    const u64 number = it->first;
    const SegmentScan& scan = found.scan(number);
    const bool is_behind_hole = number != found.base && !found.files.contains(number - 1);
    if (is_behind_hole) notes.miss(segment_name(number - 1));
    if (scan.has_snapshot())
      state = LogState({options.publisher_window, options.window_events_max, options.publishers_max, options.publisher_idle_ms});
    report.groups += scan.groups().size();
    notes.go_through(scan, [&](const RawRecord& record) {
      if (record.kind == RecordKind::kData) ++report.events;
      state.apply(record);
    });
    LogIndex index = scan.index();
    if (is_behind_hole) index.suspect(0, 0);
    adopt(*it->second, std::move(index), number != found.last);
  }
  notes.finish();
}

void Log::Parts::adopt(LogSegment& one, LogIndex index, bool closes) {
  one.index = std::make_shared<LogIndex>(std::move(index));
  if (!closes) return;
  one.extents = one.index->extents();
  one.suspects = one.index->suspects();
  one.is_closed = true;
}

void Log::Parts::adopt_older(Found& found) {
  for (auto it = found.files.begin(); it != found.files.end() && it->first < found.base; ++it) {
    LogSegment& one = *it->second;
    const std::shared_ptr<LogIndex> index = is_short(one) ? nullptr : load_index(one);
    if (index != nullptr && index->end() <= one.bytes) {
      adopt(one, std::move(*index), true);
    } else {
      SegmentScan scan(*one.file, one.number);
      settle_older(found, one.number, scan);
      DamageNotes notes(report.damage);
      notes.go_through(scan);
      for (const auto& [pubend, tick] : ticks_at_start(found, std::next(it)->first)) notes.see(pubend, tick, true);
      notes.finish();
      adopt(one, scan.index(), true);
      write_index(one, *one.index);
    }
    one.index = nullptr;
  }
}

// The last tick of each pubend before a segment, as its snapshot has it.
std::map<u64, u64> Log::Parts::ticks_at_start(Found& found, u64 number) {
  std::map<u64, u64> ticks;
  const LogSegment& one = *found.files.at(number);
  if (first_number(one, id) == 0) return ticks;
  char head[kGroupHead];
  one.file->read_at(kSegmentHead, head, kGroupHead);
  const GroupHead group = load_group(head);
  if (!group.is_snapshot || group.bytes > one.bytes - kSegmentHead - kGroupHead) return ticks;
  std::string bytes(group.bytes, '\0');
  one.file->read_at(kSegmentHead + kGroupHead, bytes.data(), bytes.size());
  const u32 seed = crc_seed(id, number);
  for (std::string_view left = bytes; is_record(left, seed); left.remove_prefix(record_bytes(record_size(left.data()))))
    if (record_kind(left.data()) == RecordKind::kPubend) {
      const LogRecord fields = load_record(left.data()).fields;
      ticks[fields.pubend] = fields.tick;
    }
  return ticks;
}

// Segments that are not there were removed if everything that they can have held is released, as the snapshot behind them
// shows; else they are lost. Holes behind the state's snapshot have been met already.
void Log::Parts::account_for_missing(Found& found) {
  std::map<u64, u64> seen;
  u64 before = 0;
  for (const auto& [number, one] : found.files) {
    if (number > found.base) break;
    if (number > before + 1) {
      LogDamage missing{segment_name(number - 1), 0, 0, {}};
      for (const auto& [pubend, tick] : ticks_at_start(found, number)) {
        const LogState::Pubend* of = state.find_pubend(pubend);
        if (of == nullptr || tick <= seen[pubend] || of->released > tick) continue;
        missing.lost.push_back({pubend, std::max(seen[pubend] + 1, of->released), tick});
      }
      if (!missing.lost.empty()) {
        report.damage.push_back(std::move(missing));
        if (one->is_closed) one->suspects.insert(one->suspects.begin(), {0, 0});
        else one->index->suspect(0, 0);
      }
    }
    for (const LogGroup::Extent& extent : one->is_closed ? one->extents : one->index->extents())
      seen[extent.pubend] = std::max(seen[extent.pubend], extent.last);
    before = number;
  }
}

// What is not proved to be on the disk is written once more: a sync that failed may have left it in memory only. Then the new
// life is made known, so that nothing of the old ones that lies behind can be taken for a part of it.
void Log::Parts::begin_life(Found& found) {
  SegmentScan& scan = found.scan(found.last);
  const std::shared_ptr<LogSegment> active = found.files[found.last];
  u64 from = scan.end();
  for (const SegmentScan::Group& group : scan.groups())
    if (group.head.number > found.proved) {
      from = group.offset;
      break;
    }
  const u64 torn = scan.torn_bytes(), end = scan.end();
  if (from < end) active->file->write_at(from, scan.bytes(from, end));
  const std::string zeros(torn, '\0');
  if (torn > 0) active->file->write_at(end, std::string_view(zeros));
  if (from < end || torn > 0) active->file->sync();

  segments = found.files;
  segment = found.last;
  segment_size = active->bytes;
  offset = end;
  durable = next_number - 1;
  ++life;
  for (const auto& [pubend, of] : state.pubends()) {
    known[pubend] = {of.last, of.released, of.released, {}, {}};
    for (const LogLoss& one : of.lost) known[pubend].lost.add(one.first, one.last + 1);
  }
  mark();
  if (sealed.empty() && !begin_segment()) throw KernelError("store-full", "no room to open the log: " + failure);
  if (!commit()) throw KernelError("store-full", "no room to open the log: " + failure);
  remove_released();
}

// What is lost is written down, so that every later life knows it, whatever becomes of the files; and how far it may reach:
// behind the last event of all nobody knows what was there, so no tick up to now is given again.
void Log::Parts::write_losses(Found& found) {
  std::map<u64, Spans> lost;
  for (const LogDamage& one : report.damage)
    for (const LogGroup::Extent& extent : one.lost) lost[extent.pubend].add(extent.first, extent.last + 1);
  if (found.has_lost_end) {
    LogDamage end{segment_name(found.last), found.scan(found.last).end(), 0, {}};
    const u64 now = tick_of_ms(static_cast<u64>(std::max<i64>(0, options.opened_ns) / 1'000'000));
    for (const auto& [pubend, of] : state.pubends()) {
      end.lost.push_back({pubend, of.last + 1, std::max({of.last + 1, state.newest_tick(), now})});
      lost[pubend].add(of.last + 1, end.lost.back().last + 1);
    }
    std::erase_if(report.damage, [&](const LogDamage& one) { return one.file == end.file && one.bytes == 0; });
    report.damage.push_back(std::move(end));
  }
  for (auto& [pubend, spans] : lost) {
    const u64 released = state.pubend(pubend).released;
    for (const LogLoss& one : state.pubend(pubend).lost) spans.remove(one.first, one.last + 1);
    for (const TickSpan& one : spans.within(released, ~u64{0}))
      if (!lose(pubend, one.first, one.end - 1)) throw KernelError("store-full", "no room to open the log: " + failure);
  }
  if (!commit()) throw KernelError("store-full", "no room to open the log: " + failure);
  for (const auto& [number, one] : found.files)
    if (head_of(*one).number != number || is_short(*one)) mend_head(*one);
  if (found.has_lost_end) files->remove(index_name(found.last));
  for (const u64 number : found.behind)
    if (!segments.contains(number) && (prepared == nullptr || prepared->number != number)) remove_segment(number);
}

std::vector<LogDamage> Log::check() const {
  std::vector<std::shared_ptr<LogSegment>> all;
  u64 durable = 0;
  {
    const std::lock_guard guard(parts_->mutex);
    for (const auto& [number, one] : parts_->segments) all.push_back(one);
    durable = parts_->durable;
  }
  std::vector<LogDamage> damage;
  DamageNotes notes(damage);
  for (const std::shared_ptr<LogSegment>& one : all) {
    SegmentScan scan(*one->file, one->number);
    scan.find_groups(parts_->id);
    const bool is_last = one == all.back();
    if (scan.has_groups()) scan.settle(is_last ? durable : scan.groups().back().head.number, number_before(scan));
    else scan.give_up();
    notes.go_through(scan);
  }
  notes.finish();
  return damage;
}

}  // namespace tidewire
