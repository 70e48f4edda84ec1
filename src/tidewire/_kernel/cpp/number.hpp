// Numbers, exactly: int64 and float64 in one total order, and order-preserving 64-bit keys for every kind.
#pragma once

#include <cmath>
#include <limits>

#include "base.hpp"

namespace tidewire {

// A number as the largest double not above it, plus the rest (0 unless an int64 beyond 2^53).
struct Number {
  double d = 0.0;
  i32 r = 0;

  static Number of(double value) { return {value == 0.0 ? 0.0 : value, 0}; }

  static Number of(i64 value) {
    double d = static_cast<double>(value);
    if (d >= 9223372036854775808.0 || static_cast<i64>(d) > value)
      d = std::nextafter(d, -std::numeric_limits<double>::infinity());
    return {d, static_cast<i32>(value - static_cast<i64>(d))};
  }

  friend bool operator<(Number a, Number b) { return a.d < b.d || (a.d == b.d && a.r < b.r); }
  friend bool operator<=(Number a, Number b) { return !(b < a); }
  friend bool operator==(Number a, Number b) { return a.d == b.d && a.r == b.r; }
};

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The largest number below this one (which is not minus infinity).
inline Number before(Number n) {
  if (n.r > 0) return {n.d, n.r - 1};
  constexpr double kExact = 9007199254740992.0, kEnd = 9223372036854775808.0;
  if (n.d > kExact && n.d <= kEnd) {  // the number before is an int64 that no double holds
    const double lower = std::nextafter(n.d, -kInfinity);
    return {lower, static_cast<i32>(n.d - lower) - 1};
  }
  if (n.d <= -kExact && n.d > -kEnd) {
    const double lower = std::nextafter(n.d, -kInfinity);
    return {lower, static_cast<i32>(n.d - lower) - 1};
  }
  return {std::nextafter(n.d, -kInfinity), 0};
}

// Order-preserving: a < b as doubles exactly if key(a) < key(b); never NaN.
inline u64 key_of_double(double value) {
  const u64 bits = std::bit_cast<u64>(value == 0.0 ? 0.0 : value);
  return bits >> 63 ? ~bits : bits | (1ULL << 63);
}

inline u64 key_of_int(i64 value) { return static_cast<u64>(value) ^ (1ULL << 63); }

// Strings up to seven bytes have a key of their own; longer ones share it with what begins alike.
inline u64 key_of_string(std::string_view text) {
  u64 key = 0;
  const std::size_t size = text.size() < 7 ? text.size() : 7;
  for (std::size_t i = 0; i < size; ++i) key |= static_cast<u64>(static_cast<u8>(text[i])) << (56 - 8 * i);
  return key | (text.size() < 8 ? text.size() : 8);
}

}  // namespace tidewire
