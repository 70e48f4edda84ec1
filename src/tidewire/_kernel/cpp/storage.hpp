// Memory for many small things: an array that grows without copying, an arena with reuse, a compact hash table.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "base.hpp"

namespace tidewire {

// A growing array of plain values whose room is not cleared before it is written.
template <class T>
class Buffer {
 public:
  T* begin() { return items_.get(); }
  T* end() { return items_.get() + size_; }
  const T* begin() const { return items_.get(); }
  const T* end() const { return items_.get() + size_; }
  T& operator[](std::size_t i) { return items_[i]; }
  const T& operator[](std::size_t i) const { return items_[i]; }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return room_; }
  bool empty() const { return size_ == 0; }
  void clear() { size_ = 0; }

  // Room for so many more; what was written there counts once grown_to is told where it ends.
  T* room_for(std::size_t more) {
    if (size_ + more > room_) grow(size_ + more);
    return end();
  }
  void grown_to(const T* end) { size_ = static_cast<std::size_t>(end - items_.get()); }
  void push(const T& item) {
    *room_for(1) = item;
    ++size_;
  }

 private:
  void grow(std::size_t least) {
    room_ = least + least / 2;
    auto larger = std::make_unique_for_overwrite<T[]>(room_);
    if (size_ > 0) std::memcpy(larger.get(), items_.get(), size_ * sizeof(T));
    items_ = std::move(larger);
  }

  std::unique_ptr<T[]> items_;
  std::size_t size_ = 0, room_ = 0;
};

// Owns one thing; its copy owns a copy.
template <class T>
class Owned {
 public:
  Owned() = default;
  Owned(std::unique_ptr<T> thing) : thing_(std::move(thing)) {}
  Owned(const Owned& other) : thing_(other.thing_ == nullptr ? nullptr : std::make_unique<T>(*other.thing_)) {}
  Owned(Owned&&) noexcept = default;
  Owned& operator=(Owned&&) noexcept = default;
  T& operator*() const { return *thing_; }
  T* operator->() const { return thing_.get(); }
  bool operator==(std::nullptr_t) const { return thing_ == nullptr; }

 private:
  std::unique_ptr<T> thing_;
};

// An array in chunks: growing never moves or doubles it.
template <class T, u32 kBits = 13>
class Chunked {
 public:
  static constexpr u32 kChunk = 1u << kBits;
  Chunked() = default;
  Chunked(const Chunked& other) {
    chunks_.reserve(other.chunks_.size());
    for (u32 i = 0; i < other.size_; ++i) (*this)[add()] = T(other[i]);
  }
  Chunked(Chunked&&) noexcept = default;
  Chunked& operator=(Chunked&&) noexcept = default;
  T& operator[](u32 i) { return chunks_[i >> kBits][i & (kChunk - 1)]; }
  const T& operator[](u32 i) const { return chunks_[i >> kBits][i & (kChunk - 1)]; }
  u32 size() const { return size_; }

  u32 add() {
    if ((size_ & (kChunk - 1)) == 0 && (size_ >> kBits) == chunks_.size()) chunks_.push_back(std::make_unique<T[]>(kChunk));
    return size_++;
  }
  std::size_t bytes() const { return chunks_.size() * kChunk * sizeof(T) + chunks_.capacity() * sizeof(void*); }

 private:
  std::vector<std::unique_ptr<T[]>> chunks_;
  u32 size_ = 0;
};

// A chunked array whose freed places are given out again. Place 0 is never given out.
template <class T, u32 kBits = 13>
class Pool {
 public:
  Pool() { items_.add(); }
  T& operator[](u32 i) { return items_[i]; }
  const T& operator[](u32 i) const { return items_[i]; }

  u32 take() {
    if (free_.empty()) return items_.add();
    const u32 place = free_.back();
    free_.pop_back();
    return place;
  }
  void give(u32 place) {
    items_[place] = T();
    free_.push_back(place);
  }
  u32 limit() const { return items_.size(); }
  u32 used() const { return items_.size() - 1 - static_cast<u32>(free_.size()); }
  std::size_t bytes() const { return items_.bytes() + free_.capacity() * sizeof(u32); }

 private:
  Chunked<T, kBits> items_;
  std::vector<u32> free_;
};

// Byte strings in 4-byte units, named by a handle of 31 bits; freed ones are reused by size. Programs are
// read at random, so full chunks ask the system for large pages. Not before: one insertion would wait for a whole one.
class Arena {
 public:
  static constexpr u32 kUnit = 4;
  static constexpr u32 kChunkUnits = 1u << 19;
  static constexpr std::size_t kChunkBytes = std::size_t{kChunkUnits} * kUnit;

  Arena() = default;
  Arena(const Arena& other);
  Arena(Arena&&) noexcept = default;
  Arena& operator=(Arena&&) noexcept = default;

  u8* at(u32 handle) { return chunks_[handle / kChunkUnits].get() + std::size_t{handle % kChunkUnits} * kUnit; }
  const u8* at(u32 handle) const {
    return chunks_[handle / kChunkUnits].get() + std::size_t{handle % kChunkUnits} * kUnit;
  }

  u32 take(u32 size) {
    const u32 units = (size + kUnit - 1) / kUnit;
    if (units < free_.size() && !free_[units].empty()) {
      const u32 handle = free_[units].back();
      free_[units].pop_back();
      return handle;
    }
    if (units >= kChunkUnits) throw KernelError("filter-too-costly", "a filter is too large to store");
    if (chunks_.empty() || next_ + units > kChunkUnits) add_chunk();
    const u32 handle = static_cast<u32>(chunks_.size() - 1) * kChunkUnits + next_;
    next_ += units;
    return handle;
  }
  void give(u32 handle, u32 size) {
    const u32 units = (size + kUnit - 1) / kUnit;
    if (free_.size() <= units) free_.resize(units + 1);
    free_[units].push_back(handle);
  }
  // Of the last chunk, what was given out: the rest was never touched.
  std::size_t bytes() const {
    std::size_t total = chunks_.empty() ? 0 : (chunks_.size() - 1) * kChunkBytes + std::size_t{next_} * kUnit;
    for (const auto& list : free_) total += list.capacity() * sizeof(u32);
    return total;
  }

 private:
  struct Free {
    void operator()(u8* memory) const { std::free(memory); }
  };
  void add_chunk();

  std::vector<std::unique_ptr<u8, Free>> chunks_;
  std::vector<std::vector<u32>> free_;
  u32 next_ = 0;
};

// Open addressing over (32-bit tag, 32-bit id); the owner knows what an id means and compares.
class TagTable {
 public:
  static constexpr u32 kNone = 0;

  static u32 tag_of(u64 hash) { return static_cast<u32>(hash >> 32); }

  void prefetch_home(u32 tag) const {
    if (!slots_.empty()) prefetch(&slots_[home(tag)]);
  }

  template <class Same>
  u32 find(u32 tag, Same same) const {
    if (slots_.empty()) return kNone;
    for (std::size_t i = home(tag);; i = next(i)) {
      const Slot& slot = slots_[i];
      if (slot.id == kNone) return kNone;
      if (slot.tag == tag && same(slot.id)) return slot.id;
    }
  }

  void insert(u32 tag, u32 id) {
    if ((used_ + 1) * 8 > slots_.size() * 7) grow();
    place(tag, id);
    ++used_;
  }

  void erase(u32 tag, u32 id) {
    std::size_t i = home(tag);
    while (slots_[i].id != id) i = next(i);
    // Close the gap: move back every later entry whose home allows it.
    for (std::size_t j = next(i);; j = next(j)) {
      if (slots_[j].id == kNone) break;
      const std::size_t h = home(slots_[j].tag);
      const bool stays = i <= j ? (i < h && h <= j) : (i < h || h <= j);
      if (stays) continue;
      slots_[i] = slots_[j];
      i = j;
    }
    slots_[i] = Slot{};
    --used_;
  }

  u32 size() const { return static_cast<u32>(used_); }
  std::size_t bytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  struct Slot {
    u32 tag = 0;
    u32 id = kNone;
  };
  std::size_t home(u32 tag) const { return (static_cast<u64>(tag) * slots_.size()) >> 32; }
  std::size_t next(std::size_t i) const { return i + 1 == slots_.size() ? 0 : i + 1; }
  void place(u32 tag, u32 id) {
    std::size_t i = home(tag);
    while (slots_[i].id != kNone) i = next(i);
    slots_[i] = Slot{tag, id};
  }
  void grow() {
    std::vector<Slot> old;
    old.swap(slots_);
    slots_.resize(old.empty() ? 16 : old.size() + old.size() / 2);
    for (const Slot& slot : old)
      if (slot.id != kNone) place(slot.tag, slot.id);
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

// Many such tables as one: each grows on its own, so that nobody waits until all of it has moved.
class TagTables {
 public:
  template <class Same>
  u32 find(u32 tag, Same same) const {
    return parts_[tag % kParts].find(tag, same);
  }
  void prefetch_home(u32 tag) const { parts_[tag % kParts].prefetch_home(tag); }
  void insert(u32 tag, u32 id) { parts_[tag % kParts].insert(tag, id); }
  void erase(u32 tag, u32 id) { parts_[tag % kParts].erase(tag, id); }
  std::size_t bytes() const {
    std::size_t total = 0;
    for (const TagTable& part : parts_) total += part.bytes();
    return total;
  }

 private:
  static constexpr u32 kParts = 64;
  TagTable parts_[kParts];
};

}  // namespace tidewire
