#include "ping.hpp"

namespace tidewire {

namespace {

// MessagePack: an array with the tag of the message and its fields (tidewire.model.messages).
constexpr char kPing[] = "\x92\x05", kPong[] = "\x94\x06";
constexpr std::size_t kHeadBytes = 2;
constexpr u8 kUnsigned8 = 0xcc, kSigned64 = 0xd3;

// How long an integer is that begins with this byte; 0: it is none.
std::size_t integer_bytes(u8 first) {
  constexpr std::size_t kBytes[] = {2, 3, 5, 9};  // of 8, 16, 32 and 64 bits, without a sign and then with
  if (first <= 0x7f || first >= 0xe0) return 1;
  return first >= kUnsigned8 && first <= kSigned64 ? kBytes[(first - kUnsigned8) & 3] : 0;
}

}  // namespace

bool pong_of(std::string_view frame, i64 now_ns, std::string& pong) {
  const std::string_view message = frame.substr(kFrameHead);
  if (!message.starts_with(std::string_view(kPing, kHeadBytes)) || message.size() == kHeadBytes) return false;
  const std::string_view sent = message.substr(kHeadBytes);
  if (integer_bytes(static_cast<u8>(sent[0])) != sent.size()) return false;
  pong.assign(kFrameHead, '\0');
  pong.append(kPong, kHeadBytes).append(sent);
  for (int i = 0; i < 2; ++i) {
    pong += static_cast<char>(kSigned64);
    for (int shift = 56; shift >= 0; shift -= 8) pong += static_cast<char>(static_cast<u64>(now_ns) >> shift);
  }
  store<u32>(pong.data(), static_cast<u32>(pong.size() - 4));
  pong[4] = static_cast<char>(FrameKind::kMessage);
  return true;
}

}  // namespace tidewire
