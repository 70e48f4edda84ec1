// The log of a broker: the events of all its pubends, one behind the other, and the small state that must outlive it.
#pragma once

#include "files.hpp"
#include "store.hpp"

namespace tidewire {

struct LogOptions {
  u64 id = 0;                          // of a log that is made (0: by chance); one that is opened has its own
  u64 segment_bytes = 64u << 20;       // of a file
  u32 group_bytes = 256u << 10;        // a group that has so many is sealed
  u64 backlog_bytes_max = 64u << 20;   // sealed and not durable; more is refused
  u64 cache_bytes = 16u << 20;         // durable groups that stay in memory for readers
  u32 inline_events_max = 16;          // `submit` commits so few on the caller's thread
  u32 publisher_window = 1024;         // events of each publisher whose ticks are known
  u64 window_events_max = 4u << 20;    // in all; beyond that the publishers that are idle longest keep the last one only
  u32 publishers_max = 100'000;        // beyond that those that are idle longest are forgotten
  u64 publisher_idle_ms = 86'400'000;  // and all that are idle longer than this, by the ticks of the log
  i64 opened_ns = 0;                   // since 1970: what may be lost at the end of the log is lost up to now (0: unknown)
  u32 key_bytes_max = 1024, value_bytes_max = 1u << 20;
};

// A place where bytes are not what was written.
struct LogDamage {
  std::string file;
  u64 offset, bytes;
  std::vector<LogGroup::Extent> lost;  // for each pubend the ticks that may be lost: first and last, both included
};

// What was found when the log was opened.
struct LogReport {
  bool is_new = false;
  u64 groups = 0, events = 0;  // that were read to know the state
  u64 cut_bytes = 0;           // behind the last group that was whole: never acknowledged
  std::string cut_file;
  std::vector<LogDamage> damage;
};

class Log final : public Store {
 public:
  // Opens or makes it. KernelError: store-locked, store-format (newer than this program), store-damaged (nothing in it can
  // be read), store-full, store-failed.
  Log(std::shared_ptr<Files> files, const LogOptions& options);
  ~Log() override;
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  const LogReport& report() const;
  u64 id() const;

  u64 append(const LogRecord& record) override;
  u64 put(std::string_view key, std::string_view value) override;
  u64 erase(std::string_view key) override;
  u64 advance(u64 pubend, u64 tick) override;
  u64 forget(u64 pubend) override;
  void release(u64 pubend, u64 tick) override;
  u64 seal() override;
  bool submit() override;
  std::vector<std::shared_ptr<const LogGroup>> take() override;
  u64 durable() const override;
  u64 waiting_events() const override;
  LogTrouble trouble() const override;
  std::string trouble_text() const override;
  std::optional<std::string> get(std::string_view key) const override;
  std::vector<std::pair<std::string, std::string>> items(std::string_view prefix) const override;
  std::vector<u64> pubends() const override;
  u64 last_tick(u64 pubend) const override;
  u64 durable_tick(u64 pubend) const override;
  u64 released_tick(u64 pubend) const override;
  std::vector<LogLoss> losses(u64 pubend) const override;
  u64 first_tick(u64 pubend, u64 from) const override;
  u64 last_sequence(u64 pubend, u64 publisher) const override;
  u64 tick_of(u64 pubend, u64 publisher, u64 sequence) const override;
  void read(u64 pubend, u64 from, u64 to, u64 bytes_max, LogPiece& piece) const override;
  u64 disk_bytes() const override;

  // These ticks of a pubend, both included, were here and are not: readers hear that they are lost. Its next tick is above them.
  u64 lose(u64 pubend, u64 first, u64 last);

  // Seals; everything is durable when this returns: one write and one sync. False: there is no room.
  bool commit();
  // The two halves of it, for who wants to be interrupted: what is sealed is written; what is written is synced.
  bool write();
  bool sync();

  // From now on threads of the log prepare segments and commit what is submitted. The eventfd is readable when something
  // has become durable, there is room again, or all is over; `take` makes it quiet.
  int start();
  // Durable to the last group, said so at the end of the log, closed. The destructor does nothing of that.
  void close();

  u64 publishers() const;  // that are known, in all pubends

  struct Segment {
    u64 number, bytes;
    std::vector<LogGroup::Extent> extents;
  };
  std::vector<Segment> segments() const;  // the oldest first; the last one is written to

  // Reads everything, and says what is damaged.
  std::vector<LogDamage> check() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tidewire
