#include "vocabulary.hpp"

namespace tidewire {

u32 Vocabulary::find_attribute(std::string_view name) const {
  const u32 tag = TagTable::tag_of(hash_bytes(name.data(), name.size(), seed_));
  return names_.find(tag, [&](u32 id) { return attributes_[id].name == name; });
}

u32 Vocabulary::intern_attribute(std::string_view name) {
  if (const u32 found = find_attribute(name)) return found;
  u32 id = 0;
  if (!free_attributes_.empty()) {
    id = free_attributes_.back();
    free_attributes_.pop_back();
  } else {
    if (attributes_.size() > kAttributeIdsMax)
      throw KernelError("filter-too-costly", "the filters of this index name too many different attributes (32766)");
    id = static_cast<u32>(attributes_.size());
    attributes_.emplace_back();
  }
  attributes_[id] = Attribute{std::string(name), 0, 0, 0};
  names_.insert(TagTable::tag_of(hash_bytes(name.data(), name.size(), seed_)), id);
  ++generation_;
  return id;
}

void Vocabulary::drop_attribute(u32 id) {
  --attributes_[id].uses;
  forget_unused_attribute(id);
}

void Vocabulary::forget_unused_attribute(u32 id) {
  Attribute& attribute = attributes_[id];
  if (attribute.uses > 0 || attribute.distinct > 0 || attribute.presence_cluster != 0 || attribute.name.empty()) return;
  names_.erase(TagTable::tag_of(hash_bytes(attribute.name.data(), attribute.name.size(), seed_)), id);
  attribute = Attribute{};
  free_attributes_.push_back(id);
  ++generation_;
}

u32 Vocabulary::tag_of(u32 attribute, const Scalar& value) const {
  const u64 seed = seed_ ^ (static_cast<u64>(attribute) << 32) ^ (static_cast<u64>(value.kind) << 56);
  if (value.kind == Kind::kString || value.kind == Kind::kBytes)
    return TagTable::tag_of(hash_bytes(value.text.data(), value.text.size(), seed));
  return TagTable::tag_of(hash_u64(value.bits + static_cast<u64>(static_cast<i64>(value.rest)) * kMix0, seed));
}

u32 Vocabulary::find_key(u32 tag, u32 attribute, const Scalar& value) const {
  return table_.find(tag, [&](u32 id) {
    const Key& key = keys_[id];
    return key.attribute == attribute && key.kind == value.kind && key.bits == value.bits && key.rest == value.rest &&
           key.text == value.text;
  });
}

u32 Vocabulary::intern_key(u32 attribute, const Scalar& value) {
  const u32 tag = tag_of(attribute, value);
  if (const u32 found = find_key(tag, attribute, value)) return found;
  const u32 id = keys_.take();
  Key& key = keys_[id];
  key.text = value.text;
  key.bits = value.bits;
  key.rest = value.rest;
  key.attribute = static_cast<u16>(attribute);
  key.kind = value.kind;
  table_.insert(tag, id);
  ++attributes_[attribute].distinct;
  return id;
}

void Vocabulary::drop_key(u32 id) {
  --keys_[id].refs;
  forget_unused_key(id);
}

void Vocabulary::forget_unused_key(u32 id) {
  Key& key = keys_[id];
  if (key.refs > 0 || key.cluster != 0 || key.attribute == 0) return;
  table_.erase(tag_of(key.attribute, key.scalar()), id);
  --attributes_[key.attribute].distinct;
  keys_.give(id);
}

std::size_t Vocabulary::bytes() const {
  std::size_t total = attributes_.capacity() * sizeof(Attribute) + names_.bytes() + keys_.bytes() + table_.bytes();
  for (u32 i = 1; i < keys_.limit(); ++i)
    if (keys_[i].text.capacity() > 15) total += keys_[i].text.capacity() + 1;
  return total;
}

}  // namespace tidewire
