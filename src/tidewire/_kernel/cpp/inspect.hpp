// Is an event from outside whole? Everything in it is looked at once, where it enters: behind that nobody need ask again.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "event.hpp"

namespace tidewire {

class Inspector {
 public:
  explicit Inspector(u64 seed) : seed_(seed) {}

  // nullptr, or what is wrong with the event.
  const char* inspect(std::string_view bytes, EventView& into);
  // The number of the shape of the last event that was whole. No other shape ever has it.
  u64 shape() const { return last_->number; }
  // Is the last event that was whole of a class that brokers speak by?
  bool is_reserved(const EventView& event) const {
    if (last_->class_slot < 0) return false;
    const std::string_view of = event.text(static_cast<u32>(last_->class_slot));
    return of == "LOCAL_PIE" || of == "GLOBAL_PIE" || of == "LB_CONTROL";
  }

 private:
  // A shape that is right, and the values of it that can be wrong.
  struct Shape {
    std::string bytes;
    u32 count = 0;
    u64 number = 0;
    i32 class_slot = -1;  // where its class stands, if it is a text
    struct Slot {
      u32 slot;
      Type type;
    };
    std::vector<Slot> doubtful;
  };
  const Shape* shape_of(const EventView& event, const char*& wrong);

  u64 seed_, shapes_seen_ = 0;
  std::unordered_map<u64, std::unique_ptr<Shape>> shapes_;
  const Shape* last_ = nullptr;
  std::size_t shape_bytes_ = 0;
};

}  // namespace tidewire
