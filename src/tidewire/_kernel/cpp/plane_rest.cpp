// Capacity: who brings events waits when as much has been used as this broker may use.
#include "plane.hpp"

namespace tidewire {

void Plane::limit_to(double cpu_share, double output_bytes_s) {
  const u64 now = clock_ns();
  cpu_.limit(cpu_share * 1e9, now);
  output_.limit(output_bytes_s, now);
}

// True if this connection has to wait before its next frame. Messages never do.
bool Plane::has_to_rest(Connection& from, std::string_view frame) {
  const FrameKind kind = frame_kind(frame.data());
  if (kind == FrameKind::kMessage || kind == FrameKind::kTaken) return false;
  const u64 now = clock_ns();
  if (cpu_.has_some(now) && output_.has_some(now)) return false;
  from.state = State::kBlocked;
  resting_.push_back(from.number);
  return true;
}

std::optional<u64> Plane::rest_ns() {
  if (resting_.empty()) return std::nullopt;
  const u64 now = clock_ns();
  return std::max(cpu_.rest_ns(now), output_.rest_ns(now));
}

}  // namespace tidewire
