// The inside of the log. Two sorts of things: what only the thread of the log's owner touches, and what is shared with the
// log's own threads and with readers, under one mutex that is never held while the disk works.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "log.hpp"
#include "log_segment.hpp"
#include "log_state.hpp"
#include "spans.hpp"

namespace tidewire {

struct LogSegment {
  u64 number = 0, bytes = 0;
  std::shared_ptr<File> file;
  // All below is shared.
  u64 written = kSegmentHead;               // behind the last group that is durable
  std::shared_ptr<LogIndex> index;          // nullptr: it is in its file
  std::vector<LogGroup::Extent> extents;    // of a closed one
  std::vector<LogIndex::Block> suspects;    // of a closed one
  bool is_closed = false;
};

using GroupPointer = std::shared_ptr<LogGroup>;

struct Log::Parts {
  Parts(std::shared_ptr<Files> files_, const LogOptions& options_);
  ~Parts();

  // --- log_open.cpp
  void open();

  // --- log.cpp, the owner's
  u64 add(const RawRecord& record);
  bool make_room(std::size_t bytes, bool is_event);
  bool begin_segment();
  void begin_group();
  u64 seal();
  // A group without records: all before it is durable.
  void mark();
  void note_extent(const LogRecord& record, LogState::Pubend& of);
  void remove_released();
  // Writes down what is lost; false: there is no room.
  bool lose(u64 pubend, u64 first, u64 last);
  bool is_released(const LogSegment& segment, bool is_first) const;
  void check_open() const;
  [[noreturn]] void throw_failure() const;

  // --- log_commit.cpp
  GroupPointer fresh_group();
  bool commit();
  bool write();
  bool sync();
  bool submit();
  int start();
  void stop();
  void signal();
  std::vector<std::shared_ptr<const LogGroup>> take();
  bool take_prepared(u64 bytes);
  std::shared_ptr<LogSegment> create_segment(u64 number, u64 bytes);
  u64 segment_bytes_for(u64 snapshot_bytes) const;
  void close_segment(const std::shared_ptr<LogSegment>& one);
  void write_index(const LogSegment& one, const LogIndex& index) noexcept;
  void remove_segment(u64 number) noexcept;

  // --- log_read.cpp
  void read(u64 pubend, u64 from, u64 to, u64 bytes_max, LogPiece& piece);
  std::shared_ptr<LogIndex> load_index(const LogSegment& segment) const;

  const std::shared_ptr<Files> files;
  const LogOptions options;
  std::shared_ptr<void> lock;
  LogReport report;
  u64 id = 0;
  u32 life = 0;

  // The owner's.
  LogState state;
  GroupPointer open_group;       // nullptr: nothing has been added since the last one
  u64 next_number = 1;           // of the open group
  u64 segment = 0, offset = 0;   // where the open group begins
  u64 segment_size = 0;
  bool is_closed = false, is_refused = false;

  // Shared.
  mutable std::mutex mutex;
  std::condition_variable work, chores, rest;  // for the committer; for the keeper; the disk is at rest
  struct Known {
    u64 durable = 0, released = 0, durable_released = 0;
    Spans lost;    // as the log says
    Spans doubts;  // that readers met beside, in this life
  };
  std::map<u64, Known> known;                             // by pubend
  std::map<u64, std::shared_ptr<LogSegment>> segments;    // by number
  std::deque<GroupPointer> sealed, batch, written, done;  // on their way, in order
  std::deque<GroupPointer> cache;
  u64 cache_bytes = 0;
  std::vector<GroupPointer> spare;
  std::deque<u64> loaded_indexes;
  u64 durable = 0, waiting_events = 0;
  std::atomic<u64> backlog_bytes = 0;      // sealed and not durable
  std::atomic<bool> has_failed = false;
  bool is_writing = false;                 // somebody is at the disk with `batch` and `written`
  bool lacks_segment = false;              // there is no room to make the next one
  bool lacks_room = false;                 // there is none where the file should have it: nothing can be written
  std::string failure;                     // why not, or why all is over
  std::shared_ptr<LogSegment> prepared;
  u64 prepared_bytes = 0;                  // how large the next one must be
  bool wants_segment = false, has_submitted = false, wants_room = false, may_remove = false;
  std::deque<u64> to_remove;
  std::deque<std::shared_ptr<LogSegment>> to_index;
  bool is_stopping = false, has_threads = false, is_signalled = false;
  int event = -1;
  std::thread committer, keeper;

 private:
  using Lock = std::unique_lock<std::mutex>;

  bool write_run(Lock& lock);
  bool sync_run(Lock& lock);
  bool run_batch(Lock& lock);
  void become_durable(const GroupPointer& group);
  void keep_in_cache(const GroupPointer& group);
  void take_batch();
  void fail(const std::string& why);
  void do_chores(Lock& lock);
  void do_all_chores(Lock& lock);
  void commit_loop();
  void keep_loop();
  void prepare(Lock& lock);

  // log_open.cpp
  struct Found;
  void create_new();
  void find_files(Found& found);
  u64 find_id(Found& found);
  void scan_end(Found& found);
  void scan_back(Found& found);
  void replay(Found& found);
  void adopt(LogSegment& one, LogIndex index, bool closes);
  void adopt_older(Found& found);
  bool has_lost_end(const Found& found);
  bool lacks_tail(Found& found, u64 number, SegmentScan& scan);
  void settle_older(Found& found, u64 number, SegmentScan& scan);
  void mend_head(LogSegment& one);
  void account_for_missing(Found& found);
  void write_losses(Found& found);
  void begin_life(Found& found);
  std::map<u64, u64> ticks_at_start(Found& found, u64 number);

  // log_read.cpp
  struct Walk;
  struct Step;
  std::vector<Step> plan(Walk& walk);
  bool plan_segment(Walk& walk, LogSegment& one, std::vector<Step>& steps);
  std::vector<GroupPointer> cached(u64 segment, u64 offset, u64 end) const;
  void need_index(LogSegment& one, Lock& lock);
};

}  // namespace tidewire
