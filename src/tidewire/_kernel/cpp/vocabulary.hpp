// The names and values that filters mention: attributes and keys (an attribute with one value) get small numbers.
#pragma once

#include "filter.hpp"
#include "storage.hpp"

namespace tidewire {

inline constexpr u32 kAttributeIdsMax = 32766;

// One value, of any kind, as it is hashed and compared.
struct Scalar {
  Kind kind = Kind::kAbsent;
  u64 bits = 0;  // bool, timestamp; a number's double
  i32 rest = 0;  // a number's rest
  std::string_view text;

  static Scalar of_number(Number n) { return {Kind::kNumber, std::bit_cast<u64>(n.d), n.r, {}}; }
  static Scalar of_int(Kind kind, i64 value) { return {kind, static_cast<u64>(value), 0, {}}; }
  static Scalar of_text(Kind kind, std::string_view text) { return {kind, 0, 0, text}; }
};

struct Attribute {
  std::string name;
  u32 uses = 0;             // entries that constrain it
  u32 distinct = 0;         // keys it has
  u32 presence_cluster = 0;
};

struct Key {
  std::string text;
  u64 bits = 0;
  i32 rest = 0;
  u32 refs = 0;
  u32 cluster = 0;
  u16 attribute = 0;
  Kind kind = Kind::kAbsent;

  Scalar scalar() const { return {kind, bits, rest, text}; }
};

class Vocabulary {
 public:
  explicit Vocabulary(u64 seed) : seed_(seed) { attributes_.emplace_back(); }

  u32 find_attribute(std::string_view name) const;
  u32 intern_attribute(std::string_view name);
  Attribute& attribute(u32 id) { return attributes_[id]; }
  const Attribute& attribute(u32 id) const { return attributes_[id]; }
  u32 attribute_limit() const { return static_cast<u32>(attributes_.size()); }
  void use_attribute(u32 id) { ++attributes_[id].uses; }
  void drop_attribute(u32 id);
  void forget_unused_attribute(u32 id);
  // Changes whenever a name comes or goes: what was resolved before must be resolved again.
  u64 generation() const { return generation_; }

  u32 tag_of(u32 attribute, const Scalar& value) const;
  void prefetch_home(u32 tag) const { table_.prefetch_home(tag); }
  void prefetch_key(u32 tag) const { prefetch(&keys_[table_.find(tag, [](u32) { return true; })]); }
  u32 find_key(u32 tag, u32 attribute, const Scalar& value) const;
  u32 intern_key(u32 attribute, const Scalar& value);
  Key& key(u32 id) { return keys_[id]; }
  const Key& key(u32 id) const { return keys_[id]; }
  void use_key(u32 id) { ++keys_[id].refs; }
  void drop_key(u32 id);
  void forget_unused_key(u32 id);

  std::size_t bytes() const;

 private:
  u64 seed_;
  std::vector<Attribute> attributes_;
  std::vector<u32> free_attributes_;
  TagTable names_;
  u64 generation_ = 1;
  Pool<Key, 10> keys_;
  TagTables table_;
};

}  // namespace tidewire
