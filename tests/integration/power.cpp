// Preloaded into a process: what is on the disk of a folder, and what has only been written to it, in two folders beside it.
//
// POWER_FOLDER is watched. In POWER_DISK stands what a loss of power would leave at least: for each file, by its inode, what
// was synced (`synced/`) and what was written (`written/`), and by name, as links to `synced/`, what the folder itself had
// when it was last synced.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

std::mutex busy;
std::map<ino_t, std::vector<std::pair<off_t, std::size_t>>> unsynced;

const char* setting(const char* name) {
  const char* found = std::getenv(name);
  return found == nullptr ? "" : found;
}

template <typename F>
F* real(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

// Is it the folder, or a file in it?
bool is_watched(int fd, struct stat& about) {
  char place[4096];
  const ssize_t size = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), place, sizeof place);
  const std::string path(place, size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::string folder = setting("POWER_FOLDER");
  const bool is_in = path == folder || path.compare(0, folder.size() + 1, folder + "/") == 0;
  return !folder.empty() && is_in && fstat(fd, &about) == 0;
}

std::string twin(const char* kind, ino_t file) { return std::string(setting("POWER_DISK")) + "/" + kind + "/" + std::to_string(file); }

// The bytes of a file go to its twin, but for zeros where it has zeros: so it stays small.
void copy(int from, const char* kind, const struct stat& about, off_t at, std::size_t left) {
  const int to = open(twin(kind, about.st_ino).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (to < 0 || ftruncate(to, about.st_size) != 0) std::abort();
  static char ours[1 << 16], theirs[1 << 16];
  while (left > 0) {
    const ssize_t got = pread(from, ours, left < sizeof ours ? left : sizeof ours, at);
    if (got <= 0) break;
    const ssize_t had = pread(to, theirs, static_cast<std::size_t>(got), at);
    if (had != got || std::memcmp(ours, theirs, static_cast<std::size_t>(got)) != 0)
      if (pwrite(to, ours, static_cast<std::size_t>(got), at) != got) std::abort();
    at += got;
    left -= static_cast<std::size_t>(got);
  }
  close(to);
}

void written(int fd, off_t at, ssize_t count) {
  struct stat about {};
  const std::lock_guard guard(busy);
  if (count <= 0 || !is_watched(fd, about)) return;
  unsynced[about.st_ino].emplace_back(at, static_cast<std::size_t>(count));
  copy(fd, "written", about, at, static_cast<std::size_t>(count));
}

void synced_folder(const std::string& disk) {
  DIR* there = opendir(setting("POWER_FOLDER"));
  std::map<std::string, ino_t> names;
  while (const dirent* one = readdir(there))
    if (one->d_type == DT_REG) names[one->d_name] = one->d_ino;
  closedir(there);
  DIR* known = opendir(disk.c_str());
  while (const dirent* one = readdir(known))
    if (one->d_type == DT_REG) unlink((disk + "/" + one->d_name).c_str());
  closedir(known);
  for (const auto& [name, file] : names)
    if (link(twin("synced", file).c_str(), (disk + "/" + name).c_str()) != 0 && errno != ENOENT) std::abort();
}

void synced(int fd) {
  struct stat about {};
  const std::lock_guard guard(busy);
  if (!is_watched(fd, about)) return;
  if (S_ISDIR(about.st_mode)) return synced_folder(setting("POWER_DISK"));
  for (const auto& [at, count] : unsynced[about.st_ino]) copy(fd, "synced", about, at, count);
  unsynced.erase(about.st_ino);
}

}  // namespace

extern "C" {

ssize_t pwritev(int fd, const iovec* pieces, int count, off_t at) {
  static const auto act = real<ssize_t(int, const iovec*, int, off_t)>("pwritev");
  const ssize_t sent = act(fd, pieces, count, at);
  written(fd, at, sent);
  return sent;
}

// With a file `failing` beside the others the disk fails.
int fdatasync(int fd) {
  static const auto act = real<int(int)>("fdatasync");
  if (access((std::string(setting("POWER_DISK")) + "/synced/failing").c_str(), F_OK) == 0) {
    errno = EIO;
    return -1;
  }
  const int said = act(fd);
  if (said == 0 && setting("POWER_LIES")[0] == '\0') synced(fd);
  return said;
}

int fsync(int fd) {
  static const auto act = real<int(int)>("fsync");
  const int said = act(fd);
  if (said == 0) synced(fd);
  return said;
}
}
