// Where in a segment the events of each pubend are: by blocks, runs of whole groups of about 64 KiB.
#pragma once

#include <map>
#include <optional>

#include "log_record.hpp"

namespace tidewire {

class LogIndex {
 public:
  struct Block {
    u64 offset, end;
  };
  // The events of a pubend in a block; both ticks included.
  struct Entry {
    u64 first, last, block;
  };
  static constexpr u64 kBlockBytes = 64u << 10;

  // Groups come in the order in which they stand.
  void add(u64 offset, u64 bytes, const std::vector<LogGroup::Extent>& extents);
  // Bytes there are not what was written: events of any pubend may have been in them.
  void suspect(u64 offset, u64 end) { suspects_.push_back({offset, end}); }

  const std::vector<Entry>* entries(u64 pubend) const;
  const Block& block(u64 number) const { return blocks_[number]; }
  const std::vector<Block>& suspects() const { return suspects_; }
  std::vector<LogGroup::Extent> extents() const;
  u64 end() const { return blocks_.empty() ? 0 : blocks_.back().end; }

  // As a file, with a crc of its own.
  std::string encoded(u64 log_id, u64 segment) const;
  static std::optional<LogIndex> decoded(std::string_view bytes, u64 log_id, u64 segment);

 private:
  std::vector<Block> blocks_, suspects_;
  std::map<u64, std::vector<Entry>> entries_;
};

}  // namespace tidewire
