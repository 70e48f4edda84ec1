// The log of a broker: the events of all its pubends, one behind the other, and the small state that must outlive it.
//
//   append, put, release ...   into the open group, in memory
//   seal                       closes the group
//   commit (or submit)         sealed groups go to the disk together: one write, one sync
//   take                       the groups that are durable now, to be acknowledged and sent on
//
// `append`, `seal`, `commit`, `take` and the like are for one thread; `read` may be called by any.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "files.hpp"
#include "log_record.hpp"

namespace tidewire {

struct LogOptions {
  u64 id = 0;                        // of a log that is made; one that is opened has its own
  u64 segment_bytes = 64u << 20;     // of a file
  u32 group_bytes = 256u << 10;      // a group that has so many is sealed
  u64 backlog_bytes_max = 64u << 20; // appended and not durable; more is refused
  u64 cache_bytes = 16u << 20;       // durable groups that stay in memory for readers
  u32 inline_events_max = 16;        // `submit` commits so few on the caller's thread
  u32 publisher_window = 1024;       // events of each publisher whose ticks are known
  u64 window_events_max = 4u << 20;  // in all; beyond that the publishers that are idle longest keep the last one only
  u32 publishers_max = 100'000;      // beyond that those that are idle longest are forgotten
  u64 publisher_idle_ms = 86'400'000;  // and all that are idle longer than this, by the ticks of the log
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

// Why there is no room right now.
enum class LogTrouble : u8 { kNone, kBehind, kPreparing, kFull, kFailed };

// A part of a pubend's stream. The views point into memory that the piece holds until it is filled again.
struct LogPiece {
  std::vector<LogRecord> records;  // by tick
  std::vector<TickRange> lost;     // were there and cannot be read: released, or damaged
  u64 next = 0;                    // everything below is settled: in `records`, in `lost`, or nothing was published

  void clear();

  std::vector<std::shared_ptr<const LogGroup>> groups;
  std::deque<Buffer<char>> buffers;
  std::size_t buffers_used = 0;
};

class Log {
 public:
  // Opens or makes it. KernelError: store-locked, store-format (newer than this program), store-damaged (nothing in it can
  // be read), store-full, store-failed.
  Log(std::shared_ptr<Files> files, const LogOptions& options);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  const LogReport& report() const;
  u64 id() const;

  // --- into the open group: its number. 0: there is no room right now, and nothing has changed; `trouble` says why, and
  // with threads the signal comes when it is worth another try. KernelError store-failed: never again.

  // Ticks of a pubend ascend, and so do the sequences of a publisher (0: nobody's) in a pubend.
  u64 append(const LogRecord& record);
  u64 put(std::string_view key, std::string_view value);
  u64 erase(std::string_view key);
  // The pubend's next tick is above this one: nothing was published up to it.
  u64 advance(u64 pubend, u64 tick);
  // The pubend is gone, with all that it had. Its id is not used again.
  u64 forget(u64 pubend);
  // What is below the tick is not needed any more. Segments in which nothing is needed are removed. Without room it is done
  // all the same, and may have to be done again after the log was opened anew.
  void release(u64 pubend, u64 tick);

  // Closes the open group; its number, or 0 if there is nothing in it.
  u64 seal();

  // --- to the disk

  // Seals; everything is durable when this returns. False: there is no room.
  bool commit();
  // The two halves of it: what is sealed is written; what is written is synced.
  bool write();
  bool sync();

  // From now on threads of the log prepare segments and commit what is submitted. The eventfd is readable when something
  // has become durable, there is room again, or all is over; `take` makes it quiet.
  int start();
  // Seals and commits: at once if few events wait and the thread is at rest (or there is none), else by the thread. True:
  // everything is durable already.
  bool submit();

  // The groups that have become durable since the last call, in order.
  std::vector<std::shared_ptr<const LogGroup>> take();

  u64 durable() const;          // the last group
  u64 waiting_events() const;   // appended, not durable
  LogTrouble trouble() const;
  std::string trouble_text() const;

  // Durable to the last group, said so at the end of the log, closed. The destructor does nothing of that.
  void close();

  // --- what is known, also of what is not durable yet

  std::optional<std::string> get(std::string_view key) const;
  std::vector<std::pair<std::string, std::string>> items(std::string_view prefix) const;

  std::vector<u64> pubends() const;
  u64 last_tick(u64 pubend) const;      // 0: none
  u64 durable_tick(u64 pubend) const;   // of the last event that is durable, or what `advance` said and is durable
  u64 released_tick(u64 pubend) const;  // what is below is not needed
  u64 first_tick(u64 pubend) const;     // of the first event that is kept; 0: none is

  // 0: nothing is known of the publisher.
  u64 last_sequence(u64 pubend, u64 publisher) const;
  // The tick that the event got; 0: it is new, or too old to be known (then its sequence is below the last one).
  u64 tick_of(u64 pubend, u64 publisher, u64 sequence) const;
  u64 publishers() const;

  // --- reading what is durable

  // Events with ticks in [from, to), as many as have at least so many bytes, or all.
  void read(u64 pubend, u64 from, u64 to, u64 bytes_max, LogPiece& piece) const;

  // --- the disk

  struct Segment {
    u64 number, bytes;
    std::vector<LogGroup::Extent> extents;
  };
  std::vector<Segment> segments() const;  // the oldest first; the last one is written to
  u64 disk_bytes() const;                 // with what is prepared

  // Reads everything, and says what is damaged.
  std::vector<LogDamage> check() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tidewire
