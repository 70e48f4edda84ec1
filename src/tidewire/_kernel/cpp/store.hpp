// What guaranteed delivery asks of its store. The log is one; a replicated log of somebody else's could be another.
//
//   append, put, release ...   into the open group, in memory
//   submit                     the group is closed, and goes to the disk together with others
//   take                       the groups that are durable now, to be acknowledged and sent on
//
// All is for one thread, the owner's; `read` may be called by any.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "log_record.hpp"

namespace tidewire {

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

class Store {
 public:
  virtual ~Store() = default;

  // --- into the open group: its number. 0: there is no room right now, and nothing has changed; `trouble` says why, and
  // with threads the signal comes when it is worth another try. KernelError store-failed: never again.

  // Ticks of a pubend ascend, and so do the sequences of a publisher (0: nobody's) in a pubend.
  virtual u64 append(const LogRecord& record) = 0;
  virtual u64 put(std::string_view key, std::string_view value) = 0;
  virtual u64 erase(std::string_view key) = 0;
  // The pubend's next tick is above this one: nothing was published up to it.
  virtual u64 advance(u64 pubend, u64 tick) = 0;
  // The pubend is gone, with all that it had. Its id is not used again.
  virtual u64 forget(u64 pubend) = 0;
  // What is below the tick is not needed any more, and its room may be used. Without room to write this down it is done all the
  // same, and may have to be done again after the store was opened anew.
  virtual void release(u64 pubend, u64 tick) = 0;

  // Closes the open group; its number, or 0 if there is nothing in it.
  virtual u64 seal() = 0;
  // Seals, and makes durable: at once if few events wait, else by a thread. True: everything is durable already.
  virtual bool submit() = 0;
  // The groups that have become durable since the last call, in order.
  virtual std::vector<std::shared_ptr<const LogGroup>> take() = 0;

  virtual u64 durable() const = 0;         // the last group
  virtual u64 waiting_events() const = 0;  // appended, not durable
  virtual LogTrouble trouble() const = 0;
  virtual std::string trouble_text() const = 0;

  // --- what is known, also of what is not durable yet

  virtual std::optional<std::string> get(std::string_view key) const = 0;
  virtual std::vector<std::pair<std::string, std::string>> items(std::string_view prefix) const = 0;

  virtual std::vector<u64> pubends() const = 0;
  virtual u64 last_tick(u64 pubend) const = 0;      // 0: none
  virtual u64 durable_tick(u64 pubend) const = 0;   // of the last event that is durable, or what `advance` said and is durable
  virtual u64 released_tick(u64 pubend) const = 0;  // what is below is not needed
  // What is known to be lost, and not released.
  virtual std::vector<LogLoss> losses(u64 pubend) const = 0;
  // Of the first event that is kept, from this tick on (`tick_of_ms`: from a time on); 0: none is.
  virtual u64 first_tick(u64 pubend, u64 from) const = 0;

  // 0: nothing is known of the publisher.
  virtual u64 last_sequence(u64 pubend, u64 publisher) const = 0;
  // The tick that the event got; 0: it is new, or too old to be known (then its sequence is below the last one).
  virtual u64 tick_of(u64 pubend, u64 publisher, u64 sequence) const = 0;

  // --- reading what is durable

  // Events with ticks in [from, to), until they have at least so many bytes, or all. What is read with them comes with them.
  virtual void read(u64 pubend, u64 from, u64 to, u64 bytes_max, LogPiece& piece) const = 0;

  virtual u64 disk_bytes() const = 0;
};

}  // namespace tidewire
