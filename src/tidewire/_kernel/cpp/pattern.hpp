// LIKE patterns over UTF-8, in linear time: runs between the '%', each found at its leftmost place.
#pragma once

#include <vector>

#include "base.hpp"

namespace tidewire {

class Pattern {
 public:
  static bool is_acceptable(std::string_view canonical);

  // The text is valid UTF-8; so is the pattern, which was accepted.
  explicit Pattern(std::string_view canonical);
  bool matches(std::string_view text) const;
  std::size_t bytes() const;

  struct Run {
    std::string literal;          // the bytes, if there is no '_' in it
    std::vector<u32> characters;  // else its characters, kAny for '_'
    std::vector<std::pair<u32, u64>> masks;  // of a searched run: character -> the places it stands at
    u64 any_mask = 0;
  };
  struct Form {
    std::vector<Run> runs;
    bool open_start = false, open_end = false;
  };

 private:
  Form form_;
};

}  // namespace tidewire
