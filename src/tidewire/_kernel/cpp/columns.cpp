#include "columns.hpp"

#include <array>
#include <cmath>

namespace tidewire {

namespace {

constexpr u32 kTickCounterBits = 20;
constexpr i64 kExactMax = i64{1} << 53;
constexpr std::array<const char*, 7> kTypeNames = {"", "boolean", "integer", "float", "string", "timestamp", "bytes"};

const char* name_of(Type type) { return kTypeNames[static_cast<std::size_t>(type)]; }

std::string quoted(std::string_view name) { return std::string(1, '\'').append(name).append(1, '\''); }

i64 microseconds(i64 ns) { return ns / 1000 - (ns % 1000 < 0); }

bool is_nan(Type type, u64 bits) { return type == Type::kFloat && std::isnan(std::bit_cast<double>(bits)); }

// Where the columns are in events of one shape; or why none of them fits.
struct Plan {
  std::vector<i32> slots;
  std::vector<Type> types;
  std::string fault;
};

bool fits(Type column, Type value) { return column == value || (column == Type::kFloat && value == Type::kInt); }

Plan plan_for(const EventView& event, const WantedColumns& wanted) {
  const std::size_t count = wanted.columns.size();
  Plan plan{std::vector<i32>(count, -1), std::vector<Type>(count, Type::kBool), {}};
  const char* wrong = walk_shape(event.shape, event.attribute_count, [&](u32 slot, Type type, std::string_view name) -> const char* {
    for (std::size_t at = 0; at < count; ++at) {
      const WantedColumn& column = wanted.columns[at];
      if (column.name != name) continue;
      if (plan.slots[at] >= 0) return "an attribute stands in it twice";
      plan.slots[at] = static_cast<i32>(slot);
      plan.types[at] = type;
      if (!fits(column.type, type) && plan.fault.empty())
        plan.fault = quoted(column.name) + " is a " + name_of(type) + ", and its column a " + name_of(column.type);
      return nullptr;
    }
    if (!wanted.takes_others && plan.fault.empty()) plan.fault = quoted(name) + " is in no column";
    return nullptr;
  });
  for (std::size_t at = 0; at < count && plan.fault.empty(); ++at)
    if (wanted.columns[at].is_required && plan.slots[at] < 0) plan.fault = quoted(wanted.columns[at].name) + " is missing";
  if (wrong != nullptr) plan.fault = std::string("a damaged event: ") + wrong;
  return plan;
}

class Reader {
 public:
  explicit Reader(const WantedColumns& wanted) : wanted_(wanted) {
    for (const WantedColumn& column : wanted.columns) into.columns.emplace_back(column.type);
  }

  void read(std::string_view bytes, u64 first, u64 end) {
    EventView event;
    if (const char* wrong = view_event(bytes, event)) throw KernelError("event-damaged", std::string("a damaged event: ") + wrong);
    if (!has_field(event, kTickField)) throw KernelError("event-damaged", "an event of a stream has no tick");
    const u64 tick = field_of(event, kTickField);
    if (tick < first || tick >= end) return;
    const Plan& plan = plan_of(event);
    std::string reason = plan.fault.empty() ? value_fault(event, plan) : plan.fault;
    if (!reason.empty()) return fault(tick, FaultKind::kMalformed, std::move(reason), bytes);
    const i64 late_us = lateness_us(event, plan, tick);
    if (late_us > wanted_.late_us)
      return fault(tick, FaultKind::kLate, "late by " + std::to_string(late_us / 1'000'000) + " s", bytes);
    for (std::size_t at = 0; at < into.columns.size(); ++at) put(into.columns[at], event, plan.slots[at], plan.types[at]);
    into.ticks.put_bits(tick);
    put_body(event);
  }

  Columns into;

 private:
  const Plan& plan_of(const EventView& event) {
    if (plan_ != nullptr && event.shape == shape_) return *plan_;
    std::string key(event.shape);
    auto found = plans_.find(key);
    if (found == plans_.end()) found = plans_.emplace(std::move(key), plan_for(event, wanted_)).first;
    shape_ = found->first;
    return *(plan_ = &found->second);
  }

  // What is wrong with a value, before any is put down: a row is whole or not there.
  std::string value_fault(const EventView& event, const Plan& plan) const {
    for (std::size_t at = 0; at < into.columns.size(); ++at) {
      if (plan.slots[at] < 0) continue;
      const u32 slot = static_cast<u32>(plan.slots[at]);
      const Type column = into.columns[at].type, type = plan.types[at];
      if (type == Type::kBool && event.bits(slot) > 1) return name(at) + " is neither true nor false";
      if (column == Type::kFloat && type == Type::kInt) {
        const i64 number = static_cast<i64>(event.bits(slot));
        if (number > kExactMax || number < -kExactMax) return name(at) + " is an integer that no float is equal to";
      }
      if (wanted_.columns[at].is_required && is_nan(type, event.bits(slot))) return name(at) + " is not a number";
      if (type != Type::kString && type != Type::kBytes) continue;
      if (!event.text_is_inside(slot)) return name(at) + " lies outside of the event";
      if (type == Type::kString && !is_utf8(event.text(slot))) return name(at) + " is not UTF-8";
    }
    return {};
  }

  std::string name(std::size_t at) const { return quoted(wanted_.columns[at].name); }

  i64 lateness_us(const EventView& event, const Plan& plan, u64 tick) const {
    if (wanted_.time_column < 0 || plan.slots[static_cast<std::size_t>(wanted_.time_column)] < 0) return INT64_MIN;
    const u32 slot = static_cast<u32>(plan.slots[static_cast<std::size_t>(wanted_.time_column)]);
    const i64 published_us = static_cast<i64>(tick >> kTickCounterBits) * 1000;
    i64 late_us = 0;
    const bool is_beyond = __builtin_sub_overflow(published_us, microseconds(static_cast<i64>(event.bits(slot))), &late_us);
    return is_beyond ? INT64_MAX : late_us;
  }

  static void put(Column& column, const EventView& event, i32 slot, Type type) {
    if (slot < 0) return column.put_null();
    const u32 at = static_cast<u32>(slot);
    if (column.is_text()) return column.put_text(event.text(at));
    const i64 number = static_cast<i64>(event.bits(at));
    if (column.type == Type::kTimestamp) return column.put_bits(static_cast<u64>(microseconds(number)));
    if (column.type == Type::kFloat && type == Type::kInt)
      return column.put_bits(std::bit_cast<u64>(static_cast<double>(number)));
    if (column.type != Type::kFloat) return column.put_bits(event.bits(at));
    if (is_nan(type, event.bits(at))) return column.put_null();
    column.put_bits(std::bit_cast<u64>(std::bit_cast<double>(event.bits(at)) + 0.0));  // of the two zeros, one
  }

  void put_body(const EventView& event) {
    if (!event.has_body) {
      into.body.put_null();
      into.content_type.put_null();
      return;
    }
    const std::size_t type_size = static_cast<u8>(event.tail[0]);
    const std::string_view type = event.tail.substr(1, type_size);
    into.body.put_text(event.tail.substr(1 + type_size));
    if (type.empty() || !is_utf8(type)) into.content_type.put_null();
    else into.content_type.put_text(type);
  }

  void fault(u64 tick, FaultKind kind, std::string reason, std::string_view event) {
    into.faults.push_back({tick, kind, std::move(reason), event});
  }

  const WantedColumns& wanted_;
  std::unordered_map<std::string, Plan> plans_;
  const Plan* plan_ = nullptr;
  std::string_view shape_;
};

}  // namespace

void Column::put_valid(bool is_valid) {
  if (rows % 8 == 0) valid.push_back(0);
  if (is_valid) valid.back() = static_cast<char>(static_cast<u8>(valid.back()) | 1u << rows % 8);
  else ++nulls;
  ++rows;
}

void Column::put_null() {
  if (is_text()) offsets.push_back(offsets.back());
  else if (type != Type::kBool) data.append(8, 0);
  else if (rows % 8 == 0) data.push_back(0);
  put_valid(false);
}

void Column::put_bits(u64 bits) {
  if (type == Type::kBool) {
    if (rows % 8 == 0) data.push_back(0);
    if (bits != 0) data.back() = static_cast<char>(static_cast<u8>(data.back()) | 1u << rows % 8);
  } else {
    char eight[8];
    store(eight, bits);
    data.append(eight, 8);
  }
  put_valid(true);
}

void Column::put_text(std::string_view text) {
  if (data.size() + text.size() > INT32_MAX) throw KernelError("usage", "a column holds at most 2 GiB of text: read fewer events");
  data += text;
  offsets.push_back(static_cast<i32>(data.size()));
  put_valid(true);
}

Columns read_columns(std::string_view batch, const WantedColumns& wanted, u64 first, u64 end) {
  Reader reader(wanted);
  const char* wrong = walk_batch(batch, [&](u32, std::string_view event) {
    reader.read(event, first, end);
    return true;
  });
  if (wrong != nullptr) throw KernelError("event-damaged", wrong);
  return std::move(reader.into);
}

}  // namespace tidewire
