// The streams that are hosted here: into the log, and when that is durable, to the publishers and on their way.
#include <algorithm>
#include <cmath>

#include "plane.hpp"

namespace tidewire {

namespace {

constexpr u64 kReserveTicks = u64{10'000} << kTickCounterBits;  // how far ahead the mark for silence is set
constexpr double kBurstSeconds = 0.1;                           // what a pubend may take at once, of its rate
constexpr u32 kGuaranteedStamp = 32;
constexpr u16 kGuaranteedBits = 0b01111;

std::string mark_key(u64 pubend) {
  std::string key("mark/12345678");
  store(key.data() + 5, pubend);
  return key;
}

u64 ms_tick(i64 unix_ns) { return tick_of_ms(static_cast<u64>(unix_ns / 1'000'000)); }

// Publisher, sequence, pubend and tick; the tree is not among them, for the event outlives it.
void stamp_guaranteed(std::string_view event, const u64 (&fields)[4], std::vector<char>& into) {
  into.resize(event.size() + kGuaranteedStamp);
  char* to = into.data();
  std::memcpy(to, event.data(), kEventHeader);
  store(to + 2, static_cast<u16>(load<u16>(to + 2) | kGuaranteedBits));
  store(to + 8, static_cast<u32>(into.size()));
  if (const u32 body = load<u32>(to + 12)) store(to + 12, body + kGuaranteedStamp);
  for (u32 i = 0; i < 4; ++i) store(to + kEventHeader + 8 * i, fields[i]);
  std::memcpy(to + kEventHeader + kGuaranteedStamp, event.data() + kEventHeader, event.size() - kEventHeader);
}

// What the log answers; 0 if it has failed for good, which it says by an exception.
template <class F>
u64 unless_failed(F ask) {
  try {
    return ask();
  } catch (const KernelError& error) {
    if (std::string_view(error.code) != "store-failed") throw;
    return 0;
  }
}

}  // namespace

void Plane::host(Log* log, const std::vector<u64>& pubends, i64 unix_offset_ns, i64 now) {
  if (pubends.empty()) throw KernelError("usage", "a log without a pubend is of no use");
  log_ = log;
  pubends_ = pubends;
  unix_offset_ns_ = unix_offset_ns;
  for (const u64 pubend : pubends) {
    auto& stream = knowledge_[pubend] = std::make_unique<Stream>(pubend, true);
    const std::optional<std::string> kept = log->get(mark_key(pubend));
    const u64 mark = kept && kept->size() == 8 ? load<u64>(kept->data()) : 0;
    hosted_[pubend] = {mark, mark, 0, log->last_tick(pubend) > 0};
    const u64 known = std::max(mark, log->durable_tick(pubend));
    stream->heard = stream->horizon = (known > 0 ? known : ms_tick(now + unix_offset_ns)) + 1;
  }
}

std::vector<std::pair<u64, u64>> Plane::heads() const {
  std::vector<std::pair<u64, u64>> found;
  for (const u64 pubend : pubends_) found.emplace_back(pubend, find_stream(pubend)->heard);
  return found;
}

void Plane::limit(u64 pubend, std::optional<double> events_s, i64 now) {
  if (!events_s) {
    limits_.erase(pubend);
    return;
  }
  const auto [at, is_new] = limits_.try_emplace(pubend, Limit{*events_s, 1.0, now});
  if (is_new) return;
  refill(at->second, now);
  at->second.rate = *events_s;
}

void Plane::refill(Limit& limit, i64 now) const {
  const double passed_s = static_cast<double>(std::max<i64>(0, now - limit.at_ns)) / 1e9;
  limit.at_ns = now;
  limit.tokens = std::min(std::max(1.0, limit.rate * kBurstSeconds), limit.tokens + limit.rate * passed_s);
}

bool Plane::has_room_for(u64 pubend) const {
  const auto limit = limits_.find(pubend);
  return (limit == limits_.end() || limit->second.tokens >= 1.0) && log_->trouble() == LogTrouble::kNone;
}

// --- what is published

// So many frames from there, all GUARANTEE; how many were handled: all, unless the publisher has to wait.
const char* Plane::take_guarantee(Connection& from, std::span<const std::string_view> payloads, i64 now, std::size_t& handled) {
  handled = 0;
  if (from.is_link || !from.may_publish) return "nothing can be guaranteed here";
  items_ = {item_memory_.data(), 0};
  classes_.begin();
  for (const std::string_view payload : payloads) {
    if (payload.size() < kPromiseBytes) return "a publication ends too early";
    Item& item = next_item();
    item.event = payload.substr(kPromiseBytes);
    item.hop = hop_here(from, {load<i64>(payload.data()), 0, load<u64>(payload.data() + 8)}, now);
    item.tree = own_;
    inspect_published(from, item, kGuaranteedStamp);
  }
  if (log_ == nullptr) {
    for (Item& item : items_) refuse_for(item, "no-store", "this broker has no store, so nothing can be guaranteed here");
    handled = items_.size();
    from.traffic.events_in += handled;
    return nullptr;
  }
  const u64 pubend = pubends_[from.publisher % pubends_.size()];
  for (Item& item : items_) {
    if (!guarantee(from, item, pubend, now)) {
      waits_[from.number] = pubend;
      from.state = State::kBlocked;
      return nullptr;
    }
    ++from.traffic.events_in;
    ++handled;
  }
  return nullptr;
}

// False: it has to wait.
bool Plane::guarantee(Connection& from, const Item& item, u64 pubend, i64 now) {
  const u64 sequence = item.hop.position;
  if (sequence <= log_->last_sequence(pubend, from.publisher)) {
    const u64 tick = log_->tick_of(pubend, from.publisher, sequence);
    if (tick == 0 && item.verdict != Verdict::kTaken) {  // it was refused before, and later ones were taken
      refuse_guaranteed(item, sequence);
      return true;
    }
    if (tick <= log_->durable_tick(pubend)) receipt(from, sequence, tick);  // else its receipt comes with its group
    return true;
  }
  if (item.verdict != Verdict::kTaken) {
    refuse_guaranteed(item, sequence);
    return true;
  }
  const auto limit = limits_.find(pubend);
  if (limit != limits_.end()) {
    refill(limit->second, now);
    if (limit->second.tokens < 1.0) return false;
  }
  Hosted& hosted = hosted_.at(pubend);
  const Stream& stream = *find_stream(pubend);
  const u64 tick = std::max(std::max({log_->last_tick(pubend), hosted.floor, stream.heard - 1}) + 1, ms_tick(now + unix_offset_ns_));
  stamp_guaranteed(item.event, {from.publisher, sequence, pubend, tick}, record_event_);
  const LogRecord record{pubend, tick, from.publisher, sequence, item.hop.born_ns + unix_offset_ns_, item.hop.error_us,
                         {record_event_.data(), record_event_.size()}};
  if (unless_failed([&] { return log_->append(record); }) == 0) {
    if (log_->trouble() != LogTrouble::kFailed) return false;
    refuse_for(item, "store-failed", "the disk failed to keep what the log gave it");
    return true;
  }
  has_appended_ = true;
  ++hosted.events;
  if (limit != limits_.end()) limit->second.tokens -= 1.0;
  return true;
}

void Plane::refuse_for(const Item& item, const char* code, const char* reason) {
  Item refused = item;
  refused.code = code;
  refused.reason = reason;
  refuse_guaranteed(refused, item.hop.position);
}

void Plane::refuse_guaranteed(const Item& item, u64 sequence) {
  ++work_.refused;
  const auto is_same = [&](const Outcome::Refusal& one) { return one.is_guaranteed && std::string_view(one.code) == item.code; };
  auto found = std::find_if(outcome_.refusals.begin(), outcome_.refusals.end(), is_same);
  if (found == outcome_.refusals.end()) found = outcome_.refusals.insert(found, {item.code, item.reason, {}, 0, true});
  found->sequences.push_back(sequence);  // all of them: what is not named would count as taken
}

void Plane::receipt(Connection& to, u64 sequence, u64 tick) {
  char frame[kFrameHead + kReceiptBytes];
  store(frame, static_cast<u32>(1 + kReceiptBytes));
  frame[4] = static_cast<char>(FrameKind::kReceipt);
  store(frame + 5, sequence);
  store(frame + 13, tick);
  queue_of(to).push(frame, sizeof frame);
  count_out(to, sizeof frame);
}

// --- what is durable

int Plane::start_log() {
  if (log_ == nullptr) throw KernelError("usage", "there is no log");
  return log_fd_ = log_->start();
}

// What has been appended is to become durable; if it is at once, it goes its way.
const Outcome& Plane::submit(i64 now) {
  has_appended_ = false;
  if (log_ != nullptr && unless_failed([&] { return u64{log_->submit()}; }) != 0) return committed(now);
  outcome_.clear();
  return finish();
}

const Outcome& Plane::committed(i64 now) {
  now_ns_ = now;
  (void)now;
  outcome_.clear();
  receipts_.clear();
  has_more_ = false;  // publishers wait for their receipts: they leave at once
  for (const std::shared_ptr<const LogGroup>& group : log_->take()) {
    records_.clear();
    group->each_event([&](const LogRecord& record) { records_.push_back(record); });
    for (std::size_t first = 0; first < records_.size(); first += kEventsMax)
      emit_records({records_.data() + first, std::min<std::size_t>(kEventsMax, records_.size() - first)});
  }
  for (const auto& [publisher, last] : receipts_) {
    const auto seat = seats_.find(publisher);
    if (seat != seats_.end()) receipt(*connections_[seat->second], last.first, last.second);
  }
  return finish();
}

void Plane::emit_records(std::span<const LogRecord> records) {
  ++batch_;
  batch_trees_.clear();
  std::vector<u32> rows(records.size(), 0);
  for (std::size_t i = 0; i < records.size(); ++i) gather_for(*own_, records[i].event, rows[i]);
  match_trees();
  for (std::size_t i = 0; i < records.size(); ++i) {
    const LogRecord& record = records[i];
    receipts_[record.publisher] = {record.sequence, record.tick};
    Stream& stream = *find_stream(record.pubend);
    ++work_.events;
    pass_on(stream, record.tick, {record.event, record.born_ns - unix_offset_ns_, record.error_us}, rows[i]);
  }
  deliver_due();
}

void Plane::pass_on(Stream& stream, u64 tick, const Told& told, u32 row) {
  const StreamHead head{own_->id, stream.pubend, Span::kPlain, stream.heard, tick, 0, 0};
  stream.heard = stream.horizon = tick + 1;
  tell_children(stream, *own_, head, told, row, true);
  if (!told.event.empty()) deliverable_.push_back({&stream, tick, told});
}

// No life after this one begins before the mark: so silence can be told up to it, and nothing was published there.
const Outcome& Plane::silence(u64 pubend, i64 now) {
  now_ns_ = now;
  outcome_.clear();
  Hosted& hosted = hosted_.at(pubend);
  Stream& stream = *find_stream(pubend);
  const u64 tick = ms_tick(now + unix_offset_ns_);
  if (tick + kReserveTicks / 2 > hosted.mark && log_->durable() >= hosted.mark_group) {
    char value[8];
    store(value, tick + kReserveTicks);
    if (const u64 group = unless_failed([&] { return log_->put(mark_key(pubend), {value, 8}); })) {
      hosted.mark = tick + kReserveTicks;
      hosted.mark_group = group;
    }
  }
  // What is in the log and not told yet is no silence, durable or not: the log's thread is ahead of `committed`.
  if (log_->durable() < hosted.mark_group || log_->last_tick(pubend) >= stream.heard) return finish();
  const u64 last = std::min(tick, hosted.mark) - 1;
  if (last >= stream.heard) pass_on(stream, last, {}, 0);
  return finish();
}

}  // namespace tidewire
