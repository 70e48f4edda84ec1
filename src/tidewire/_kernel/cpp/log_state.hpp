// What the log knows beside the events: keys with their values, how far each pubend is, and the last events of each publisher.
// It follows from the records alone: who applies the same ones in the same order knows the same.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "log_record.hpp"

namespace tidewire {

class LogState {
 public:
  // More losses of a pubend are told as one.
  static constexpr std::size_t kLossesMax = 64;

  struct Pubend {
    u64 last = 0, released = 0;
    std::vector<LogLoss> lost;  // sorted, apart from each other
    // Where its events stand in the open group (of the log; not in a snapshot).
    u64 group = 0;
    u32 extent = 0;
  };
  struct Bounds {
    u32 publisher_window;
    u64 window_events_max;
    u32 publishers_max;
    u64 publisher_idle_ms;
  };

  explicit LogState(const Bounds& bounds) : bounds_(bounds) {}

  // False: a record of a kind that is unknown, or that cannot be right.
  bool apply(const RawRecord& record);
  // Publishers are forgotten here, when a segment begins, and nowhere else: first those that are idle for long by the ticks
  // of the log, then, of too many, those that are idle longest.
  void tidy();
  // All of it as records, and about how many bytes these have.
  void snapshot(const std::function<void(const RawRecord&)>& put) const;
  u64 snapshot_bytes() const;

  std::map<std::string, std::string, std::less<>> keys;

  Pubend& pubend(u64 id) {
    if (last_pubend_ != nullptr && last_pubend_->first == id) return last_pubend_->second;
    last_pubend_ = &*pubends_.try_emplace(id).first;
    return last_pubend_->second;
  }
  const Pubend* find_pubend(u64 id) const;
  const std::map<u64, Pubend>& pubends() const { return pubends_; }
  u64 newest_tick() const { return newest_; }

  u64 last_sequence(u64 pubend, u64 publisher) const;
  u64 tick_of(u64 pubend, u64 publisher, u64 sequence) const;
  u64 publishers() const { return publishers_.size(); }

  // Is the tick above the pubend's last one, and the sequence above the publisher's?
  bool follows(const LogRecord& record);
  // The same as `apply` of an event that follows.
  void note_event(const LogRecord& record, Pubend& of);

 private:
  struct Event {
    u64 sequence, tick;
  };
  // The last events of a publisher in a pubend: a ring once there are as many as are kept.
  struct Publisher {
    std::vector<Event> ring;
    u32 oldest = 0;

    const Event& newest() const { return ring[oldest == 0 ? ring.size() - 1 : oldest - 1]; }
    const Event& at(std::size_t i) const { return ring[(oldest + i) % ring.size()]; }
  };
  struct Key {
    u64 pubend, publisher;
    bool operator==(const Key&) const = default;
  };
  struct HashKey {
    std::size_t operator()(const Key& key) const { return hash_u64(key.publisher, key.pubend); }
  };
  using Publishers = std::unordered_map<Key, Publisher, HashKey>;

  void add_event(Publisher& to, const Event& event);
  void keep_newest(Publisher& of);
  void forget_pubend(u64 pubend);
  void note_loss(const LogRecord& record);
  bool put_key(const RawRecord& record);
  bool load_publisher(const LogRecord& fields);

  Bounds bounds_;
  std::map<u64, Pubend> pubends_;
  std::pair<const u64, Pubend>* last_pubend_ = nullptr;
  Publishers publishers_;
  Publishers::value_type* last_publisher_ = nullptr;
  u64 newest_ = 0, window_events_ = 0, key_bytes_ = 0;
};

}  // namespace tidewire
