// One connection to the server: it is set up step by step, then read and written without waiting.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plan.hpp"

namespace tidewire::bench {

i64 now_ns();  // monotonic, the same in every process of a machine

std::string readable(std::string_view bytes);  // the first of them, what does not print as a dot

class Connection {
 public:
  // Connects and goes through the steps; std::runtime_error if the server does not play along.
  Connection(const Plan& plan, const ConnectionPlan& own);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  bool is_publisher() const { return own_.is_publisher; }
  const std::vector<std::string>& messages() const { return own_.messages; }
  void close();

  // Sends what waits, as far as the socket takes it now; how many bytes that were. Closes on an error.
  std::size_t send_some();
  bool has_unsent() const { return sent_ < unsent_.size(); }
  // To append to: whole messages only.
  std::string& outgoing();

  // Reads once into the buffer, behind what was left over the last time; a view of all of it. Closes at the end.
  std::string_view read_some(std::vector<char>& buffer);
  // What of that view could not be used yet.
  void keep(std::string_view rest) { rest_.assign(rest); }

  u64 bytes_in = 0;
  u64 next = 0;                // publisher: the next sequence
  std::vector<u64> last_seen;  // subscriber: of each publisher, one more than the last sequence
  std::string error;           // why it was closed

 private:
  void send_all(std::string_view bytes);
  void await(std::string_view wanted);

  const ConnectionPlan& own_;
  int fd_ = -1;
  std::string unsent_, rest_;
  std::size_t sent_ = 0;
};

}  // namespace tidewire::bench
