#include "permit.hpp"

#include <algorithm>

namespace tidewire {

namespace {

constexpr std::size_t kShapesMax = 1024;  // remembered; then anew
constexpr std::size_t kNodeBytes = 24;
constexpr std::size_t kFewClauses = 16;   // asked one by one: about what an index costs

bool is_number(Type type) { return type == Type::kInt || type == Type::kFloat; }

// Can a value of this type be of this kind?
bool fits(Type type, Kind kind) {
  switch (kind) {
    case Kind::kAbsent: return false;
    case Kind::kPresent: return true;
    case Kind::kBool: return type == Type::kBool;
    case Kind::kNumber:
    case Kind::kAnyNumber: return is_number(type);
    case Kind::kString: return type == Type::kString;
    case Kind::kTimestamp: return type == Type::kTimestamp;
    case Kind::kBytes: return type == Type::kBytes;
  }
  return false;
}

}  // namespace

Permit::Permit(Of of, std::span<const std::string_view> filters, u64 seed, const SimdOps& simd) : of_(of) {
  for (std::size_t i = 0; i < filters.size(); ++i) {
    add_clauses(filters[i]);
    if (of == Of::kAdvertisement && clauses_.size() != i + 1)
      throw KernelError("usage", "an advertisement has filters of a single conjunction");
  }
  if (clauses_.size() <= kFewClauses) return;
  index_ = std::make_unique<Index>(seed, simd);
  std::vector<Subscription> all;
  for (const std::string_view filter : filters) all.push_back({0, static_cast<u32>(all.size()), filter});
  index_->insert(all);
}

void Permit::add_clauses(std::string_view filter) {
  FilterSpec spec;
  parse_filter(filter, spec);
  for (const Conjunction& conjunction : spec.conjunctions) {
    Clause& clause = clauses_.emplace_back();
    for (u32 i = 0; i < conjunction.constraint_count; ++i) {
      const Constraint& constraint = spec.constraints[conjunction.constraint_first + i];
      Binding& binding = clause.bindings.emplace_back();
      binding.attribute = constraint.attribute;
      binding.kind = constraint.kind;
      if (constraint.kind >= Kind::kBool && constraint.kind <= Kind::kBytes) binding.set = make_set(spec, constraint);
      binding.is_word = binding.set != nullptr && binding.set->texts.size() == 1 && is_points(spec, constraint);
    }
    for (u32 i = 0; i < conjunction.area_count; ++i) {
      const Area& area = spec.areas[conjunction.area_first + i];
      clause.places.push_back({std::string(area.latitude), std::string(area.longitude), make_area(area, 0, 0)});
    }
  }
}

// The attributes of an area are bound beside it.
bool Permit::names_all(const Clause& clause, const Slots& slots) const {
  const auto is_there = [&](const Binding& binding) { return slots.contains(binding.attribute); };
  return static_cast<std::size_t>(std::ranges::count_if(clause.bindings, is_there)) == slots.size();
}

// False if no event of the shape can match.
bool Permit::add_tests(const Clause& clause, const Slots& slots, std::vector<Test>& into) const {
  if (of_ == Of::kAdvertisement && !names_all(clause, slots)) return false;
  const std::size_t first = into.size();
  bool can_hold = true;
  for (const Binding& binding : clause.bindings) {
    const auto found = slots.find(binding.attribute);
    if (found == slots.end() ? binding.kind != Kind::kAbsent : !fits(found->second.type, binding.kind)) can_hold = false;
    else if (binding.set != nullptr)
      into.push_back({0, found->second, {}, binding.set.get(), binding.is_word ? &binding.set->texts[0].low : nullptr, nullptr});
  }
  for (const Place& place : clause.places)
    if (can_hold)
      into.push_back({0, slots.at(place.latitude), slots.at(place.longitude), nullptr, nullptr, place.area.get()});
  if (!can_hold) into.resize(first);
  for (std::size_t i = first; i < into.size(); ++i) into[i].otherwise = static_cast<u32>(into.size());
  return can_hold;
}

Permit::Plan Permit::plan_for(const EventView& event) const {
  Slots slots;
  walk_shape(event.shape, event.attribute_count, [&](u32 slot, Type type, std::string_view name) -> const char* {
    slots.emplace(name, Slot{slot, type});
    return nullptr;
  });
  Plan plan;
  for (const Clause& clause : clauses_) {
    if (index_ != nullptr) {
      if (of_ == Of::kAdvertisement) plan.knows.push_back(names_all(clause, slots));
      continue;
    }
    const std::size_t before = plan.tests.size();
    plan.is_sure |= add_tests(clause, slots, plan.tests) && plan.tests.size() == before;
  }
  return plan;
}

bool Permit::Test::holds(const EventView& event) const {
  if (word != nullptr) return event.text(value.slot) == *word;
  Cell cell;
  read_cell(event, value.slot, value.type, cell);
  if (area == nullptr) return set->has(cell);
  Cell other;
  read_cell(event, longitude.slot, longitude.type, other);
  const double lat = cell.number.d, lon = other.number.d;
  return cell.kind == Kind::kNumber && other.kind == Kind::kNumber && is_on_earth(lat, lon) &&
         area->holds(lat, lon, unit_vector(lat, lon));
}

std::size_t Permit::bytes() const {
  std::size_t total = sizeof *this + (index_ == nullptr ? 0 : index_->bytes());
  for (const Clause& clause : clauses_) {
    total += sizeof clause;
    for (const Binding& binding : clause.bindings) total += sizeof binding + (binding.set ? binding.set->bytes() : 0);
    for (const Place& place : clause.places) total += sizeof place + place.area->bytes();
  }
  for (const auto& [shape, plan] : plans_)
    total += kNodeBytes + sizeof plan + plan.tests.capacity() * sizeof(Test) + plan.knows.capacity();
  return total;
}

bool Permit::allows(const EventView& event, u64 shape) {
  if (last_ == nullptr || last_shape_ != shape) {
    auto known = plans_.find(shape);
    if (known == plans_.end()) {
      last_ = nullptr;
      if (plans_.size() >= kShapesMax) plans_.clear();
      known = plans_.emplace(shape, plan_for(event)).first;
    }
    last_ = &known->second;
    last_shape_ = shape;
  }
  if (index_ != nullptr) {
    index_->match_one(event, found_);
    if (of_ == Of::kIdentity) return !found_.empty();
    return std::ranges::any_of(found_, [&](u32 number) { return last_->knows[number] != 0; });
  }
  if (last_->is_sure) return true;
  for (u32 at = 0; at < last_->tests.size();) {
    const Test& test = last_->tests[at];
    if (!test.holds(event)) at = test.otherwise;
    else if (++at == test.otherwise) return true;
  }
  return false;
}

}  // namespace tidewire
