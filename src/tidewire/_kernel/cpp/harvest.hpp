// What a follower is sent, taken off its connection many events at a time: spans of streams, still encoded.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "base.hpp"

namespace tidewire {

// Events of one stream, in order, as a batch: each behind its length.
struct HarvestedSpan {
  u64 pubend = 0, first = 0, last = 0;
  u32 count = 0;
  std::string batch;
};

struct Harvest {
  std::size_t consumed = 0;  // whole frames; what follows waits for the rest of its frame
  std::string others;        // the frames that are not events of this follower, as they came
  std::vector<HarvestedSpan> spans;
};

// `places`: by stream, the first tick that is still wanted; what is below has come before, and is left out.
Harvest harvest_frames(std::string_view data, u32 number, std::unordered_map<u64, u64>& places, u32 frame_bytes_max);

}  // namespace tidewire
