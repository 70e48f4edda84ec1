// The way to the disk: groups are written in runs, the groups of a segment that are ready, and synced; then they are durable.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "log_parts.hpp"

namespace tidewire {

namespace {

constexpr auto kRetry = std::chrono::milliseconds(500);  // on a disk that is full
constexpr std::size_t kSpareGroups = 64;

}  // namespace

Log::Parts::~Parts() {
  stop();
  if (event >= 0) ::close(event);
}

void Log::Parts::throw_failure() const {
  const std::lock_guard guard(mutex);
  throw KernelError("store-failed", "the log in " + files->place() + " has failed and takes nothing any more: " + failure +
                                        "; what was acknowledged is safe if the disk is; mend it and start again");
}

GroupPointer Log::Parts::fresh_group() {
  const std::lock_guard guard(mutex);
  if (spare.empty()) return std::make_shared<LogGroup>();
  GroupPointer group = std::move(spare.back());
  spare.pop_back();
  return group;
}

// A disk that has failed to sync may have thrown the pages away and say next time that all is well. So nothing is tried
// again: what is on the disk is found out by opening the log.
void Log::Parts::fail(const std::string& why) {
  failure = why;
  has_failed = true;
  signal();
}

void Log::Parts::signal() {
  if (event < 0 || is_signalled) return;
  is_signalled = true;
  const u64 one = 1;
  [[maybe_unused]] const ssize_t sent = ::write(event, &one, sizeof one);  // cannot fail: it is 0 or 1
}

void Log::Parts::take_batch() {
  batch.insert(batch.end(), std::make_move_iterator(sealed.begin()), std::make_move_iterator(sealed.end()));
  sealed.clear();
}

// What of the batch can be written before the next sync: a segment is complete on the disk before the next one is begun.
bool Log::Parts::write_run(Lock& held) {
  const u64 number = batch.front()->segment;
  std::vector<GroupPointer> run;
  for (const GroupPointer& group : batch)
    if (group->segment == number) run.push_back(group);
    else break;
  const std::shared_ptr<File> file = segments.at(number)->file;
  const u64 durable_before = durable;
  is_writing = true;
  held.unlock();
  std::string problem;
  bool is_no_room = false;
  try {
    std::vector<std::string_view> pieces;
    for (const GroupPointer& group : run) {
      group->finish(id, durable_before, life);
      pieces.push_back(group->bytes());
    }
    file->write_at(run.front()->offset, pieces);
  } catch (const FileError& error) {
    problem = error.what();
    is_no_room = error.is_full();
  }
  held.lock();
  is_writing = false;
  rest.notify_all();
  if (problem.empty()) {
    batch.erase(batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(run.size()));
    written.insert(written.end(), run.begin(), run.end());
    return true;
  }
  if (!is_no_room) return fail(problem), false;
  lacks_room = true;
  failure = problem;
  return false;
}

bool Log::Parts::sync_run(Lock& held) {
  const std::shared_ptr<LogSegment> to = segments.at(written.front()->segment);
  is_writing = true;
  held.unlock();
  std::string problem;
  try {
    to->file->sync();
  } catch (const FileError& error) {
    problem = error.what();
  }
  held.lock();
  is_writing = false;
  rest.notify_all();
  if (!problem.empty()) return fail(problem), false;
  lacks_room = false;
  for (const GroupPointer& group : written) become_durable(group);
  written.clear();
  return true;
}

bool Log::Parts::run_batch(Lock& held) {
  while (!batch.empty() || !written.empty()) {
    const bool fits = !batch.empty() && (written.empty() || written.back()->segment == batch.front()->segment);
    if (fits && !write_run(held)) return false;
    if (!sync_run(held)) return false;
  }
  return true;
}

void Log::Parts::become_durable(const GroupPointer& group) {
  durable = group->number;
  backlog_bytes -= group->size();
  waiting_events -= group->events;
  for (const LogGroup::Extent& extent : group->extents) known[extent.pubend].durable = extent.last;
  for (const auto& [pubend, tick] : group->advances) known[pubend].durable = std::max(known[pubend].durable, tick);
  for (const LogGroup::Extent& loss : group->losses) {
    Known& of = known[loss.pubend];
    of.durable = std::max(of.durable, loss.last);
    of.lost.add(loss.first, loss.last + 1);
  }
  for (const auto& [pubend, tick] : group->releases) known[pubend].durable_released = tick;
  if (!group->releases.empty()) may_remove = true;
  LogSegment& to = *segments.at(group->segment);
  to.index->add(group->offset, group->size(), group->extents);
  if (group->is_snapshot) {
    const auto before = segments.find(group->segment - 1);
    if (before != segments.end()) close_segment(before->second);
  } else if (group->records > 0) {
    done.push_back(group);
  }
  keep_in_cache(group);
}

void Log::Parts::close_segment(const std::shared_ptr<LogSegment>& one) {
  one->extents = one->index->extents();
  one->suspects = one->index->suspects();
  one->is_closed = true;
  may_remove = true;
  loaded_indexes.push_back(one->number);
  to_index.push_back(one);
  chores.notify_one();
}

// Groups that nobody holds any more give their memory to the next ones.
void Log::Parts::keep_in_cache(const GroupPointer& group) {
  cache.push_back(group);
  cache_bytes += group->capacity();
  while (cache_bytes > options.cache_bytes && !cache.empty()) {
    GroupPointer oldest = std::move(cache.front());
    cache.pop_front();
    cache_bytes -= oldest->capacity();
    const bool is_usual = oldest->capacity() <= 2 * std::size_t{options.group_bytes};
    if (oldest.use_count() != 1 || spare.size() >= kSpareGroups || !is_usual) continue;
    std::atomic_thread_fence(std::memory_order_acquire);  // who held it has read it to the end
    spare.push_back(std::move(oldest));
  }
}

bool Log::Parts::commit() {
  check_open();
  seal();
  Lock held(mutex);
  rest.wait(held, [&] { return !is_writing; });
  take_batch();
  const bool is_done = run_batch(held);
  if (!has_threads) do_all_chores(held);
  if (!has_failed) return is_done;
  held.unlock();
  throw_failure();
}

bool Log::Parts::write() {
  check_open();
  Lock held(mutex);
  rest.wait(held, [&] { return !is_writing; });
  take_batch();
  bool is_done = true;
  if (!batch.empty() && (written.empty() || written.back()->segment == batch.front()->segment)) is_done = write_run(held);
  if (!has_failed) return is_done;
  held.unlock();
  throw_failure();
}

bool Log::Parts::sync() {
  check_open();
  Lock held(mutex);
  rest.wait(held, [&] { return !is_writing; });
  const bool is_done = run_batch(held);
  if (!has_threads) do_all_chores(held);
  if (!has_failed) return is_done;
  held.unlock();
  throw_failure();
}

bool Log::Parts::submit() {
  check_open();
  seal();
  Lock held(mutex);
  if (sealed.empty() && batch.empty() && written.empty() && !is_writing) return true;
  const bool is_at_rest = !is_writing && batch.empty() && written.empty();
  if (!has_threads || (is_at_rest && waiting_events <= options.inline_events_max)) {
    held.unlock();
    return commit();
  }
  has_submitted = true;
  work.notify_one();
  return false;
}

std::vector<std::shared_ptr<const LogGroup>> Log::Parts::take() {
  std::vector<std::shared_ptr<const LogGroup>> groups;
  bool removes = false;
  {
    const std::lock_guard guard(mutex);
    groups.assign(done.begin(), done.end());
    done.clear();
    removes = may_remove;
    if (is_signalled) {
      u64 count = 0;
      [[maybe_unused]] const ssize_t got = ::read(event, &count, sizeof count);
      is_signalled = false;
    }
  }
  if (removes) remove_released();
  return groups;
}

int Log::Parts::start() {
  check_open();
  if (has_threads) return event;
  event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (event < 0) throw KernelError("unavailable", "no eventfd: " + std::string(std::strerror(errno)));
  {
    const std::lock_guard guard(mutex);
    has_threads = true;
    prepared_bytes = segment_bytes_for(state.snapshot_bytes());
    wants_segment = true;
  }
  committer = std::thread([this] { commit_loop(); });
  keeper = std::thread([this] { keep_loop(); });
  return event;
}

void Log::Parts::stop() {
  if (!has_threads) return;
  {
    const std::lock_guard guard(mutex);
    is_stopping = true;
    work.notify_all();
    chores.notify_all();
  }
  committer.join();
  keeper.join();
  const std::lock_guard guard(mutex);
  has_threads = is_stopping = false;
}

void Log::Parts::commit_loop() {
  Lock held(mutex);
  for (;;) {
    work.wait(held, [&] { return is_stopping || (has_submitted && !is_writing && !has_failed); });
    if (is_stopping) return;
    has_submitted = false;
    take_batch();
    const bool is_done = run_batch(held);
    signal();
    if (is_done || has_failed) continue;
    has_submitted = true;
    work.wait_for(held, kRetry, [&] { return is_stopping; });
  }
}

}  // namespace tidewire
