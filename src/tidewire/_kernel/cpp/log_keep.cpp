// What is done beside the commits: the next segment is prepared, indexes are written, old segments are removed. By a thread, or,
// if there is none, by the owner where it needs it.
#include <algorithm>
#include <chrono>

#include "log_parts.hpp"

namespace tidewire {

namespace {

constexpr auto kRetry = std::chrono::milliseconds(500);  // on a disk that is full

}  // namespace

// A snapshot is at most a fourth of the segment that it begins.
u64 Log::Parts::segment_bytes_for(u64 snapshot_bytes) const {
  return std::max(options.segment_bytes, (4 * snapshot_bytes + 4095) / 4096 * 4096);
}

std::shared_ptr<LogSegment> Log::Parts::create_segment(u64 number, u64 bytes) {
  auto made = std::make_shared<LogSegment>();
  made->number = number;
  made->bytes = bytes;
  made->file = files->create(segment_name(number), bytes, segment_head(id, number, bytes));
  made->index = std::make_shared<LogIndex>();
  return made;
}

// Is there a segment of so many bytes to go on with? If the thread is to make it, not yet.
bool Log::Parts::take_prepared(u64 bytes) {
  Lock held(mutex);
  if (prepared != nullptr && prepared->bytes < bytes) prepared = nullptr;  // what is made replaces it
  if (prepared != nullptr) return true;
  prepared_bytes = bytes;
  wants_segment = true;
  if (has_threads) {
    chores.notify_one();
    return false;
  }
  prepare(held);
  return prepared != nullptr;
}

void Log::Parts::prepare(Lock& held) {
  const u64 number = segments.rbegin()->first + 1, bytes = prepared_bytes;
  held.unlock();
  std::shared_ptr<LogSegment> made;
  std::string problem;
  try {
    made = create_segment(number, bytes);
  } catch (const FileError& error) {
    problem = error.what();
  }
  held.lock();
  lacks_segment = made == nullptr;
  if (made == nullptr) {
    failure = problem;
    return;
  }
  prepared = std::move(made);
  wants_segment = false;
  if (wants_room) signal();
}

void Log::Parts::write_index(const LogSegment& one, const LogIndex& index) noexcept {
  try {
    const std::string bytes = index.encoded(id, one.number);
    files->create(index_name(one.number), bytes.size(), bytes);
  } catch (const FileError&) {
    // It is made again from the segment when it is needed.
  }
}

void Log::Parts::remove_segment(u64 number) noexcept {
  try {
    files->remove(index_name(number));
    files->remove(segment_name(number));
  } catch (const FileError&) {
    // It is found, and removed, when the log is opened the next time.
  }
}

// Old ones go first: that makes room.
void Log::Parts::do_chores(Lock& held) {
  while (!to_remove.empty() || !to_index.empty()) {
    if (!to_remove.empty()) {
      const u64 number = to_remove.front();
      to_remove.pop_front();
      held.unlock();
      remove_segment(number);
      held.lock();
      continue;
    }
    const std::shared_ptr<LogSegment> one = std::move(to_index.front());
    to_index.pop_front();
    const std::shared_ptr<const LogIndex> index = one->index;
    if (index == nullptr || !segments.contains(one->number)) continue;
    held.unlock();
    write_index(*one, *index);
    held.lock();
    if (!segments.contains(one->number)) to_remove.push_back(one->number);  // it was removed meanwhile
  }
}

// Without threads: there may be room by now for the segment that somebody waits for.
void Log::Parts::do_all_chores(Lock& held) {
  do_chores(held);
  if (wants_segment && prepared == nullptr) prepare(held);
}

void Log::Parts::keep_loop() {
  Lock held(mutex);
  for (;;) {
    const auto has_chores = [&] { return !to_remove.empty() || !to_index.empty(); };
    chores.wait(held, [&] { return is_stopping || has_chores() || (wants_segment && prepared == nullptr); });
    if (is_stopping) return;
    do_chores(held);
    if (!wants_segment || prepared != nullptr) continue;
    prepare(held);
    if (prepared == nullptr) chores.wait_for(held, kRetry, [&] { return is_stopping || has_chores(); });
  }
}

}  // namespace tidewire
