// What is to be sent, by whom, and how many deliveries are expected. A text file, a word and its values on each line;
// bytes are in hexadecimal:
//
//   protocol NAME            how the incoming bytes are cut
//   address HOST PORT        numeric; of the connections that follow
//   authority FILE           the connections that follow use TLS, and the server's certificate is signed by one in this file
//   together N               connections that are set up at the same time; 1: one after the other
//   events N                 of each publisher
//   rate R                   events per second of each publisher, one at a time; 0: as fast as the server takes them
//   expect N                 deliveries to all subscribers of this process
//   publishers N             in all processes: sequences are checked for each
//   idle_s S                 end when nothing has come for so long
//   stamp N                  bytes from the end of a message to its 8-byte time, which the 8-byte sequence follows
//   payload_stamp N          the same, from the end of a delivered payload
//   born N                   the time also stands at this offset of a message (-1: nowhere)
//   keepalive BYTES SECONDS  sent on every connection, one after the other
//   connection publish|subscribe    what follows is of this connection
//   send BYTES               at the beginning
//   await BYTES              until these have come; what comes before them is thrown away
//   message BYTES            published, in turn with the others
#pragma once

#include <string>
#include <vector>

#include "base.hpp"
#include "streams.hpp"

namespace tidewire::bench {

struct Step {
  bool is_send;
  std::string bytes;
};

struct ConnectionPlan {
  bool is_publisher;
  std::string host;
  u16 port;
  std::string authority;  // empty: no TLS
  std::vector<Step> steps;
  std::vector<std::string> messages;
};

struct Plan {
  const Protocol* protocol = nullptr;
  std::string host, authority;
  u16 port = 0;
  std::size_t together = 1;
  u64 events = 0, expect = 0, publishers = 1;
  double rate = 0, idle_s = 2, keepalive_s = 0;
  std::size_t stamp = 0, payload_stamp = 0;
  i64 born = -1;
  std::string keepalive;
  std::vector<ConnectionPlan> connections;
};

// Throws std::runtime_error, with the line, if it cannot be read.
Plan read_plan(const std::string& path);

}  // namespace tidewire::bench
