// Reading: a plan of blocks, made under the mutex, then the blocks, from memory or from their files.
//
// Nothing is taken for silence that may be damage. Where bytes cannot be read as records, the reader is in doubt until it
// meets the next event of its pubend: all ticks up to there are lost.
#include <algorithm>

#include "log_parts.hpp"

namespace tidewire {

namespace {

constexpr std::size_t kIndexesMax = 32;  // of closed segments, in memory

struct Overlap {
  u64 from, to;
  bool operator()(const LogIndex::Block& bad) const { return bad.offset < to && (bad.end > from || bad.offset >= from); }
};

bool has_doubt(const std::vector<LogIndex::Block>& suspects, u64 from, u64 to) {
  return std::any_of(suspects.begin(), suspects.end(), Overlap{from, to});
}

const LogGroup::Extent* extent_of(const std::vector<LogGroup::Extent>& extents, u64 pubend) {
  const auto found = std::lower_bound(extents.begin(), extents.end(), pubend,
                                      [](const LogGroup::Extent& extent, u64 id) { return extent.pubend < id; });
  return found != extents.end() && found->pubend == pubend ? &*found : nullptr;
}

}  // namespace

void LogPiece::clear() {
  records.clear();
  lost.clear();
  groups.clear();
  buffers_used = 0;
  next = 0;
}

// A block, or (without bytes) only the doubt about what is not read.
struct Log::Parts::Step {
  std::shared_ptr<File> file;
  u64 segment = 0, offset = 0, end = 0;
  bool is_doubtful = false;
  std::vector<GroupPointer> groups;

  static Step doubt() { return {nullptr, 0, 0, 0, true, {}}; }
};

struct Log::Parts::Walk {
  u64 pubend, end, bytes_max;
  LogPiece& piece;
  u64 log_id;
  u64 cursor = 0, bytes = 0;
  bool is_doubtful = false, is_enough = false;
  // What has been planned: up to here in this segment.
  u64 segment = 0, offset = 0;
  u64 planned = 0;
  bool is_planned = false;

  bool lose(u64 first, u64 last_end) {
    if (first >= last_end) return false;
    std::vector<TickRange>& lost = piece.lost;
    if (!lost.empty() && lost.back().end == first) lost.back().end = last_end;
    else lost.push_back({first, last_end});
    return true;
  }
  void see(const LogRecord& record) {
    if (record.pubend != pubend || record.tick < cursor || record.tick >= end) return;
    if (is_doubtful) lose(cursor, record.tick);
    is_doubtful = false;
    piece.records.push_back(record);
    cursor = record.tick + 1;
    bytes += record.event.size();
  }
  void walk(std::string_view left, u32 seed) {
    while (!left.empty()) {
      if (!is_record(left, seed)) {
        is_doubtful = true;
        left.remove_prefix(std::min<std::size_t>(8, left.size()));
        continue;
      }
      if (record_kind(left.data()) == RecordKind::kData) see(load_record(left.data()).fields);
      left.remove_prefix(record_bytes(record_size(left.data())));
    }
  }
  void take(const Step& step) {
    if (step.is_doubtful) is_doubtful = true;
    for (const GroupPointer& group : step.groups) {
      piece.groups.push_back(group);
      group->each_event([&](const LogRecord& record) { see(record); });
    }
    if (!step.groups.empty() || step.file == nullptr) return;
    if (piece.buffers_used == piece.buffers.size()) piece.buffers.emplace_back();
    Buffer<char>& buffer = piece.buffers[piece.buffers_used++];
    buffer.clear();
    char* memory = buffer.room_for(step.end - step.offset);
    try {
      step.file->read_at(step.offset, memory, step.end - step.offset);
    } catch (const FileError&) {
      is_doubtful = true;
      return;
    }
    walk({memory, step.end - step.offset}, crc_seed(log_id, step.segment));
  }
};

std::vector<GroupPointer> Log::Parts::cached(u64 number, u64 from, u64 end) const {
  std::vector<GroupPointer> found;
  auto it = std::lower_bound(cache.begin(), cache.end(), std::pair(number, from), [](const GroupPointer& group, const auto& at) {
    return std::pair(group->segment, group->offset) < at;
  });
  if (it == cache.end() || (*it)->segment != number || (*it)->offset != from) return found;
  for (; it != cache.end() && (*it)->segment == number && (*it)->offset < end; ++it) found.push_back(*it);
  return found;
}

std::shared_ptr<LogIndex> Log::Parts::load_index(const LogSegment& one) const {
  try {
    const std::shared_ptr<File> file = files->open(index_name(one.number));
    std::string bytes(file->size(), '\0');
    file->read_at(0, bytes.data(), bytes.size());
    std::optional<LogIndex> index = LogIndex::decoded(bytes, id, one.number);
    return index ? std::make_shared<LogIndex>(std::move(*index)) : nullptr;
  } catch (const FileError&) {
    return nullptr;
  }
}

// Of closed segments a few indexes are in memory; the others are read, or made from the segment, when they are needed.
void Log::Parts::need_index(LogSegment& one, Lock& held) {
  if (one.index != nullptr) return;
  held.unlock();
  std::shared_ptr<LogIndex> index = load_index(one);
  if (index == nullptr) {
    SegmentScan scan(*one.file, one.number);
    scan.find_groups(id);
    if (scan.has_groups()) scan.settle(scan.groups().back().head.number, scan.groups().front().head.number - 1);
    else scan.give_up();
    index = std::make_shared<LogIndex>(scan.index());
    write_index(one, *index);
  }
  held.lock();
  one.index = std::move(index);
  loaded_indexes.push_back(one.number);
  while (loaded_indexes.size() > kIndexesMax) {
    const auto found = segments.find(loaded_indexes.front());
    loaded_indexes.pop_front();
    if (found != segments.end() && found->second.get() != &one && found->second->is_closed) found->second->index = nullptr;
  }
}

// The blocks of a segment that are to be read. False: enough are planned.
bool Log::Parts::plan_segment(Walk& walk, LogSegment& one, std::vector<Step>& steps) {
  const std::vector<LogIndex::Block>& suspects = one.is_closed ? one.suspects : one.index->suspects();
  const bool goes_on = walk.segment == one.number;
  u64 position = goes_on ? walk.offset : 0;
  const std::vector<LogIndex::Entry>* entries = one.index == nullptr ? nullptr : one.index->entries(walk.pubend);
  if (entries != nullptr) {
    auto it = std::partition_point(entries->begin(), entries->end(), [&](const LogIndex::Entry& entry) {
      return entry.last < walk.cursor || one.index->block(entry.block).offset < position;
    });
    if (!goes_on && it != entries->begin()) position = one.index->block(std::prev(it)->block).offset;
    for (; it != entries->end() && it->first < walk.end; ++it) {
      const LogIndex::Block& block = one.index->block(it->block);
      Step step{one.file, one.number, block.offset, block.end, has_doubt(suspects, position, block.offset), {}};
      step.groups = cached(one.number, block.offset, block.end);
      steps.push_back(std::move(step));
      position = block.end;
      walk.segment = one.number;
      walk.offset = position;
      walk.planned += block.end - block.offset;
      if (walk.planned >= walk.bytes_max) return false;
    }
    if (it != entries->end()) {
      if (has_doubt(suspects, position, one.index->block(it->block).offset)) steps.push_back(Step::doubt());
      walk.is_planned = true;
      return false;
    }
  }
  if (has_doubt(suspects, position, ~u64{0})) steps.push_back(Step::doubt());
  walk.segment = one.number;
  walk.offset = one.bytes;
  return true;
}

std::vector<Log::Parts::Step> Log::Parts::plan(Walk& walk) {
  std::vector<Step> steps;
  walk.planned = 0;
  Lock held(mutex);
  // Where the ticks before the first one are: what lies between may be of interest.
  const auto begins_before = [&](const LogSegment& one) {
    if (!one.is_closed) {
      const std::vector<LogIndex::Entry>* entries = one.index->entries(walk.pubend);
      return entries != nullptr && entries->front().first < walk.cursor;
    }
    const LogGroup::Extent* extent = extent_of(one.extents, walk.pubend);
    return extent != nullptr && extent->first < walk.cursor;
  };
  u64 from = walk.segment;
  if (from == 0)
    for (const auto& [number, one] : segments)
      if (begins_before(*one)) from = number;
  for (auto it = segments.lower_bound(from); it != segments.end(); it = segments.upper_bound(from)) {
    from = it->first;
    const std::shared_ptr<LogSegment> one = it->second;
    const LogGroup::Extent* extent = extent_of(one->extents, walk.pubend);  // of a closed one
    if (extent != nullptr && (extent->last >= walk.cursor || !one->suspects.empty())) need_index(*one, held);
    if (!plan_segment(walk, *one, steps)) return steps;
  }
  walk.is_planned = true;
  return steps;
}

void Log::Parts::read(u64 pubend, u64 from, u64 to, u64 bytes_max, LogPiece& piece) {
  piece.clear();
  Walk walk{pubend, to, bytes_max, piece, id};
  Spans said;
  u64 released = 0;
  walk.cursor = from;
  {
    const std::lock_guard guard(mutex);
    const auto found = known.find(pubend);
    const Known of = found == known.end() ? Known{} : found->second;
    walk.end = std::min(to, of.durable + 1);
    said = of.lost;
    released = of.released;
    if (from < of.released) {
      walk.cursor = std::max(from, std::min(to, of.released));
      walk.lose(from, walk.cursor);
    }
  }
  while (walk.cursor < walk.end && !walk.is_enough && !walk.is_planned)
    for (const Step& step : plan(walk)) {
      walk.take(step);
      walk.is_enough = walk.bytes >= bytes_max;  // a block is read to its end: the next piece begins with another one
      if (walk.is_enough) break;
    }
  if (!walk.is_enough && walk.cursor < walk.end) {
    if (walk.is_doubtful) walk.lose(walk.cursor, walk.end);
    walk.cursor = walk.end;
  }
  piece.next = walk.cursor;
  if (piece.lost.empty() && said.empty()) return;
  Spans lost, met;
  for (const TickSpan& one : said.within(std::max(from, released), piece.next)) lost.add(one.first, one.end);
  for (const LogRecord& record : piece.records) lost.remove(record.tick, record.tick + 1);
  for (const TickRange& one : piece.lost) {
    for (const TickSpan& fresh : said.gaps(std::max(one.first, released), one.end)) met.add(fresh.first, fresh.end);
    lost.add(one.first, one.end);
  }
  piece.lost.clear();
  for (const TickSpan& one : lost.runs()) piece.lost.push_back({one.first, one.end});
  if (met.empty()) return;
  const std::lock_guard guard(mutex);
  for (const TickSpan& one : met.runs()) known[pubend].doubts.add(one.first, one.end);
}

}  // namespace tidewire
