#include "harvest.hpp"

#include "event.hpp"
#include "frame.hpp"

namespace tidewire {

namespace {

// The event of a DELIVER frame, if it is for this follower and has a tick; else nothing.
bool is_followed(std::string_view frame, u32 number, EventView& event, std::string_view& bytes) {
  constexpr std::size_t numbers = kFrameHead + kHopBytes + 1;
  if (frame_kind(frame.data()) != FrameKind::kDeliver || frame.size() < numbers + 4) return false;
  if (static_cast<u8>(frame[numbers - 1]) != 1 || load<u32>(frame.data() + numbers) != number) return false;
  bytes = frame.substr(numbers + 4);
  if (view_event(bytes, event) != nullptr) return false;
  return has_field(event, kPubendField) && has_field(event, kTickField);
}

HarvestedSpan& span_of(Harvest& into, u64 pubend) {
  for (HarvestedSpan& span : into.spans)
    if (span.pubend == pubend) return span;
  return into.spans.emplace_back(HarvestedSpan{.pubend = pubend, .batch = {}});
}

}  // namespace

Harvest harvest_frames(std::string_view data, u32 number, std::unordered_map<u64, u64>& places, u32 frame_bytes_max) {
  Harvest into;
  EventView event;
  std::string_view bytes;
  while (data.size() - into.consumed >= kFrameHead) {
    const char* at = data.data() + into.consumed;
    const u32 length = load<u32>(at);
    if (length == 0 || length > frame_bytes_max)
      throw KernelError("frame-damaged", "a frame of " + std::to_string(length) + " bytes cannot be one");
    const std::string_view frame = data.substr(into.consumed, frame_size(at));
    if (frame.size() < frame_size(at)) break;
    into.consumed += frame.size();
    if (!is_followed(frame, number, event, bytes)) {
      into.others += frame;
      continue;
    }
    const u64 pubend = field_of(event, kPubendField), tick = field_of(event, kTickField);
    u64& place = places[pubend];
    if (tick < place) continue;
    place = tick + 1;
    HarvestedSpan& span = span_of(into, pubend);
    if (span.count++ == 0) span.first = tick;
    span.last = tick;
    char size[4];
    store(size, static_cast<u32>(bytes.size()));
    span.batch.append(size, 4).append(bytes);
  }
  return into;
}

}  // namespace tidewire
