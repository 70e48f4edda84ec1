// One connection to the server, plain or by TLS: it is set up step by step, then read and written without waiting.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan.hpp"
#include "tls.hpp"
#include "window.hpp"

namespace tidewire::bench {

i64 now_ns();  // monotonic, the same in every process of a machine

std::string readable(std::string_view bytes);  // the first of them, what does not print as a dot

class Connection {
 public:
  // Connects, by TLS if there is a trust, and sends what comes before the first answer; std::runtime_error if the server
  // does not play along.
  Connection(const Plan& plan, const ConnectionPlan& own, const Trust* trust);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  bool is_publisher() const { return own_.is_publisher; }
  const std::vector<std::string>& messages() const { return own_.messages; }
  // What it says when its first turn begins; nothing the next time.
  std::string take_begin() { return std::exchange(begin_, {}); }
  void close();

  // Waits for the next answer of the beginning and sends what follows it; true when the beginning is over.
  bool begin_further();

  // Sends what waits, as far as the socket takes it now; how many bytes that were. Closes on an error.
  std::size_t send_some();
  bool has_unsent() const { return sent_ < unsent_.size(); }
  // To append to: whole messages only.
  std::string& outgoing();

  // Reads into the buffer, behind what was left over the last time; a view of all of it. Closes at the end.
  std::string_view read_some(std::vector<char>& buffer);
  // Is there more that epoll does not know of?
  bool has_more() const { return has_more_; }
  // What of that view could not be used yet.
  void keep(std::string_view rest) { rest_.assign(rest); }

  // A reader's side: this delivery has such a mark; now it is complete. What is to be said after so many is then unsent.
  void note(std::string_view mark);
  void delivered();

  u64 bytes_in = 0;
  u64 next = 0;                // publisher: the next sequence
  Window window;               // publisher: what waits for its acknowledgement
  std::vector<u64> last_seen;  // subscriber: of each publisher, one more than the last sequence
  std::string error;           // why it was closed

 private:
  void send_all(std::string_view bytes);
  void await(std::string_view wanted);
  void send_until_answer();
  ssize_t receive(char* to, std::size_t room);
  ssize_t transmit(const char* from, std::size_t count);

  const ConnectionPlan& own_;
  int fd_ = -1;
  std::unique_ptr<Tls> tls_;
  std::size_t step_ = 0;
  bool has_more_ = false;
  std::string begin_, unsent_, rest_, marks_;
  u64 since_again_ = 0;
  std::size_t sent_ = 0;
};

}  // namespace tidewire::bench
