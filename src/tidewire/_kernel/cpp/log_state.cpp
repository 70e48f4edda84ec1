#include "log_state.hpp"

#include <algorithm>

namespace tidewire {

namespace {

constexpr u32 kVarintMax = 10;

void put_varint(std::string& to, u64 value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

bool take_varint(std::string_view& from, u64& value) {
  value = 0;
  for (u32 i = 0; i < kVarintMax && i < from.size(); ++i) {
    value |= static_cast<u64>(from[i] & 0x7F) << 7 * i;
    if ((from[i] & 0x80) != 0) continue;
    from.remove_prefix(i + 1);
    return true;
  }
  return false;
}

}  // namespace

bool LogState::apply(const RawRecord& record) {
  const LogRecord& fields = record.fields;
  switch (record.kind) {
    case RecordKind::kGroup:
      if (fields.event.size() != sizeof newest_) return false;
      newest_ = std::max(newest_, load<u64>(fields.event.data()));
      return true;
    case RecordKind::kData: {
      Pubend& of = pubend(fields.pubend);
      if (fields.tick <= of.last) return false;
      note_event(fields, of);
      return true;
    }
    case RecordKind::kPut: return put_key(record);
    case RecordKind::kErase: {
      const auto found = keys.find(fields.event);
      if (found == keys.end()) return true;
      key_bytes_ -= found->first.size() + found->second.size();
      keys.erase(found);
      return true;
    }
    case RecordKind::kRelease: {
      Pubend& of = pubend(fields.pubend);
      of.released = std::max(of.released, fields.tick);
      std::erase_if(of.lost, [&](const LogLoss& one) { return one.last < of.released; });
      return true;
    }
    case RecordKind::kAdvance: {
      Pubend& of = pubend(fields.pubend);
      of.last = std::max(of.last, fields.tick);
      newest_ = std::max(newest_, fields.tick);
      return true;
    }
    case RecordKind::kForget: return forget_pubend(fields.pubend), true;
    case RecordKind::kPubend: {
      Pubend& of = pubend(fields.pubend);
      of.last = std::max(of.last, fields.tick);
      of.released = std::max(of.released, fields.sequence);
      newest_ = std::max(newest_, fields.tick);
      return true;
    }
    case RecordKind::kPublisher: return load_publisher(fields);
    case RecordKind::kLost: return note_loss(fields), true;
  }
  return false;
}

bool LogState::follows(const LogRecord& record) {
  const bool is_last = last_pubend_ != nullptr && last_pubend_->first == record.pubend;
  const Pubend* of = is_last ? &last_pubend_->second : find_pubend(record.pubend);
  if (record.tick == 0 || (of != nullptr && record.tick <= of->last)) return false;
  if (record.publisher == 0) return true;
  const Key key{record.pubend, record.publisher};
  if (last_publisher_ == nullptr || last_publisher_->first != key) {
    const auto found = publishers_.find(key);
    if (found == publishers_.end()) return record.sequence != 0;
    last_publisher_ = &*found;
  }
  return record.sequence > last_publisher_->second.newest().sequence;
}

void LogState::note_event(const LogRecord& record, Pubend& of) {
  of.last = record.tick;
  newest_ = std::max(newest_, record.tick);
  if (record.publisher == 0) return;
  const Key key{record.pubend, record.publisher};
  if (last_publisher_ == nullptr || last_publisher_->first != key) last_publisher_ = &*publishers_.try_emplace(key).first;
  add_event(last_publisher_->second, {record.sequence, record.tick});
}

void LogState::add_event(Publisher& to, const Event& event) {
  if (to.ring.size() < bounds_.publisher_window) {
    to.ring.push_back(event);
    ++window_events_;
    return;
  }
  to.ring[to.oldest] = event;
  if (++to.oldest == to.ring.size()) to.oldest = 0;
}

void LogState::keep_newest(Publisher& of) {
  const Event newest = of.newest();
  window_events_ -= of.ring.size() - 1;
  of.ring = {newest};
  of.oldest = 0;
}

bool LogState::put_key(const RawRecord& record) {
  const std::string_view bytes = record.fields.event;
  if (record.fields.sequence > bytes.size()) return false;
  const std::string_view key = bytes.substr(0, record.fields.sequence), value = bytes.substr(key.size());
  const auto found = keys.find(key);
  if (found == keys.end()) {
    keys.emplace(key, value);
    key_bytes_ += bytes.size();
  } else {
    key_bytes_ += value.size();
    key_bytes_ -= found->second.size();
    found->second = value;
  }
  return true;
}

void LogState::forget_pubend(u64 pubend) {
  pubends_.erase(pubend);
  last_pubend_ = nullptr;
  last_publisher_ = nullptr;
  std::erase_if(publishers_, [&](const auto& one) {
    if (one.first.pubend != pubend) return false;
    window_events_ -= one.second.ring.size();
    return true;
  });
}

void LogState::note_loss(const LogRecord& record) {
  Pubend& of = pubend(record.pubend);
  of.last = std::max(of.last, record.tick);
  newest_ = std::max(newest_, record.tick);
  LogLoss loss{record.sequence, record.tick, record.born_ns};
  std::vector<LogLoss> kept;
  for (const LogLoss& one : of.lost) {
    if (one.last + 1 < loss.first || loss.last + 1 < one.first) {
      kept.push_back(one);
      continue;
    }
    loss = {std::min(one.first, loss.first), std::max(one.last, loss.last), std::max(one.found_ns, loss.found_ns)};
  }
  const auto is_before = [](const LogLoss& a, const LogLoss& b) { return a.first < b.first; };
  kept.insert(std::upper_bound(kept.begin(), kept.end(), loss, is_before), loss);
  of.lost = std::move(kept);
  while (of.lost.size() > kLossesMax) {  // the two that are nearest to each other are one: too much is told, never too little
    std::size_t best = 1;
    for (std::size_t i = 2; i < of.lost.size(); ++i)
      if (of.lost[i].first - of.lost[i - 1].last < of.lost[best].first - of.lost[best - 1].last) best = i;
    of.lost[best - 1].last = of.lost[best].last;
    of.lost.erase(of.lost.begin() + static_cast<std::ptrdiff_t>(best));
  }
}

bool LogState::load_publisher(const LogRecord& fields) {
  Publisher loaded;
  std::string_view bytes = fields.event;
  Event event{0, 0};
  while (!bytes.empty()) {
    u64 sequence = 0, tick = 0;
    if (!take_varint(bytes, sequence) || !take_varint(bytes, tick)) return false;
    event = {event.sequence + sequence, event.tick + tick};
    loaded.ring.push_back(event);
  }
  if (loaded.ring.empty()) return false;
  if (loaded.ring.size() > bounds_.publisher_window)  // it was wider before
    loaded.ring.erase(loaded.ring.begin(), loaded.ring.end() - bounds_.publisher_window);
  Publisher& of = publishers_[{fields.pubend, fields.publisher}];
  window_events_ += loaded.ring.size();
  window_events_ -= of.ring.size();
  of = std::move(loaded);
  return true;
}

void LogState::tidy() {
  last_publisher_ = nullptr;
  std::vector<std::pair<u64, Key>> by_idleness;
  const u64 now_ms = ms_of_tick(newest_);
  std::erase_if(publishers_, [&](const auto& one) {
    const u64 tick = one.second.newest().tick;
    if (ms_of_tick(tick) + bounds_.publisher_idle_ms >= now_ms) {
      by_idleness.emplace_back(tick, one.first);
      return false;
    }
    window_events_ -= one.second.ring.size();
    return true;
  });
  if (publishers_.size() <= bounds_.publishers_max && window_events_ <= bounds_.window_events_max) return;
  std::sort(by_idleness.begin(), by_idleness.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second.pubend, a.second.publisher) < std::tie(b.first, b.second.pubend, b.second.publisher);
  });
  for (const auto& [tick, key] : by_idleness) {
    const auto found = publishers_.find(key);
    if (publishers_.size() > bounds_.publishers_max) {
      window_events_ -= found->second.ring.size();
      publishers_.erase(found);
    } else if (window_events_ > bounds_.window_events_max) {
      keep_newest(found->second);
    } else {
      break;
    }
  }
}

void LogState::snapshot(const std::function<void(const RawRecord&)>& put) const {
  RawRecord record;
  for (const auto& [id, of] : pubends_) {
    record.kind = RecordKind::kPubend;
    record.fields = {id, of.last, 0, of.released, 0, 0, {}};
    put(record);
    record.kind = RecordKind::kLost;
    for (const LogLoss& one : of.lost) {
      record.fields = {id, one.last, 0, one.first, one.found_ns, 0, {}};
      put(record);
    }
  }
  std::string bytes;
  record.kind = RecordKind::kPublisher;
  for (const auto& [key, of] : publishers_) {
    bytes.clear();
    Event before{0, 0};
    for (std::size_t i = 0; i < of.ring.size(); ++i) {
      const Event& event = of.at(i);
      put_varint(bytes, event.sequence - before.sequence);
      put_varint(bytes, event.tick - before.tick);
      before = event;
    }
    record.fields = {key.pubend, 0, key.publisher, 0, 0, 0, bytes};
    put(record);
  }
  record.kind = RecordKind::kPut;
  for (const auto& [key, value] : keys) {
    bytes = key;
    bytes += value;
    record.fields = {0, 0, 0, key.size(), 0, 0, bytes};
    put(record);
  }
}

u64 LogState::snapshot_bytes() const {
  constexpr u64 kEach = kRecordHead + 8, kWindowEvent = 6;
  u64 losses = 0;
  for (const auto& [id, of] : pubends_) losses += of.lost.size();
  return kGroupHead + kEach * (losses + pubends_.size() + publishers_.size() + keys.size()) + kWindowEvent * window_events_ + key_bytes_;
}

const LogState::Pubend* LogState::find_pubend(u64 id) const {
  const auto found = pubends_.find(id);
  return found == pubends_.end() ? nullptr : &found->second;
}

u64 LogState::last_sequence(u64 pubend, u64 publisher) const {
  const auto found = publishers_.find({pubend, publisher});
  return found == publishers_.end() ? 0 : found->second.newest().sequence;
}

u64 LogState::tick_of(u64 pubend, u64 publisher, u64 sequence) const {
  const auto found = publishers_.find({pubend, publisher});
  if (found == publishers_.end()) return 0;
  const Publisher& of = found->second;
  std::size_t low = 0, high = of.ring.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (of.at(middle).sequence < sequence) low = middle + 1;
    else high = middle;
  }
  return low < of.ring.size() && of.at(low).sequence == sequence ? of.at(low).tick : 0;
}

}  // namespace tidewire
