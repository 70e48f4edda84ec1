// Where a log keeps its bytes: a flat folder of files of fixed size. Two kinds: of the machine, and in memory with all that
// a machine can do to them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base.hpp"

namespace tidewire {

// What the system said, and of what.
struct FileError : std::runtime_error {
  int error;  // errno
  FileError(int error_, const std::string& what);

  bool is_full() const;
};

// Any thread may use it. After `sync` what was written before is on the disk, whatever happens to the machine. A page that
// is overwritten in part and not synced keeps, after a loss of power, the bytes that were not written (powersafe overwrite).
class File {
 public:
  virtual ~File() = default;
  virtual u64 size() const = 0;
  // The pieces one behind the other. Within the size: a file never grows.
  virtual void write_at(u64 offset, std::span<const std::string_view> pieces) = 0;
  void write_at(u64 offset, std::string_view piece) { write_at(offset, {&piece, 1}); }
  virtual void sync() = 0;  // fdatasync
  // Exactly so many bytes, or FileError.
  virtual void read_at(u64 offset, char* to, std::size_t count) const = 0;
};

// `list`, `create`, `open` and `remove` may be called by several threads.
class Files {
 public:
  struct Entry {
    std::string name;
    u64 size;
  };

  virtual ~Files() = default;
  virtual std::string place() const = 0;  // for people
  // The files are the caller's until it lets go of what it gets; KernelError store-locked if they are somebody's.
  virtual std::shared_ptr<void> lock() = 0;
  virtual std::vector<Entry> list() const = 0;  // by name
  // A file of so many bytes: `head`, then zeros, all of it on the disk and found there after a loss of power. What had the
  // name is replaced. FileError, and no such file, if there is no room.
  virtual std::shared_ptr<File> create(const std::string& name, u64 size, std::string_view head) = 0;
  virtual std::shared_ptr<File> open(const std::string& name) = 0;
  // It is gone, also after a loss of power. Who has it open can go on reading.
  virtual void remove(const std::string& name) = 0;
};

class PosixFiles final : public Files {
 public:
  // The folder is made if it is not there.
  explicit PosixFiles(std::string folder);
  ~PosixFiles() override;
  PosixFiles(const PosixFiles&) = delete;
  PosixFiles& operator=(const PosixFiles&) = delete;

  std::string place() const override { return folder_; }
  std::shared_ptr<void> lock() override;
  std::vector<Entry> list() const override;
  std::shared_ptr<File> create(const std::string& name, u64 size, std::string_view head) override;
  std::shared_ptr<File> open(const std::string& name) override;
  void remove(const std::string& name) override;

 private:
  std::string folder_;
  int directory_ = -1;
};

}  // namespace tidewire
