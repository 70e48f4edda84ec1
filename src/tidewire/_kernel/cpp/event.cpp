#include "event.hpp"

namespace tidewire {

const char* view_event(std::string_view bytes, EventView& into) {
  if (bytes.size() < kEventHeader) return "it is shorter than a header";
  const char* data = bytes.data();
  if (static_cast<u8>(data[0]) != kEventMagic) return "it does not begin like an event";
  if (static_cast<u8>(data[1]) != kEventFormat) return "its format is not known";
  into.data = data;
  into.size = load<u32>(data + 8);
  if (into.size != bytes.size()) return "its length is not what its header says";
  into.envelope_bits = load<u16>(data + 2);
  into.attribute_count = load<u16>(data + 4);
  if (into.envelope_bits >> kEnvelopeWidths.size()) return "its envelope has unknown fields";
  if (into.attribute_count > kAttributesMax) return "it has too many attributes";
  std::size_t envelope = 0;
  for (u32 bits = into.envelope_bits; bits != 0; bits &= bits - 1)
    envelope += kEnvelopeWidths[static_cast<std::size_t>(std::countr_zero(bits))];
  const std::size_t shape = load<u16>(data + 6), values = std::size_t{into.attribute_count} * 8;
  const std::size_t heap = kEventHeader + envelope + shape + values;
  const std::size_t body = load<u32>(data + 12);
  into.has_body = body != 0;
  const std::size_t heap_end = into.has_body ? body : into.size;
  if (heap > heap_end || heap_end > into.size) return "its parts do not fit its length";
  into.envelope = bytes.substr(kEventHeader, envelope);
  into.shape = bytes.substr(kEventHeader + envelope, shape);
  into.values = bytes.substr(heap - values, values);
  into.heap = bytes.substr(heap, heap_end - heap);
  into.tail = bytes.substr(heap_end);
  if (into.has_body && (into.tail.empty() || into.tail.size() - 1 < static_cast<u8>(into.tail[0])))
    return "its content type is cut";
  return nullptr;
}

}  // namespace tidewire
