#include "streams.hpp"

#include <array>
#include <charconv>
#include <stdexcept>

#include "base.hpp"

namespace tidewire::bench {

namespace {

constexpr std::string_view kEndOfLine = "\r\n";
constexpr std::size_t kLengthMax = std::size_t{1} << 30;
constexpr Cut kIncomplete{};
constexpr Cut kBroken{Kind::kBroken, 0, {}};

u32 big16(std::string_view at) { return static_cast<u32>(static_cast<u8>(at[0])) << 8 | static_cast<u8>(at[1]); }
u32 big32(std::string_view at) { return big16(at) << 16 | big16(at.substr(2)); }
u64 big64(std::string_view at) { return u64{big32(at)} << 32 | big32(at.substr(4)); }

// The number that these digits are; beyond every limit if they are none.
std::size_t number_of(std::string_view digits) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc{} && end == digits.data() + digits.size() ? number : kLengthMax + 1;
}

// --- Tidewire: u32 length, u8 kind; docs/reference/wire.md ------------------------------------------------------------

constexpr u8 kMessageFrame = 1, kDeliverFrame = 4, kReceiptFrame = 8;
constexpr std::size_t kReceiptBytes = 5 + 8 + 8;  // sequence and tick
constexpr u8 kBye = 4, kPing = 5, kRefused = 16, kEventRefused = 17, kLost = 18;

// The pubend and the tick of a guaranteed event: behind what DELIVER has ahead of it, its head, publisher and sequence.
std::string_view place_of(std::string_view delivery) {
  constexpr std::size_t kHop = 20, kEventHead = 16, kStamped = 4 * 8;
  constexpr u16 kGuaranteed = 0b1111;
  if (delivery.size() <= kHop) return {};
  const std::size_t numbers = static_cast<u8>(delivery[kHop]), event = kHop + 1 + 4 * (numbers == 255 ? 0 : numbers);
  if (delivery.size() < event + kEventHead + kStamped) return {};
  if ((load<u16>(delivery.data() + event + 2) & kGuaranteed) != kGuaranteed) return {};
  return delivery.substr(event + kEventHead + 16, 16);
}

Cut cut_tidewire(std::string_view stream) {
  if (stream.size() < 5) return kIncomplete;
  const std::size_t size = std::size_t{load<u32>(stream.data())} + 4;
  if (size < 5 || size > kLengthMax) return kBroken;
  if (stream.size() < size) return kIncomplete;
  const u8 kind = static_cast<u8>(stream[4]);
  if (kind == kDeliverFrame) return {Kind::kDelivery, size, stream.substr(5, size - 5), {}, place_of(stream.substr(5, size - 5))};
  if (kind == kReceiptFrame && size == kReceiptBytes)
    return {Kind::kAck, size, {}, {.number = load<u64>(stream.data() + 5), .with_earlier = true}};
  if (kind != kMessageFrame || size < 7) return kBroken;
  switch (static_cast<u8>(stream[6])) {  // behind the head of a short array: the tag
    case kPing: return {Kind::kPing, size, {}};
    case kBye:
    case kRefused: return {Kind::kBroken, size, {}};
    case kEventRefused:
    case kLost: return {Kind::kComplaint, size, {}};
    default: return {Kind::kOther, size, {}};
  }
}

// How long an integer of msgpack is, by its first byte.
std::size_t integer_size(u8 first) {
  constexpr std::array<std::size_t, 4> kSizes = {2, 3, 5, 9};
  return first >= 0xcc && first <= 0xd3 ? kSizes[(first - 0xcc) & 3] : 1;
}

void append_i64(std::string& to, long long value) {
  to += '\xd3';
  for (int shift = 56; shift >= 0; shift -= 8) to += static_cast<char>(static_cast<u64>(value) >> shift);
}

// Pong: the ping's own time, then when it came and when this leaves.
std::string answer_tidewire(std::string_view ping, long long now_ns) {
  std::string pong("\0\0\0\0\x01\x94\x06", 7);
  if (ping.size() > 7) pong += ping.substr(7, integer_size(static_cast<u8>(ping[7])));
  append_i64(pong, now_ns);
  append_i64(pong, now_ns);
  store<u32>(pong.data(), static_cast<u32>(pong.size() - 4));
  return pong;
}

// --- NATS: MSG subject sid [reply] size -------------------------------------------------------------------------------

Cut cut_nats(std::string_view stream) {
  const std::size_t end = stream.find('\n');
  if (end == std::string_view::npos) return kIncomplete;
  const std::size_t head = end + 1;
  if (stream.starts_with("MSG ")) {
    const std::string_view line = stream.substr(0, end > 0 ? end - 1 : 0);
    const std::size_t size = number_of(line.substr(line.rfind(' ') + 1));
    if (size > kLengthMax) return kBroken;
    if (stream.size() < head + size + 2) return kIncomplete;
    return {Kind::kDelivery, head + size + 2, stream.substr(head, size)};
  }
  if (stream.starts_with("PING")) return {Kind::kPing, head, {}};
  if (stream.starts_with("-ERR")) return {Kind::kBroken, head, {}};
  return {Kind::kOther, head, {}};
}

std::string answer_nats(std::string_view, long long) { return "PONG\r\n"; }

// --- JetStream: what is delivered has a subject for its acknowledgement, what is acknowledged is told without one ---------

Cut cut_jetstream(std::string_view stream) {
  Cut cut = cut_nats(stream);
  if (cut.kind != Kind::kDelivery) return cut;
  const std::string_view line = stream.substr(0, stream.find('\r'));
  const std::size_t subject = line.find("$JS.ACK.", 4);
  if (subject != std::string_view::npos) {
    cut.mark = line.substr(subject, line.rfind(' ') - subject);
    return cut;
  }
  return {cut.payload.starts_with("{\"stream\"") ? Kind::kAck : Kind::kBroken, cut.size, {}};
}

// --- Redis: *3 message channel payload; :n for what was published ------------------------------------------------------

// A value of RESP that is no array: its size, 0 if it has not come; the content of a bulk string in `content`.
std::size_t cut_value(std::string_view stream, std::string_view& content) {
  const std::size_t end = stream.find(kEndOfLine);
  if (end == std::string_view::npos) return 0;
  const std::size_t head = end + 2;
  if (stream[0] != '$') return head;
  const std::size_t size = number_of(stream.substr(1, end - 1));
  if (size > kLengthMax || stream.size() < head + size + 2) return size > kLengthMax ? head : 0;
  content = stream.substr(head, size);
  return head + size + 2;
}

Cut cut_redis(std::string_view stream) {
  if (stream.empty()) return kIncomplete;
  if (stream[0] == '-') return {Kind::kBroken, stream.size(), {}};
  std::string_view first, last;
  if (stream[0] != '*') {
    const std::size_t size = cut_value(stream, first);
    return size == 0 ? kIncomplete : Cut{Kind::kOther, size, {}};
  }
  std::size_t at = stream.find(kEndOfLine);
  if (at == std::string_view::npos) return kIncomplete;
  const std::size_t count = number_of(stream.substr(1, at - 1));
  if (count > 64) return kBroken;
  at += 2;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = at < stream.size() ? cut_value(stream.substr(at), i == 0 ? first : last) : 0;
    if (size == 0) return kIncomplete;
    at += size;
  }
  if (first == "message" || first == "pmessage") return {Kind::kDelivery, at, last};
  return {Kind::kOther, at, {}};
}

// --- Redis, streams: the id of what was added; entries of *2 id *2 field payload, behind *1 *2 stream *n ----------------

Cut cut_redis_stream(std::string_view stream) {
  if (stream.empty()) return kIncomplete;
  if (stream[0] == '-') return {Kind::kBroken, stream.size(), {}};
  const std::size_t head = stream.find(kEndOfLine) + 2;
  if (head < 2) return kIncomplete;
  std::string_view content;
  if (stream[0] != '*') {
    const std::size_t size = cut_value(stream, content);
    if (size == 0) return kIncomplete;
    return {stream[0] == '$' ? Kind::kAck : Kind::kOther, size, {}};
  }
  // An array of arrays only wraps others; what it wraps is cut by itself. So is the name of the stream, with its count.
  constexpr std::string_view kPair = "*2\r\n";
  if (!stream.starts_with(kPair)) return {Kind::kOther, head, {}};
  if (head == stream.size()) return kIncomplete;
  if (stream[head] != '$') return {Kind::kOther, head, {}};
  const std::size_t id = cut_value(stream.substr(head), content);
  std::size_t at = head + id;
  if (id == 0 || at == stream.size()) return kIncomplete;
  const std::size_t inner = stream.find(kEndOfLine, at) + 2;
  if (inner < 2) return kIncomplete;
  if (stream.substr(at, inner - at) != kPair || content.find('-') == std::string_view::npos)
    return {Kind::kOther, inner, {}};
  at = inner;
  for (int i = 0; i < 2; ++i) {
    const std::size_t size = at < stream.size() ? cut_value(stream.substr(at), content) : 0;
    if (size == 0) return kIncomplete;
    at += size;
  }
  return {Kind::kDelivery, at, content, {}, stream.substr(head, id)};
}

// --- MQTT 3.1.1: u8 type and flags, length in groups of seven bits ----------------------------------------------------

Cut cut_mqtt(std::string_view stream) {
  std::size_t size = 0, at = 1;
  for (int shift = 0;; shift += 7, ++at) {
    if (shift > 21) return kBroken;
    if (at >= stream.size()) return kIncomplete;
    const u8 group = static_cast<u8>(stream[at]);
    size |= static_cast<std::size_t>(group & 127) << shift;
    if (group < 128) break;
  }
  const std::size_t head = at + 1;
  if (stream.size() < head + size) return kIncomplete;
  const int type = static_cast<u8>(stream[0]) >> 4, quality = static_cast<u8>(stream[0]) >> 1 & 3;
  const std::string_view body = stream.substr(head, size);
  if (type == 4 && size == 2) return {Kind::kAck, head + size, {}, {.number = big16(body), .numbers = kPacketNumbers}};
  if (type != 3) return {type == 14 ? Kind::kBroken : Kind::kOther, head + size, {}};
  if (body.size() < 2) return kBroken;
  const std::size_t name = 2 + big16(body), start = name + (quality > 0 ? 2 : 0);
  if (start > body.size()) return kBroken;
  return {Kind::kDelivery, head + size, body.substr(start), {}, body.substr(name, start - name)};
}

// --- AMQP 0-9-1: u8 type, u16 channel, u32 size, payload, end mark; a body frame is a delivery --------------------------

constexpr u32 kConnectionClose = 10 << 16 | 50, kChannelClose = 20 << 16 | 40;
constexpr u32 kDeliver = 60 << 16 | 60, kAcknowledged = 60 << 16 | 80, kNack = 60 << 16 | 120;

Cut cut_amqp(std::string_view stream) {
  if (stream.size() < 7) return kIncomplete;
  const std::size_t size = big32(stream.substr(3));
  if (size > kLengthMax) return kBroken;
  if (stream.size() < size + 8) return kIncomplete;
  if (stream[size + 7] != '\xce') return kBroken;
  const std::string_view payload = stream.substr(7, size);
  if (stream[0] == 3) return {Kind::kDelivery, size + 8, payload};
  switch (stream[0] == 1 && size >= 4 ? big32(payload) : 0) {
    case kConnectionClose:
    case kChannelClose:
    case kNack: return {Kind::kBroken, size + 8, {}};
    case kAcknowledged:
      if (size < 13) return kBroken;
      return {Kind::kAck, size + 8, {}, {.number = big64(payload.substr(4)), .with_earlier = (payload[12] & 1) != 0}};
    case kDeliver: {  // the consumer's name, then the tag; its body comes in a frame of its own
      const std::size_t tag = size > 4 ? 5 + static_cast<u8>(payload[4]) : size;
      return tag + 8 > size ? kBroken : Cut{Kind::kOther, size + 8, {}, {}, payload.substr(tag, 8)};
    }
    default: return {Kind::kOther, size + 8, {}};
  }
}

// --- STOMP: command and headers, an empty line, the body, a zero ------------------------------------------------------

Cut cut_stomp(std::string_view stream) {
  const std::size_t start = stream.find_first_not_of("\r\n");
  if (start == std::string_view::npos) return stream.empty() ? kIncomplete : Cut{Kind::kOther, stream.size(), {}};
  const std::size_t blank = stream.find("\n\n", start);
  if (blank == std::string_view::npos) return kIncomplete;
  const std::string_view head = stream.substr(start, blank - start);
  const std::size_t body = blank + 2;
  constexpr std::string_view kLength = "\ncontent-length:";
  std::size_t end = std::string_view::npos;
  if (const std::size_t at = head.find(kLength); at != std::string_view::npos) {
    const std::string_view rest = head.substr(at + kLength.size());
    const std::size_t size = number_of(rest.substr(0, rest.find('\n')));
    if (size > kLengthMax) return kBroken;
    end = body + size;
  } else {
    end = stream.find('\0', body);
  }
  if (end == std::string_view::npos || end >= stream.size()) return kIncomplete;
  if (head.starts_with("MESSAGE")) return {Kind::kDelivery, end + 1, stream.substr(body, end - body)};
  return {head.starts_with("ERROR") ? Kind::kBroken : Kind::kOther, end + 1, {}};
}

std::string no_answer(std::string_view, long long) { return {}; }

constexpr std::array<Protocol, 8> kProtocols = {{
    {"tidewire", cut_tidewire, answer_tidewire},
    {"nats", cut_nats, answer_nats},
    {"jetstream", cut_jetstream, answer_nats},
    {"redis", cut_redis, no_answer},
    {"redis-streams", cut_redis_stream, no_answer},
    {"mqtt", cut_mqtt, no_answer},
    {"amqp", cut_amqp, no_answer},
    {"stomp", cut_stomp, no_answer},
}};

}  // namespace

const Protocol& protocol_named(std::string_view name) {
  for (const Protocol& protocol : kProtocols)
    if (protocol.name == name) return protocol;
  throw std::runtime_error("no protocol is called " + std::string(name));
}

}  // namespace tidewire::bench
