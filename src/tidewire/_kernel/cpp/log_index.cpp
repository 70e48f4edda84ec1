#include "log_index.hpp"

#include "crc32c.hpp"

namespace tidewire {

namespace {

constexpr u64 kMagic = 0x0158444945444954ULL;  // "TIDEIDX", version 1
constexpr std::size_t kWord = 8;

// Words from a file that may be damaged in ways that the crc does not see.
struct Words {
  std::string_view bytes;
  bool is_good = true;

  u64 next() {
    if (bytes.size() < kWord) {
      is_good = false;
      return 0;
    }
    const u64 word = load<u64>(bytes.data());
    bytes.remove_prefix(kWord);
    return word;
  }
  // How many things of so many words follow.
  u64 count(u64 words) {
    const u64 found = next();
    if (found > bytes.size() / (kWord * words)) is_good = false;
    return is_good ? found : 0;
  }
};

void put(std::string& to, u64 word) {
  char bytes[kWord];
  store(bytes, word);
  to.append(bytes, kWord);
}

void put_blocks(std::string& to, const std::vector<LogIndex::Block>& blocks) {
  put(to, blocks.size());
  for (const LogIndex::Block& block : blocks) {
    put(to, block.offset);
    put(to, block.end);
  }
}

std::vector<LogIndex::Block> take_blocks(Words& from) {
  std::vector<LogIndex::Block> blocks(from.count(2));
  for (LogIndex::Block& block : blocks) {
    block.offset = from.next();
    block.end = from.next();
    if (block.end < block.offset) from.is_good = false;
  }
  return blocks;
}

}  // namespace

void LogIndex::add(u64 offset, u64 bytes, const std::vector<LogGroup::Extent>& extents) {
  const bool goes_on = !blocks_.empty() && blocks_.back().end == offset && offset - blocks_.back().offset < kBlockBytes;
  if (goes_on) blocks_.back().end += bytes;
  else blocks_.push_back({offset, offset + bytes});
  const u64 block = blocks_.size() - 1;
  for (const LogGroup::Extent& extent : extents) {
    std::vector<Entry>& entries = entries_[extent.pubend];
    if (!entries.empty() && entries.back().block == block) entries.back().last = extent.last;
    else entries.push_back({extent.first, extent.last, block});
  }
}

const std::vector<LogIndex::Entry>* LogIndex::entries(u64 pubend) const {
  const auto found = entries_.find(pubend);
  return found == entries_.end() ? nullptr : &found->second;
}

std::vector<LogGroup::Extent> LogIndex::extents() const {
  std::vector<LogGroup::Extent> found;
  for (const auto& [pubend, entries] : entries_) found.push_back({pubend, entries.front().first, entries.back().last});
  return found;
}

std::string LogIndex::encoded(u64 log_id, u64 segment) const {
  std::string made;
  put(made, kMagic);
  put(made, log_id);
  put(made, segment);
  put_blocks(made, blocks_);
  put_blocks(made, suspects_);
  put(made, entries_.size());
  for (const auto& [pubend, entries] : entries_) {
    put(made, pubend);
    put(made, entries.size());
    for (const Entry& entry : entries) {
      put(made, entry.first);
      put(made, entry.last);
      put(made, entry.block);
    }
  }
  put(made, crc32c(0, made.data(), made.size()));
  return made;
}

std::optional<LogIndex> LogIndex::decoded(std::string_view bytes, u64 log_id, u64 segment) {
  if (bytes.size() < 4 * kWord || bytes.size() % kWord != 0) return std::nullopt;
  Words words{bytes.substr(0, bytes.size() - kWord)};
  if (load<u64>(bytes.data() + words.bytes.size()) != crc32c(0, bytes.data(), words.bytes.size())) return std::nullopt;
  if (words.next() != kMagic || words.next() != log_id || words.next() != segment) return std::nullopt;
  LogIndex index;
  index.blocks_ = take_blocks(words);
  index.suspects_ = take_blocks(words);
  for (u64 pubends = words.count(2); pubends > 0 && words.is_good; --pubends) {
    std::vector<Entry>& entries = index.entries_[words.next()];
    entries.resize(words.count(3));
    for (Entry& entry : entries) {
      entry = {words.next(), words.next(), words.next()};
      if (entry.block >= index.blocks_.size()) words.is_good = false;
    }
    if (entries.empty()) words.is_good = false;
  }
  if (!words.is_good || !words.bytes.empty()) return std::nullopt;
  return index;
}

}  // namespace tidewire
