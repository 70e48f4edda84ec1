#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "files.hpp"

namespace tidewire {

namespace {

constexpr const char* kLockName = "lock";
constexpr std::size_t kFillBytes = 1u << 20;
constexpr std::size_t kPiecesMax = 64;

class PosixFile final : public File {
 public:
  PosixFile(int fd, u64 size, std::string path) : fd_(fd), size_(size), path_(std::move(path)) {}
  ~PosixFile() override { ::close(fd_); }
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  u64 size() const override { return size_; }

  void write_at(u64 offset, std::span<const std::string_view> pieces) override {
    while (!pieces.empty()) {
      const std::size_t count = std::min(pieces.size(), kPiecesMax);
      offset += write_some(offset, pieces.first(count));
      pieces = pieces.subspan(count);
    }
  }

  void sync() override {
    if (::fdatasync(fd_) != 0) throw FileError(errno, "cannot sync " + path_);
  }

  void read_at(u64 offset, char* to, std::size_t count) const override {
    while (count > 0) {
      const ssize_t got = ::pread(fd_, to, count, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) throw FileError(got < 0 ? errno : ENODATA, "cannot read " + path_);
      to += got;
      offset += static_cast<u64>(got);
      count -= static_cast<std::size_t>(got);
    }
  }

  int fd() const { return fd_; }

 private:
  u64 write_some(u64 offset, std::span<const std::string_view> pieces) {
    std::array<iovec, kPiecesMax> parts;
    u64 total = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      parts[i] = {const_cast<char*>(pieces[i].data()), pieces[i].size()};
      total += pieces[i].size();
    }
    iovec* next = parts.data();
    iovec* const end = next + pieces.size();
    for (u64 done = 0; done < total;) {
      const ssize_t sent = ::pwritev(fd_, next, static_cast<int>(end - next), static_cast<off_t>(offset + done));
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) throw FileError(sent < 0 ? errno : EIO, "cannot write " + path_);
      done += static_cast<u64>(sent);
      auto left = static_cast<std::size_t>(sent);
      for (; next < end && left >= next->iov_len; ++next) left -= next->iov_len;
      if (next < end) *next = {static_cast<char*>(next->iov_base) + left, next->iov_len - left};
    }
    return total;
  }

  int fd_;
  u64 size_;
  std::string path_;
};

// Zeros are written, not promised: only then does a sync of what replaces them change nothing else on the disk. They are on
// their way to the disk while the next ones are written, a piece at a time, so that the syncs of others get through.
void fill(PosixFile& file, u64 size, std::string_view head) {
  if (!head.empty()) file.File::write_at(0, head);
  static const std::string zeros(kFillBytes, '\0');
  for (u64 at = head.size(); at < size;) {
    const u64 count = std::min<u64>(size - at, kFillBytes);
    file.File::write_at(at, std::string_view(zeros).substr(0, count));
    ::sync_file_range(file.fd(), static_cast<off_t>(at), static_cast<off_t>(count), SYNC_FILE_RANGE_WRITE);
    at += count;
  }
}

}  // namespace

FileError::FileError(int error_, const std::string& what)
    : std::runtime_error(what + ": " + std::strerror(error_)), error(error_) {}

bool FileError::is_full() const { return error == ENOSPC || error == EDQUOT; }

PosixFiles::PosixFiles(std::string folder) : folder_(std::move(folder)) {
  if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) throw FileError(errno, "cannot make " + folder_);
  directory_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory_ < 0) throw FileError(errno, "cannot open " + folder_);
}

PosixFiles::~PosixFiles() { ::close(directory_); }

std::shared_ptr<void> PosixFiles::lock() {
  const int fd = ::openat(directory_, kLockName, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) throw FileError(errno, "cannot make " + folder_ + "/" + kLockName);
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0)
    return {nullptr, [fd](void*) { ::close(fd); }};
  const int error = errno;
  ::close(fd);
  if (error != EWOULDBLOCK) throw FileError(error, "cannot lock " + folder_);
  throw KernelError("store-locked", "another process uses the log in " + folder_ + "; stop it, or choose another folder");
}

std::vector<Files::Entry> PosixFiles::list() const {
  std::vector<Entry> found;
  const int copy = ::openat(directory_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* open = copy < 0 ? nullptr : ::fdopendir(copy);
  if (open == nullptr) throw FileError(errno, "cannot list " + folder_);
  while (const dirent* one = ::readdir(open)) {
    struct stat about {};
    if (::fstatat(directory_, one->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(about.st_mode)) continue;
    if (std::string_view(one->d_name) != kLockName) found.push_back({one->d_name, static_cast<u64>(about.st_size)});
  }
  ::closedir(open);
  std::sort(found.begin(), found.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return found;
}

std::shared_ptr<File> PosixFiles::create(const std::string& name, u64 size, std::string_view head) {
  const std::string path = folder_ + "/" + name;
  const int fd = ::openat(directory_, name.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) throw FileError(errno, "cannot make " + path);
  auto file = std::make_shared<PosixFile>(fd, size, path);
  try {
    // First the room, so that it is known at once if there is not enough.
    if (const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(size)))
      throw FileError(error, "cannot make " + path + " with " + std::to_string(size >> 10) + " KiB");
    fill(*file, size, head);
    if (::fsync(fd) != 0) throw FileError(errno, "cannot sync " + path);
    if (::fsync(directory_) != 0) throw FileError(errno, "cannot sync " + folder_);
  } catch (const FileError&) {
    ::unlinkat(directory_, name.c_str(), 0);
    throw;
  }
  return file;
}

std::shared_ptr<File> PosixFiles::open(const std::string& name) {
  const std::string path = folder_ + "/" + name;
  const int fd = ::openat(directory_, name.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) throw FileError(errno, "cannot open " + path);
  struct stat about {};
  if (::fstat(fd, &about) != 0) {
    const int error = errno;
    ::close(fd);
    throw FileError(error, "cannot open " + path);
  }
  return std::make_shared<PosixFile>(fd, static_cast<u64>(about.st_size), path);
}

void PosixFiles::remove(const std::string& name) {
  if (::unlinkat(directory_, name.c_str(), 0) != 0 && errno != ENOENT)
    throw FileError(errno, "cannot remove " + folder_ + "/" + name);
  if (::fsync(directory_) != 0) throw FileError(errno, "cannot sync " + folder_);
}

}  // namespace tidewire
