// A batch of events as columns, in Arrow's layout: what analyses read, many rows at a time.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "event.hpp"

namespace tidewire {

struct WantedColumn {
  std::string name;
  Type type;
  bool is_required;
};

// What does not fit the columns is a fault; events that are fine go on without it.
struct WantedColumns {
  std::vector<WantedColumn> columns;
  bool takes_others = false;  // attributes that no column is for are left out; else they are a fault
  i32 time_column = -1;       // when it happened; of a row that is older than late_us when it was published, late
  i64 late_us = 0;
};

// One bit a row says whether there is a value. Booleans are bits, numbers 8 bytes, texts lie behind one another.
struct Column {
  Type type = Type::kInt;
  std::string valid, data;
  std::vector<i32> offsets;  // of texts: where each begins, and the end
  u32 rows = 0, nulls = 0;

  explicit Column(Type of) : type(of) {
    if (is_text()) offsets.push_back(0);
  }
  bool is_text() const { return type == Type::kString || type == Type::kBytes; }
  void put_null();
  void put_bits(u64 bits);  // a number, or a boolean
  void put_text(std::string_view text);

 private:
  void put_valid(bool is_valid);
};

enum class FaultKind : u8 { kMalformed = 0, kLate = 1 };

struct Fault {
  u64 tick;
  FaultKind kind;
  std::string reason;
  std::string_view event;  // in the batch that was read
};

struct Columns {
  std::vector<Column> columns;
  Column ticks{Type::kInt}, body{Type::kBytes}, content_type{Type::kString};
  std::vector<Fault> faults;
};

// The events of a batch with a tick from `first` up to `end`, which is not included.
Columns read_columns(std::string_view batch, const WantedColumns& wanted, u64 first, u64 end);

}  // namespace tidewire
