#include "inspect.hpp"

#include <algorithm>
#include <cmath>

namespace tidewire {

namespace {

constexpr std::size_t kShapeBytesMax = 8u << 20;
constexpr u32 kValueBit = 8;

bool has_finite_value(const EventView& event) {
  std::size_t at = 0;
  for (u32 bit = 0; bit < kValueBit; ++bit)
    if (event.envelope_bits >> bit & 1) at += kEnvelopeWidths[bit];
  return std::isfinite(load<double>(event.envelope.data() + at));
}

}  // namespace

const Inspector::Shape* Inspector::shape_of(const EventView& event, const char*& wrong) {
  const auto is_this = [&](const Shape& shape) { return shape.count == event.attribute_count && shape.bytes == event.shape; };
  if (last_ != nullptr && is_this(*last_)) return last_;
  if (shape_bytes_ > kShapeBytesMax) {
    shapes_.clear();
    shape_bytes_ = 0;
  }
  last_ = nullptr;
  const u64 hash = hash_bytes(event.shape.data(), event.shape.size(), seed_ + event.attribute_count);
  if (const auto known = shapes_.find(hash); known != shapes_.end() && is_this(*known->second))
    return last_ = known->second.get();
  auto shape = std::make_unique<Shape>();
  std::vector<std::string_view> names;
  wrong = walk_shape(event.shape, event.attribute_count, [&](u32 slot, Type type, std::string_view name) -> const char* {
    names.push_back(name);
    if (type == Type::kString && name == "class") shape->class_slot = static_cast<i32>(slot);
    if (type == Type::kBool || type == Type::kString || type == Type::kBytes) shape->doubtful.push_back({slot, type});
    return nullptr;
  });
  std::sort(names.begin(), names.end());
  if (wrong == nullptr && std::adjacent_find(names.begin(), names.end()) != names.end())
    wrong = "an attribute stands in it twice";
  if (wrong != nullptr) return nullptr;
  shape->bytes = event.shape;
  shape->count = event.attribute_count;
  shape->number = ++shapes_seen_;
  shape_bytes_ += sizeof(Shape) + shape->bytes.capacity() + shape->doubtful.capacity() * sizeof(Shape::Slot) + 64;
  auto& place = shapes_[hash];
  place = std::move(shape);
  return last_ = place.get();
}

const char* Inspector::inspect(std::string_view bytes, EventView& into) {
  if (const char* wrong = view_event(bytes, into)) return wrong;
  const char* wrong = nullptr;
  const Shape* shape = shape_of(into, wrong);
  if (shape == nullptr) return wrong;
  for (const auto& [slot, type] : shape->doubtful) {
    if (type == Type::kBool) {
      if (into.bits(slot) > 1) return "a boolean is neither true nor false";
    } else if (!into.text_is_inside(slot)) {
      return "a string lies outside of it";
    } else if (type == Type::kString && !is_utf8(into.text(slot))) {
      return "a string is not UTF-8";
    }
  }
  if (into.has_body && !is_utf8(into.tail.substr(1, static_cast<u8>(into.tail[0])))) return "its content type is not UTF-8";
  if ((into.envelope_bits >> kValueBit & 1) && !has_finite_value(into)) return "its value is not finite";
  return nullptr;
}

}  // namespace tidewire
