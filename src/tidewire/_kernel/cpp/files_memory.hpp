// Files in memory, for simulations and tests: they forget, tear, fill up, fail and lie when they are told to.
#pragma once

#include <map>
#include <mutex>

#include "files.hpp"

namespace tidewire {

class MemoryFiles final : public Files {
 public:
  static constexpr u32 kPage = 4096, kSector = 512;

  std::string place() const override { return "memory"; }
  std::shared_ptr<void> lock() override;
  std::vector<Entry> list() const override;
  std::shared_ptr<File> create(const std::string& name, u64 size, std::string_view head) override;
  std::shared_ptr<File> open(const std::string& name) override;
  void remove(const std::string& name) override;

  // The power goes: of what was not synced each page is kept, lost or torn between sectors, by chance. Whoever had files
  // open has them no more: a log is to be opened again.
  void crash(u64 seed);
  // Room for so many bytes in all; what is there already stays.
  void set_capacity(u64 bytes);
  // Of the calls of this kind (write, sync, create, read), the one after `after` more fails, and all that follow; until told
  // otherwise by error 0.
  void fail(const std::string& kind, int error, u64 after);
  // A sync says that it is done and does nothing.
  void lie(bool lies);
  // Bytes change on the disk.
  void damage(const std::string& name, u64 offset, std::string_view bytes);
  std::string content(const std::string& name) const;

  u64 writes() const;
  u64 syncs() const;
  u64 unsynced_pages() const;

 private:
  struct Shared;
  struct Content;
  class Handle;

  std::shared_ptr<Shared> shared_;

 public:
  MemoryFiles();
  ~MemoryFiles() override;
};

}  // namespace tidewire
