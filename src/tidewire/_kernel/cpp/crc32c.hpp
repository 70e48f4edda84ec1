// CRC-32C (Castagnoli): the processor's instruction where it has one, else tables; the same answers.
#pragma once

#include "base.hpp"

namespace tidewire {

// Goes on from the CRC of what was before; 0 at the beginning.
u32 crc32c(u32 before, const void* data, std::size_t size);

// The path without the instruction, for the test that compares them.
u32 crc32c_portable(u32 before, const void* data, std::size_t size);

bool crc32c_has_instruction();

}  // namespace tidewire
