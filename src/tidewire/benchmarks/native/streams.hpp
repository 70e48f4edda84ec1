// Where does a message of each protocol end, and is it a delivery? All that this program knows of protocols: what is
// said at the beginning, and what is published, comes as bytes with the plan.
#pragma once

#include <string>
#include <string_view>

#include "base.hpp"

namespace tidewire::bench {

inline constexpr u64 kPacketNumbers = 65'535;  // of MQTT: two bytes, and none is 0

enum class Kind {
  kIncomplete,  // the rest has not come yet
  kDelivery,
  kAck,        // of what this connection published
  kOther,      // an answer that nobody waits for
  kComplaint,  // the server lost or refused something, and goes on
  kPing,       // wants the answer below
  kBroken,     // the server ends this, or it is not the protocol
};

// Events of a connection have the numbers 1, 2, 3, ...
struct Ack {
  u64 number = 0;             // 0: the oldest that waits
  u64 numbers = 0;            // after so many the numbers begin again with 1; 0: never
  bool with_earlier = false;  // and all before it
};

struct Cut {
  Kind kind = Kind::kIncomplete;
  std::size_t size = 0;      // of the message, with what is around it
  std::string_view payload;  // of a delivery
  Ack ack{};
  std::string_view mark{};   // by which a reader acknowledges this delivery, or the one that begins here
};

// Looks at the front of the stream.
using Cutter = Cut (*)(std::string_view stream);

struct Protocol {
  std::string_view name;
  Cutter cut;
  std::string (*answer)(std::string_view ping, long long now_ns);
};

// Throws std::runtime_error if there is none of this name.
const Protocol& protocol_named(std::string_view name);

}  // namespace tidewire::bench
