// Which entries does each subscription have? Destinations and their numbers are small and mostly dense, but need not be.
#pragma once

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base.hpp"

namespace tidewire {

// A word per number of one destination; 0 means none.
class NumberMap {
 public:
  u32 find(u32 number) const {
    if (number < dense_.size()) return dense_[number];
    if (sparse_ == nullptr) return 0;
    const auto found = sparse_->find(number);
    return found == sparse_->end() ? 0 : found->second;
  }

  void set(u32 number, u32 word) {
    ++count_;
    if (number >= dense_.size() && number < kAlwaysDense + kSpread * count_) stretch(number);
    if (number < dense_.size()) {
      dense_[number] = word;
      return;
    }
    if (sparse_ == nullptr) sparse_ = std::make_unique<std::unordered_map<u32, u32>>();
    (*sparse_)[number] = word;
  }

  void clear(u32 number) {
    if (number < dense_.size()) dense_[number] = 0;
    else sparse_->erase(number);
    if (--count_ > 0) return;
    dense_ = {};
    sparse_.reset();
  }

  u32 count() const { return count_; }
  std::vector<u32> all() const {
    std::vector<u32> found;
    found.reserve(count_);
    for (u32 number = 0; number < dense_.size(); ++number)
      if (dense_[number] != 0) found.push_back(number);
    if (sparse_ != nullptr)
      for (const auto& [number, word] : *sparse_) found.push_back(number);
    return found;
  }
  std::size_t bytes() const {
    constexpr std::size_t kNodeBytes = 24;
    return dense_.capacity() * sizeof(u32) + (sparse_ ? sparse_->size() * kNodeBytes + sparse_->bucket_count() * 8 : 0);
  }

 private:
  static constexpr u32 kAlwaysDense = 4, kSpread = 4;

  void stretch(u32 number) {
    const std::size_t room = dense_.capacity();
    if (number >= room) dense_.reserve(std::max<std::size_t>(number + 1, room + room / 4));
    dense_.resize(number + 1);
    if (sparse_ == nullptr) return;
    for (auto at = sparse_->begin(); at != sparse_->end();) {
      if (at->first > number) {
        ++at;
        continue;
      }
      dense_[at->first] = at->second;
      at = sparse_->erase(at);
    }
  }

  std::vector<u32> dense_;
  std::unique_ptr<std::unordered_map<u32, u32>> sparse_;
  u32 count_ = 0;
};

// The map of each destination, in pages that exist once somebody is on them.
class References {
 public:
  const NumberMap* find(u32 destination) const {
    const u32 page = destination / kPage;
    return page < pages_.size() && pages_[page] ? &pages_[page][destination % kPage] : nullptr;
  }
  NumberMap& at(u32 destination) {
    const u32 page = destination / kPage;
    if (page >= pages_.size()) pages_.resize(page + 1);
    if (pages_[page] == nullptr) pages_[page] = std::make_unique<NumberMap[]>(kPage);
    limit_ = std::max(limit_, destination + 1);
    return pages_[page][destination % kPage];
  }
  u32 limit() const { return limit_; }  // beyond the largest destination so far
  std::size_t bytes() const {
    std::size_t total = pages_.capacity() * sizeof(void*);
    for (const auto& page : pages_)
      for (u32 i = 0; page && i < kPage; ++i) total += sizeof(NumberMap) + page[i].bytes();
    return total;
  }

 private:
  static constexpr u32 kPage = 256;
  std::vector<std::unique_ptr<NumberMap[]>> pages_;
  u32 limit_ = 0;
};

}  // namespace tidewire
