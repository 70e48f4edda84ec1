// Areas on the Earth, in the very arithmetic of tidewire.model.geography (no fused operations: see CMakeLists.txt).
#pragma once

#include <vector>

#include "base.hpp"

namespace tidewire {

struct UnitVector {
  double x, y, z;
};

UnitVector unit_vector(double lat, double lon);
double chord_squared(double radius_m);

// A circle or polygon with what it needs worked out. `lat` and `lon` are attribute numbers of the index.
struct CompiledArea {
  u32 lat = 0, lon = 0;
  bool is_circle = true, inside = true;
  UnitVector center{};
  double chord2 = 0;
  std::vector<double> corners;
  std::string raw;

  std::size_t bytes() const { return sizeof *this + corners.capacity() * sizeof(double) + raw.capacity(); }
  bool holds(double latitude, double longitude, const UnitVector& place) const;
};

inline bool is_on_earth(double lat, double lon) {
  return lat >= -90.0 && lat <= 90.0 && lon >= -360.0 && lon <= 360.0;
}

}  // namespace tidewire
