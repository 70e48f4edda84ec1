// The encoding of events, made for matching: names and types first (the shape), then fixed-width values.
//
//   u8  magic 'T' (0x54)       u8  format 1
//   u16 envelope bits          u16 attribute count        u16 shape length
//   u32 total length           u32 body offset (0: no body)
//   envelope fields that are present, in the order of their bits
//   shape:   count x (u8 type, u8 name length, name)
//   values:  count x 8 bytes   (bool, int64, float64, timestamp ns; string and bytes: u32 offset in the heap, u32 length)
//   heap:    the strings and bytes
//   body:    u8 content type length, content type, the body up to the end
//
// Events of one publisher mostly have one shape, so a reader resolves its names once and then takes only the values that
// it wants, at places it already knows.
#pragma once

#include <array>

#include "base.hpp"

namespace tidewire {

enum class Type : u8 { kBool = 1, kInt = 2, kFloat = 3, kString = 4, kTimestamp = 5, kBytes = 6 };

inline constexpr u8 kEventMagic = 0x54, kEventFormat = 1;
inline constexpr u32 kEventHeader = 16, kAttributesMax = 1024, kValueMax = 1u << 20, kBodyMax = 1u << 24;

// publisher sequence pubend tick tree published_ns traffic_class ttl_ns value tenant trace
inline constexpr std::array<u8, 11> kEnvelopeWidths = {8, 8, 8, 8, 8, 8, 4, 8, 8, 4, 25};

// The parts of an encoded event; views into its bytes.
struct EventView {
  const char* data = nullptr;
  u32 size = 0;
  u16 envelope_bits = 0, attribute_count = 0;
  std::string_view envelope, shape, values, heap, tail;  // tail: content type and body, with its length byte
  bool has_body = false;

  std::string_view text(u32 slot) const {
    const char* at = values.data() + std::size_t{slot} * 8;
    return heap.substr(load<u32>(at), load<u32>(at + 4));
  }
  bool text_is_inside(u32 slot) const {
    const char* at = values.data() + std::size_t{slot} * 8;
    return std::size_t{load<u32>(at)} + load<u32>(at + 4) <= heap.size();
  }
  u64 bits(u32 slot) const { return load<u64>(values.data() + std::size_t{slot} * 8); }
};

// Fields of the envelope by their bit. Those up to kPublishedField are 8 bytes wide.
inline constexpr u32 kPubendField = 2, kTickField = 3, kTreeField = 4, kPublishedField = 5, kClassField = 6, kTtlField = 7,
                     kValueField = 8;

// Where a field stands behind the header, of an envelope with these fields.
inline std::size_t envelope_offset(u32 bits, u32 field) {
  const u32 before = bits & ((1u << field) - 1);
  return 8 * static_cast<u32>(std::popcount(before & ~(1u << kClassField))) + (before >> kClassField & 1 ? 4 : 0);
}

inline bool has_field(const EventView& event, u32 field) { return event.envelope_bits >> field & 1; }

inline u64 field_of(const EventView& event, u32 field) {
  return load<u64>(event.envelope.data() + envelope_offset(event.envelope_bits, field));
}

// Of an event that is whole.
inline bool has_deadline(std::string_view event) { return load<u16>(event.data() + 2) >> kTtlField & 1; }

// nullptr, or what is wrong with the frame of this event.
const char* view_event(std::string_view bytes, EventView& into);

// Walks a shape: calls each(slot, type, name); nullptr, or what is wrong.
template <class Each>
const char* walk_shape(std::string_view shape, u32 count, Each each) {
  const char *at = shape.data(), *end = at + shape.size();
  for (u32 slot = 0; slot < count; ++slot) {
    if (end - at < 2) return "its shape ends too early";
    const u8 type = static_cast<u8>(at[0]), size = static_cast<u8>(at[1]);
    if (type < 1 || type > 6) return "an attribute has an unknown type";
    if (size == 0 || end - at - 2 < size) return "an attribute name is empty or cut";
    const std::string_view name(at + 2, size);
    if (!is_utf8(name)) return "an attribute name is not UTF-8";
    if (const char* wrong = each(slot, static_cast<Type>(type), name)) return wrong;
    at += 2 + size;
  }
  return at == end ? nullptr : "its shape is longer than its attributes";
}

// Batches are events, each behind its length (u32). Calls each(index, bytes) until it returns false.
template <class Each>
const char* walk_batch(std::string_view batch, Each each) {
  std::size_t at = 0;
  for (u32 index = 0; at < batch.size(); ++index) {
    if (batch.size() - at < 4) return "the batch ends inside a length";
    const u32 size = load<u32>(batch.data() + at);
    at += 4;
    if (batch.size() - at < size) return "the batch ends inside an event";
    if (!each(index, batch.substr(at, size))) return nullptr;
    at += size;
  }
  return nullptr;
}

}  // namespace tidewire
