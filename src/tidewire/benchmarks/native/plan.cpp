#include "plan.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tidewire::bench {

namespace {

constexpr std::size_t kStampBytes = 16;

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  throw std::runtime_error("bytes are written in hexadecimal, 0-9 and a-f");
}

std::string bytes_of(const std::string& text) {
  if (text == "-") return {};
  if (text.size() % 2 != 0) throw std::runtime_error("half a byte");
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t at = 0; at < text.size(); at += 2)
    bytes += static_cast<char>(digit_of(text[at]) << 4 | digit_of(text[at + 1]));
  return bytes;
}

template <class T>
T value_of(std::istringstream& line) {
  T value{};
  if (!(line >> value)) throw std::runtime_error("a value is missing or of another kind");
  return value;
}

std::string rest_of(std::istringstream& line) {
  std::string rest;
  if (!std::getline(line >> std::ws, rest)) throw std::runtime_error("a value is missing");
  return rest;
}

Again again_of(std::istringstream& line) {
  Again again;
  again.every = value_of<u64>(line);
  again.with_all_marks = value_of<std::string>(line) == "all";
  again.before = bytes_of(value_of<std::string>(line));
  again.behind = bytes_of(value_of<std::string>(line));
  return again;
}

void read_line(Plan& plan, const std::string& word, std::istringstream& line) {
  const auto connection = [&plan]() -> ConnectionPlan& {
    if (plan.connections.empty()) throw std::runtime_error("no connection yet");
    return plan.connections.back();
  };
  if (word == "protocol") plan.protocol = &protocol_named(value_of<std::string>(line));
  else if (word == "address") plan.host = value_of<std::string>(line), plan.port = value_of<u16>(line);
  else if (word == "authority") plan.authority = rest_of(line);
  else if (word == "together") plan.together = value_of<std::size_t>(line);
  else if (word == "events") plan.events = value_of<u64>(line);
  else if (word == "rate") plan.rate = value_of<double>(line);
  else if (word == "window") plan.window = value_of<u64>(line);
  else if (word == "expect") plan.expect = value_of<u64>(line);
  else if (word == "publishers") plan.publishers = value_of<u64>(line);
  else if (word == "idle_s") plan.idle_s = value_of<double>(line);
  else if (word == "stamp") plan.stamp = value_of<std::size_t>(line);
  else if (word == "payload_stamp") plan.payload_stamp = value_of<std::size_t>(line);
  else if (word == "born") plan.born = value_of<i64>(line);
  else if (word == "number") plan.number = value_of<i64>(line);
  else if (word == "sequence") plan.sequence = value_of<i64>(line);
  else if (word == "keepalive")
    plan.keepalive = bytes_of(value_of<std::string>(line)), plan.keepalive_s = value_of<double>(line);
  else if (word == "connection")
    plan.connections.push_back({value_of<std::string>(line) == "publish", plan.host, plan.port, plan.authority, {}, {}, {}, {}});
  else if (word == "send") connection().steps.push_back({true, bytes_of(value_of<std::string>(line))});
  else if (word == "await") connection().steps.push_back({false, bytes_of(value_of<std::string>(line))});
  else if (word == "message") connection().messages.push_back(bytes_of(value_of<std::string>(line)));
  else if (word == "begin") connection().begin = bytes_of(value_of<std::string>(line));
  else if (word == "again") connection().again = again_of(line);
  else throw std::runtime_error("not a word of a plan");
}

void check(const Plan& plan) {
  if (plan.protocol == nullptr || plan.connections.empty())
    throw std::runtime_error("a plan needs a protocol and connections");
  if (plan.together == 0) throw std::runtime_error("together: no connection would be set up");
  if (plan.payload_stamp < kStampBytes) throw std::runtime_error("payload_stamp: no room for time and sequence");
  if (plan.window > 0 && plan.rate > 0) throw std::runtime_error("a window and a rate do not go together");
  for (const ConnectionPlan& connection : plan.connections) {
    if (plan.window > 0 && !connection.is_publisher)
      throw std::runtime_error("acknowledgements and deliveries are counted by different processes");
    if (connection.port == 0) throw std::runtime_error("a connection has no address");
    if (connection.is_publisher && connection.messages.empty()) throw std::runtime_error("a publisher has no message");
    for (const std::string& message : connection.messages) {
      const bool has_stamp = plan.stamp >= kStampBytes && plan.stamp <= message.size();
      if (!has_stamp || std::max({plan.born + 8, plan.number + 2, plan.sequence + 8}) > static_cast<i64>(message.size()))
        throw std::runtime_error("a message has no room for its stamp");
    }
  }
}

}  // namespace

Plan read_plan(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  Plan plan;
  std::string text, word;
  for (int number = 1; std::getline(file, text); ++number) {
    std::istringstream line(text);
    if (!(line >> word)) continue;
    try {
      read_line(plan, word, line);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(path + ", line " + std::to_string(number) + ", " + word + ": " + error.what());
    }
  }
  check(plan);
  return plan;
}

}  // namespace tidewire::bench
