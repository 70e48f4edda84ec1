#include "files_memory.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

namespace tidewire {

namespace {

using Page = std::array<char, MemoryFiles::kPage>;
using Pages = std::map<u64, Page>;  // by number; a page that is not there is all zeros

// A small generator, so that a seed gives the same loss everywhere.
struct Chance {
  u64 state;
  u64 next() { return hash_u64(state += 0x9E3779B97F4A7C15ULL, kMix0); }
  u64 below(u64 end) { return next() % end; }
};

void copy_out(const Pages& pages, u64 page, u32 first, char* to, u32 count) {
  const auto found = pages.find(page);
  if (found == pages.end()) std::memset(to, 0, count);
  else std::memcpy(to, found->second.data() + first, count);
}

// call(page, first byte in it, how many) for each page that a range touches.
template <class Call>
void each_page(u64 offset, std::size_t count, Call call) {
  while (count > 0) {
    const u32 first = static_cast<u32>(offset % MemoryFiles::kPage);
    const u32 here = static_cast<u32>(std::min<std::size_t>(count, MemoryFiles::kPage - first));
    call(offset / MemoryFiles::kPage, first, here);
    offset += here;
    count -= here;
  }
}

}  // namespace

struct MemoryFiles::Content {
  u64 size;
  Pages durable, dirty;

  Page& dirty_page(u64 number) {
    const auto found = dirty.find(number);
    if (found != dirty.end()) return found->second;
    Page fresh;
    copy_out(durable, number, 0, fresh.data(), kPage);
    return dirty.emplace(number, fresh).first->second;
  }
  void put(u64 offset, std::string_view bytes) {
    each_page(offset, bytes.size(), [&](u64 page, u32 first, u32 count) {
      std::memcpy(dirty_page(page).data() + first, bytes.data(), count);
      bytes.remove_prefix(count);
    });
  }
  void sync() {
    for (auto& [number, page] : dirty) durable[number] = page;
    dirty.clear();
  }
  void crash(Chance& chance) {
    for (auto& [number, page] : dirty) {
      const u64 fate = chance.below(3);
      if (fate == 0) continue;
      Page kept;
      copy_out(durable, number, 0, kept.data(), kPage);
      for (u32 at = 0; at < kPage; at += kSector)
        if (fate == 1 || chance.below(2) == 0) std::memcpy(kept.data() + at, page.data() + at, kSector);
      durable[number] = kept;
    }
    dirty.clear();
  }
};

struct MemoryFiles::Shared {
  struct Fault {
    int error = 0;
    u64 after = 0;
  };
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Content>> files;
  std::map<std::string, Fault> faults;
  u64 capacity = ~u64{0}, writes = 0, syncs = 0, crashes = 0;
  bool is_locked = false, lies = false;

  void may_fail(const std::string& kind) {
    const auto found = faults.find(kind);
    if (found == faults.end() || found->second.error == 0) return;
    if (found->second.after > 0) --found->second.after;
    else throw FileError(found->second.error, kind + " in memory");
  }
  u64 used() const {
    u64 sum = 0;
    for (const auto& [name, content] : files) sum += content->size;
    return sum;
  }
  Content& at(const std::string& name) const {
    const auto found = files.find(name);
    if (found == files.end()) throw FileError(ENOENT, name + " in memory");
    return *found->second;
  }
};

// After a crash an open file is a thing of the past: it fails.
class MemoryFiles::Handle final : public File {
 public:
  Handle(std::shared_ptr<Shared> shared, std::shared_ptr<Content> content)
      : shared_(std::move(shared)), content_(std::move(content)), crashes_(shared_->crashes) {}

  u64 size() const override { return content_->size; }

  void write_at(u64 offset, std::span<const std::string_view> pieces) override {
    const std::lock_guard guard(shared_->mutex);
    check();
    shared_->may_fail("write");
    ++shared_->writes;
    for (const std::string_view piece : pieces) {
      if (offset + piece.size() > content_->size) throw FileError(EFBIG, "a write behind the end of a file in memory");
      content_->put(offset, piece);
      offset += piece.size();
    }
  }

  void sync() override {
    const std::lock_guard guard(shared_->mutex);
    check();
    shared_->may_fail("sync");
    ++shared_->syncs;
    if (!shared_->lies) content_->sync();
  }

  void read_at(u64 offset, char* to, std::size_t count) const override {
    const std::lock_guard guard(shared_->mutex);
    check();
    shared_->may_fail("read");
    if (offset + count > content_->size) throw FileError(ENODATA, "a read behind the end of a file in memory");
    each_page(offset, count, [&](u64 page, u32 first, u32 here) {
      const bool is_dirty = content_->dirty.contains(page);
      copy_out(is_dirty ? content_->dirty : content_->durable, page, first, to, here);
      to += here;
    });
  }

 private:
  void check() const {
    if (crashes_ != shared_->crashes) throw FileError(ESTALE, "a file of before the crash");
  }

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Content> content_;
  u64 crashes_;
};

MemoryFiles::MemoryFiles() : shared_(std::make_shared<Shared>()) {}
MemoryFiles::~MemoryFiles() = default;

std::shared_ptr<void> MemoryFiles::lock() {
  const std::lock_guard guard(shared_->mutex);
  if (shared_->is_locked) throw KernelError("store-locked", "another log uses these files in memory; close it first");
  shared_->is_locked = true;
  return {nullptr, [shared = shared_, crashes = shared_->crashes](void*) {
            const std::lock_guard again(shared->mutex);
            if (shared->crashes == crashes) shared->is_locked = false;  // else it is somebody else's by now
          }};
}

std::vector<Files::Entry> MemoryFiles::list() const {
  const std::lock_guard guard(shared_->mutex);
  std::vector<Entry> found;
  for (const auto& [name, content] : shared_->files) found.push_back({name, content->size});
  return found;
}

std::shared_ptr<File> MemoryFiles::create(const std::string& name, u64 size, std::string_view head) {
  const std::lock_guard guard(shared_->mutex);
  shared_->may_fail("create");
  const auto old = shared_->files.find(name);
  const u64 replaced = old == shared_->files.end() ? 0 : old->second->size;
  if (shared_->used() - replaced + size > shared_->capacity) throw FileError(ENOSPC, name + " in memory");
  auto made = std::make_shared<Content>();
  made->size = size;
  made->put(0, head);
  made->sync();
  shared_->files[name] = made;
  return std::make_shared<Handle>(shared_, made);
}

std::shared_ptr<File> MemoryFiles::open(const std::string& name) {
  const std::lock_guard guard(shared_->mutex);
  shared_->at(name);
  return std::make_shared<Handle>(shared_, shared_->files[name]);
}

void MemoryFiles::remove(const std::string& name) {
  const std::lock_guard guard(shared_->mutex);
  shared_->files.erase(name);
}

void MemoryFiles::crash(u64 seed) {
  const std::lock_guard guard(shared_->mutex);
  Chance chance{seed};
  ++shared_->crashes;
  shared_->is_locked = false;
  for (auto& [name, content] : shared_->files) content->crash(chance);
}

void MemoryFiles::set_capacity(u64 bytes) {
  const std::lock_guard guard(shared_->mutex);
  shared_->capacity = bytes;
}

void MemoryFiles::fail(const std::string& kind, int error, u64 after) {
  if (kind != "write" && kind != "sync" && kind != "create" && kind != "read")
    throw KernelError("usage", "files fail to write, sync, create or read, not to '" + kind + "'");
  const std::lock_guard guard(shared_->mutex);
  shared_->faults[kind] = {error, after};
}

void MemoryFiles::lie(bool lies) {
  const std::lock_guard guard(shared_->mutex);
  shared_->lies = lies;
}

void MemoryFiles::damage(const std::string& name, u64 offset, std::string_view bytes) {
  const std::lock_guard guard(shared_->mutex);
  Content& content = shared_->at(name);
  if (offset > content.size || bytes.size() > content.size - offset)
    throw KernelError("usage", "there are no such bytes to damage");
  each_page(offset, bytes.size(), [&](u64 page, u32 first, u32 count) {
    for (Pages* pages : {&content.durable, &content.dirty}) {
      const auto found = pages->find(page);
      if (found == pages->end() && pages == &content.dirty) continue;
      std::memcpy((*pages)[page].data() + first, bytes.data(), count);
    }
    bytes.remove_prefix(count);
  });
}

std::string MemoryFiles::content(const std::string& name) const {
  const std::lock_guard guard(shared_->mutex);
  const Content& content = shared_->at(name);
  std::string all(content.size, '\0');
  for (const Pages* pages : {&content.durable, &content.dirty})
    for (const auto& [number, page] : *pages)
      std::memcpy(all.data() + number * kPage, page.data(), std::min<u64>(kPage, content.size - number * kPage));
  return all;
}

u64 MemoryFiles::writes() const {
  const std::lock_guard guard(shared_->mutex);
  return shared_->writes;
}

u64 MemoryFiles::syncs() const {
  const std::lock_guard guard(shared_->mutex);
  return shared_->syncs;
}

u64 MemoryFiles::unsynced_pages() const {
  const std::lock_guard guard(shared_->mutex);
  u64 sum = 0;
  for (const auto& [name, content] : shared_->files) sum += content->dirty.size();
  return sum;
}

}  // namespace tidewire
