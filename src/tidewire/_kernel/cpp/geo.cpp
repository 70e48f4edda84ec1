#include "geo.hpp"

#include <cmath>
#include <numbers>

namespace tidewire {

namespace {

constexpr double kEarthRadiusM = 6371008.8, kDegree = std::numbers::pi / 180.0;

bool ring_has(const std::vector<double>& corners, double lat, double lon) {
  bool odd = false;
  double previous_lat = corners[corners.size() - 2], previous_lon = corners.back();
  for (std::size_t i = 0; i < corners.size(); i += 2) {
    const double corner_lat = corners[i], corner_lon = corners[i + 1];
    if ((corner_lat > lat) != (previous_lat > lat)) {
      const double slope = (previous_lon - corner_lon) * (lat - corner_lat) / (previous_lat - corner_lat);
      odd ^= lon < slope + corner_lon;
    }
    previous_lat = corner_lat;
    previous_lon = corner_lon;
  }
  return odd;
}

}  // namespace

UnitVector unit_vector(double lat, double lon) {
  const double phi = lat * kDegree, theta = lon * kDegree;
  const double around = std::cos(phi);
  return {around * std::cos(theta), around * std::sin(theta), std::sin(phi)};
}

double chord_squared(double radius_m) {
  const double half = radius_m / (2.0 * kEarthRadiusM);
  if (half >= std::numbers::pi / 2.0) return 5.0;
  const double chord = 2.0 * std::sin(half);
  return chord * chord;
}

bool CompiledArea::holds(double latitude, double longitude, const UnitVector& place) const {
  if (is_circle) {
    const double dx = place.x - center.x, dy = place.y - center.y, dz = place.z - center.z;
    return (((dx * dx + dy * dy) + dz * dz) <= chord2) == inside;
  }
  // A longitude of the valid range and a corner may be up to two turns apart.
  for (const double turn : {0.0, -360.0, 360.0, -720.0, 720.0})
    if (ring_has(corners, latitude, longitude + turn)) return inside;
  return !inside;
}

}  // namespace tidewire
