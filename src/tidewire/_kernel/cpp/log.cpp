#include "log.hpp"

#include <algorithm>

#include "log_parts.hpp"

namespace tidewire {

namespace {

// At the end of a segment there is room that events do not get: to write down what is released when the disk is full, and
// behind that to say that the log has been opened.
constexpr u64 kReserveMax = 64u << 10, kOpeningMax = 4096;

u64 reserve_of(u64 segment_bytes) { return std::min(kReserveMax, segment_bytes / 16); }
u64 opening_reserve_of(u64 segment_bytes) { return std::min(kOpeningMax, segment_bytes / 32); }

LogOptions checked(const LogOptions& options) {
  if (options.segment_bytes < 4096 || options.segment_bytes > u64{1} << 32)
    throw KernelError("configuration", "segments of the log have 4 KiB to 4 GiB");
  if (options.publisher_window == 0) throw KernelError("configuration", "of each publisher one event at least is known");
  if (options.group_bytes < 1024 || options.group_bytes > 64u << 20)
    throw KernelError("configuration", "groups of the log have 1 KiB to 64 MiB");
  return options;
}

}  // namespace

Log::Parts::Parts(std::shared_ptr<Files> files_, const LogOptions& options_)
    : files(std::move(files_)),
      options(checked(options_)),
      state({options.publisher_window, options.window_events_max, options.publishers_max, options.publisher_idle_ms}) {}

void Log::Parts::check_open() const {
  if (is_closed) throw KernelError("usage", "the log is closed");
  if (has_failed.load(std::memory_order_relaxed)) throw_failure();
}

void Log::Parts::begin_group() {
  open_group = fresh_group();
  open_group->begin(next_number, segment, offset);
}

u64 Log::Parts::seal() {
  if (open_group == nullptr) return 0;
  open_group->newest = state.newest_tick();
  const std::lock_guard guard(mutex);
  offset += open_group->size();
  backlog_bytes += open_group->size();
  waiting_events += open_group->events;
  sealed.push_back(std::move(open_group));
  open_group = nullptr;
  return next_number++;
}

void Log::Parts::mark() {
  seal();
  if (offset + kGroupHead > segment_size) return;
  begin_group();
  seal();
}

bool Log::Parts::make_room(std::size_t bytes, bool is_event) {
  if (is_event && backlog_bytes.load(std::memory_order_relaxed) >= options.backlog_bytes_max) return false;
  if (is_event && is_refused) {  // what is smaller would fit, and the next one not: it goes on when there is room for many
    Lock held(mutex);
    if (lacks_segment) return false;
  }
  if (open_group != nullptr && open_group->size() + bytes > options.group_bytes) seal();
  const u64 limit = segment_size - opening_reserve_of(segment_size) - (is_event ? reserve_of(segment_size) : 0);
  const u64 end = offset + (open_group == nullptr ? kGroupHead : open_group->size()) + bytes;
  if (end > limit) {
    seal();
    if (!begin_segment()) return false;
  }
  if (open_group == nullptr) begin_group();
  return true;
}

// The owner does this, not who writes: the snapshot is what the groups before it say, neither less nor more.
bool Log::Parts::begin_segment() {
  const u64 number = segment + 1;
  u64 least = segment_bytes_for(state.snapshot_bytes());
  for (;;) {
    if (!take_prepared(least)) return false;
    state.tidy();
    GroupPointer snapshot = fresh_group();
    snapshot->begin(next_number, number, kSegmentHead);
    snapshot->is_snapshot = true;
    snapshot->newest = state.newest_tick();
    state.snapshot([&](const RawRecord& record) { snapshot->add(record); });
    const std::lock_guard guard(mutex);
    if (snapshot->size() > prepared->bytes / 2) {
      least = 4 * snapshot->size();
      continue;
    }
    segment = number;
    offset = kSegmentHead + snapshot->size();
    segment_size = prepared->bytes;
    ++next_number;
    segments[number] = std::move(prepared);
    prepared = nullptr;
    backlog_bytes += snapshot->size();
    sealed.push_back(std::move(snapshot));
    prepared_bytes = least;
    wants_segment = has_threads;
    chores.notify_one();
    return true;
  }
}

u64 Log::Parts::add(const RawRecord& record) {
  check_open();
  const std::size_t bytes = record_bytes(record.fields.event.size());
  const bool is_event = record.kind == RecordKind::kData;
  if (bytes > options.segment_bytes / 4) throw KernelError("event-too-large", "the log has no room for so large a record");
  if (!make_room(bytes, is_event)) {
    const std::lock_guard guard(mutex);
    is_refused = wants_room = true;
    if (prepared != nullptr) signal();  // it has come meanwhile
    return 0;
  }
  if (is_refused && is_event) {
    const std::lock_guard guard(mutex);
    is_refused = wants_room = false;
  }
  open_group->add(record);
  return open_group->number;
}

void Log::Parts::note_extent(const LogRecord& record, LogState::Pubend& of) {
  if (of.group != open_group->number) {
    of.group = open_group->number;
    of.extent = static_cast<u32>(open_group->extents.size());
    open_group->extents.push_back({record.pubend, record.tick, record.tick});
  }
  open_group->extents[of.extent].last = record.tick;
  ++open_group->events;
}

// A segment goes when the disk knows why: else it would be missed. On a full disk the first ones go before that, for room.
bool Log::Parts::is_released(const LogSegment& one, bool is_first) const {
  return std::all_of(one.extents.begin(), one.extents.end(), [&](const LogGroup::Extent& extent) {
    const auto found = known.find(extent.pubend);
    return found == known.end() || extent.last < (is_first && (lacks_room || lacks_segment) ? found->second.released : found->second.durable_released);
  });
}

void Log::Parts::remove_released() {
  std::vector<u64> numbers;
  {
    const std::lock_guard guard(mutex);
    may_remove = false;
    bool is_first = true;
    for (auto it = segments.begin(); it != segments.end();) {
      if (!it->second->is_closed) break;
      if (!is_released(*it->second, is_first)) {
        is_first = false;
        ++it;
        continue;
      }
      numbers.push_back(it->first);
      it = segments.erase(it);
    }
    if (has_threads) {
      to_remove.insert(to_remove.end(), numbers.begin(), numbers.end());
      if (!numbers.empty()) chores.notify_one();
      return;
    }
  }
  for (const u64 number : numbers) remove_segment(number);
}

Log::Log(std::shared_ptr<Files> files, const LogOptions& options) : parts_(std::make_unique<Parts>(std::move(files), options)) {
  try {
    parts_->open();
  } catch (const FileError& error) {
    throw KernelError(error.is_full() ? "store-full" : "store-failed", error.what());
  }
}

Log::~Log() = default;

const LogReport& Log::report() const { return parts_->report; }
u64 Log::id() const { return parts_->id; }

u64 Log::append(const LogRecord& record) {
  Parts& parts = *parts_;
  if (!parts.state.follows(record)) {
    parts.check_open();
    throw KernelError("usage", "tick " + std::to_string(record.tick) + " or sequence " + std::to_string(record.sequence) +
                                   " is not above the last one of its pubend or publisher");
  }
  const u64 group = parts.add({record, RecordKind::kData, 0});
  if (group == 0) return 0;
  LogState::Pubend& of = parts.state.pubend(record.pubend);
  parts.note_extent(record, of);
  parts.state.note_event(record, of);
  return group;
}

u64 Log::put(std::string_view key, std::string_view value) {
  if (key.empty() || key.size() > parts_->options.key_bytes_max || value.size() > parts_->options.value_bytes_max)
    throw KernelError("limit", "a key of the log has 1 to " + std::to_string(parts_->options.key_bytes_max) +
                                   " bytes, its value at most " + std::to_string(parts_->options.value_bytes_max));
  std::string bytes(key);
  bytes += value;
  RawRecord record;
  record.kind = RecordKind::kPut;
  record.fields.sequence = key.size();
  record.fields.event = bytes;
  const u64 group = parts_->add(record);
  if (group != 0) parts_->state.apply(record);
  return group;
}

u64 Log::erase(std::string_view key) {
  RawRecord record;
  record.kind = RecordKind::kErase;
  record.fields.event = key;
  const u64 group = parts_->add(record);
  if (group != 0) parts_->state.apply(record);
  return group;
}

u64 Log::advance(u64 pubend, u64 tick) {
  RawRecord record;
  record.kind = RecordKind::kAdvance;
  record.fields.pubend = pubend;
  record.fields.tick = tick;
  const u64 group = parts_->add(record);
  if (group == 0) return 0;
  parts_->open_group->advances.emplace_back(pubend, tick);
  parts_->state.apply(record);
  return group;
}

bool Log::Parts::lose(u64 pubend, u64 first, u64 last) {
  RawRecord record;
  record.kind = RecordKind::kLost;
  record.fields = {pubend, last, 0, first, options.opened_ns, 0, {}};
  if (add(record) == 0) return false;
  open_group->losses.push_back({pubend, first, last});
  state.apply(record);
  return true;
}

u64 Log::lose(u64 pubend, u64 first, u64 last) {
  if (first > last) throw KernelError("usage", "what is lost has a first tick, and a last one that is not before it");
  return parts_->lose(pubend, first, last) ? parts_->open_group->number : 0;
}

u64 Log::forget(u64 pubend) {
  RawRecord record;
  record.kind = RecordKind::kForget;
  record.fields.pubend = pubend;
  const u64 group = parts_->add(record);
  if (group == 0) return 0;
  parts_->open_group->releases.emplace_back(pubend, ~u64{0});
  parts_->state.apply(record);
  {
    const std::lock_guard guard(parts_->mutex);
    parts_->known[pubend].released = ~u64{0};
  }
  parts_->remove_released();
  return group;
}

void Log::release(u64 pubend, u64 tick) {
  if (tick <= released_tick(pubend)) return;
  RawRecord record;
  record.kind = RecordKind::kRelease;
  record.fields.pubend = pubend;
  record.fields.tick = tick;
  if (parts_->add(record) != 0) parts_->open_group->releases.emplace_back(pubend, tick);
  parts_->state.apply(record);
  {
    const std::lock_guard guard(parts_->mutex);
    parts_->known[pubend].released = tick;
  }
  parts_->remove_released();
}

u64 Log::seal() {
  parts_->check_open();
  return parts_->seal();
}

bool Log::commit() { return parts_->commit(); }
bool Log::write() { return parts_->write(); }
bool Log::sync() { return parts_->sync(); }
int Log::start() { return parts_->start(); }
bool Log::submit() { return parts_->submit(); }
std::vector<std::shared_ptr<const LogGroup>> Log::take() { return parts_->take(); }

u64 Log::durable() const {
  const std::lock_guard guard(parts_->mutex);
  return parts_->durable;
}

u64 Log::waiting_events() const {
  const std::lock_guard guard(parts_->mutex);
  return parts_->waiting_events + (parts_->open_group == nullptr ? 0 : parts_->open_group->events);
}

LogTrouble Log::trouble() const {
  const std::lock_guard guard(parts_->mutex);
  if (parts_->has_failed) return LogTrouble::kFailed;
  if (parts_->lacks_room || (parts_->lacks_segment && parts_->wants_room)) return LogTrouble::kFull;
  if (!parts_->wants_room) return LogTrouble::kNone;
  if (parts_->backlog_bytes >= parts_->options.backlog_bytes_max) return LogTrouble::kBehind;
  return parts_->has_threads && parts_->prepared == nullptr ? LogTrouble::kPreparing : LogTrouble::kNone;
}

std::string Log::trouble_text() const {
  const std::lock_guard guard(parts_->mutex);
  return parts_->has_failed || parts_->lacks_room || parts_->lacks_segment ? parts_->failure : std::string();
}

void Log::close() {
  Parts& parts = *parts_;
  if (parts.is_closed) return;
  parts.stop();
  // What was durable is known to be so by what follows it: without a mark the last group could be damaged unseen.
  if (!parts.has_failed && parts.commit()) {
    parts.mark();
    parts.commit();
  }
  parts.is_closed = true;
  parts.lock = nullptr;
}

std::optional<std::string> Log::get(std::string_view key) const {
  const auto found = parts_->state.keys.find(key);
  if (found == parts_->state.keys.end()) return std::nullopt;
  return found->second;
}

std::vector<std::pair<std::string, std::string>> Log::items(std::string_view prefix) const {
  std::vector<std::pair<std::string, std::string>> found;
  const auto& keys = parts_->state.keys;
  for (auto it = keys.lower_bound(prefix); it != keys.end() && it->first.starts_with(prefix); ++it) found.push_back(*it);
  return found;
}

std::vector<u64> Log::pubends() const {
  std::vector<u64> found;
  for (const auto& [id, of] : parts_->state.pubends()) found.push_back(id);
  return found;
}

u64 Log::last_tick(u64 pubend) const {
  const LogState::Pubend* of = parts_->state.find_pubend(pubend);
  return of == nullptr ? 0 : of->last;
}

u64 Log::durable_tick(u64 pubend) const {
  const std::lock_guard guard(parts_->mutex);
  const auto found = parts_->known.find(pubend);
  return found == parts_->known.end() ? 0 : found->second.durable;
}

u64 Log::released_tick(u64 pubend) const {
  const LogState::Pubend* of = parts_->state.find_pubend(pubend);
  return of == nullptr ? 0 : of->released;
}

// Those that readers met are not in the log: whoever opens it finds them, or reads what could not be read.
std::vector<LogLoss> Log::losses(u64 pubend) const {
  const LogState::Pubend* of = parts_->state.find_pubend(pubend);
  std::vector<LogLoss> found = of == nullptr ? std::vector<LogLoss>{} : of->lost;
  const std::lock_guard guard(parts_->mutex);
  const auto known = parts_->known.find(pubend);
  if (known == parts_->known.end()) return found;
  for (const TickSpan& one : known->second.doubts.within(known->second.released, ~u64{0}))
    found.push_back({one.first, one.end - 1, 0});
  return found;
}

u64 Log::first_tick(u64 pubend, u64 from) const {
  LogPiece piece;
  parts_->read(pubend, std::max(from, released_tick(pubend)), ~u64{0}, 1, piece);
  return piece.records.empty() ? 0 : piece.records.front().tick;
}

u64 Log::last_sequence(u64 pubend, u64 publisher) const { return parts_->state.last_sequence(pubend, publisher); }
u64 Log::tick_of(u64 pubend, u64 publisher, u64 sequence) const { return parts_->state.tick_of(pubend, publisher, sequence); }
u64 Log::publishers() const { return parts_->state.publishers(); }

void Log::read(u64 pubend, u64 from, u64 to, u64 bytes_max, LogPiece& piece) const {
  parts_->read(pubend, from, to, bytes_max, piece);
}

std::vector<Log::Segment> Log::segments() const {
  const std::lock_guard guard(parts_->mutex);
  std::vector<Segment> found;
  for (const auto& [number, one] : parts_->segments)
    found.push_back({number, one->bytes, one->is_closed ? one->extents : one->index->extents()});
  return found;
}

u64 Log::disk_bytes() const {
  const std::lock_guard guard(parts_->mutex);
  u64 sum = parts_->prepared == nullptr ? 0 : parts_->prepared->bytes;
  for (const auto& [number, one] : parts_->segments) sum += one->bytes;
  return sum;
}

}  // namespace tidewire
