#include "storage.hpp"

#include <sys/mman.h>

namespace tidewire {

void Arena::add_chunk() {
  if ((chunks_.size() + 1) * u64{kChunkUnits} > u64{1} << 31) throw std::bad_alloc();
  std::unique_ptr<u8, Free> chunk(static_cast<u8*>(std::aligned_alloc(kChunkBytes, kChunkBytes)));
  if (chunk == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  if (!chunks_.empty()) madvise(chunks_.back().get(), kChunkBytes, MADV_HUGEPAGE);  // a wish, for the full one
#endif
  chunks_.push_back(std::move(chunk));
  next_ = chunks_.size() == 1 ? 1 : 0;  // handle 0 is nobody's
}

Arena::Arena(const Arena& other) : free_(other.free_) {
  while (chunks_.size() < other.chunks_.size()) {
    const std::size_t place = chunks_.size();
    add_chunk();
    const bool is_last = place + 1 == other.chunks_.size();
    std::memcpy(chunks_[place].get(), other.chunks_[place].get(), is_last ? std::size_t{other.next_} * kUnit : kChunkBytes);
  }
  next_ = other.next_;
}

}  // namespace tidewire
