// What is to be sent, by whom, and how many deliveries are expected. A text file, a word and its values on each line;
// bytes are in hexadecimal:
//
//   protocol NAME            how the incoming bytes are cut
//   address HOST PORT        numeric; of the connections that follow
//   authority FILE           the connections that follow use TLS, and the server's certificate is signed by one in this file
//   together N               connections that are set up at the same time; 1: one after the other
//   events N                 of each publisher
//   rate R                   events per second of each publisher, one at a time; 0: as fast as the server takes them
//   window N                 events of each publisher that may wait for their acknowledgement; 0: none is expected
//   expect N                 deliveries to all subscribers of this process, or acknowledgements to its publishers
//   publishers N             in all processes: sequences are checked for each
//   idle_s S                 end when nothing has come for so long
//   stamp N                  bytes from the end of a message to its 8-byte time, which the 8-byte sequence follows
//   payload_stamp N          the same, from the end of a delivered payload
//   born N                   the time also stands at this offset of a message (-1: nowhere)
//   number N                 the number of an event, two bytes, high first, stands at this offset of a message (-1: nowhere)
//   sequence N               the number of an event, eight bytes, low first, stands at this offset of a message (-1: nowhere)
//   keepalive BYTES SECONDS  sent on every connection, one after the other
//   connection publish|subscribe    what follows is of this connection
//   send BYTES               at the beginning
//   await BYTES              until these have come; what comes before them is thrown away
//   message BYTES            published, in turn with the others
//   begin BYTES              sent when the first turn begins; its time runs from then on, not from the first event's sending
//   again N last|all BEFORE BEHIND
//                            sent after every N deliveries, with the marks of all or of the last between (-: no bytes)
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

struct Again {
  u64 every = 0;  // 0: never
  bool with_all_marks = false;
  std::string before, behind;
};

struct ConnectionPlan {
  bool is_publisher;
  std::string host;
  u16 port;
  std::string authority;  // empty: no TLS
  std::vector<Step> steps;
  std::vector<std::string> messages;
  std::string begin;
  Again again;
};

struct Plan {
  const Protocol* protocol = nullptr;
  std::string host, authority;
  u16 port = 0;
  std::size_t together = 1;
  u64 events = 0, expect = 0, publishers = 1, window = 0;
  double rate = 0, idle_s = 2, keepalive_s = 0;
  std::size_t stamp = 0, payload_stamp = 0;
  i64 born = -1, number = -1, sequence = -1;
  std::string keepalive;
  std::vector<ConnectionPlan> connections;
};

// Throws std::runtime_error, with the line, if it cannot be read.
Plan read_plan(const std::string& path);

}  // namespace tidewire::bench
