#include "storage.hpp"

#include <sys/mman.h>

namespace tidewire {

u8* Arena::large_pages(std::size_t size) {
  auto* memory = static_cast<u8*>(std::aligned_alloc(size, size));
  if (memory == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  madvise(memory, size, MADV_HUGEPAGE);  // a wish: without it all is the same, only slower
#endif
  return memory;
}

}  // namespace tidewire
