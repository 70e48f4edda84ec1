// The one message that is answered without asking anyone.
#pragma once

#include "frame.hpp"

namespace tidewire {

// If this frame is a Ping in its usual form, a frame with the Pong: the ping's own time, and ours when it came and when
// this leaves, which is now. False if it is anything else.
bool pong_of(std::string_view frame, i64 now_ns, std::string& pong);

}  // namespace tidewire
