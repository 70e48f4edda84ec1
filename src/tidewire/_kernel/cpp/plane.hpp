// The data plane of a broker: bytes of connections in, bytes for connections out, by the routes that are installed.
// What it promises is in src/tidewire/dataplane/protocol.py, which it implements.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <span>

#include "capacity.hpp"
#include "classes.hpp"
#include "connection.hpp"
#include "inspect.hpp"
#include "routes.hpp"
#include "stamp.hpp"
#include "streams.hpp"

namespace tidewire {

inline constexpr u32 kEventsMax = 256;  // that are worked on together

inline u64 clock_ns() {
  return static_cast<u64>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// What came of a call, beside the events that are now in the queues.
struct Outcome {
  struct Refusal {
    const char *code, *reason;
    std::vector<u64> sequences;
    u64 further = 0;
    bool is_guaranteed = false;
  };
  State state = State::kIdle;
  bool has_message = false;
  std::string message, reason;
  std::vector<Refusal> refusals;
  std::vector<u32> ready, overrun, stalled;
  std::vector<std::pair<u32, int>> ended;  // errno; 0: the other side has ended it
  StreamNews news;

  void clear();
  // Nothing that the caller must know, but for the state.
  bool is_silent() const {
    return !has_message && refusals.empty() && ready.empty() && overrun.empty() && stalled.empty() && ended.empty() &&
           news.empty();
  }
  bool is_quiet() const { return state == State::kIdle && is_silent(); }
};

struct Work {
  u64 events = 0, matches = 0, deliveries = 0, forwards = 0, refused = 0, busy_ns = 0;
};

class Plane {
 public:
  struct Options {
    u64 seed = 0;
    u32 frame_bytes_max = 2u << 20;
    u64 budget_ns = 1'000'000;  // of a call; 0: none
    u64 window_ticks_max = u64{10'000} << kTickCounterBits;  // of a stream, ahead of its horizon
    u64 cache_bytes_max = 8u << 20;                          // of a stream that is hosted elsewhere
    bool is_fair = true;                                     // each stream has a queue of its own in every link
  };
  Plane(const Options& options, const SimdOps& simd);

  // plane.cpp
  void open(u32 conn, bool is_link, WhenFull when_full, u64 queue_bytes_max);
  void close(u32 conn);
  void make_link(u32 conn, u64 queue_bytes_max, u64 frame_bytes_max);
  void may_publish(u32 conn, u64 publisher, u64 next_sequence);
  void permit(u32 conn, const std::vector<std::string_view>* filters);
  void allow(u32 conn, const std::vector<std::string_view>* filters);
  void set_clock(u32 conn, i64 offset_ns, u32 error_us);
  void set_classes(const std::vector<TrafficClass>& classes) { classes_.set(classes, options_.seed, *simd_); }
  void own_tree(u64 tree);
  void set_parent(u64 tree, std::optional<u32> parent);
  void forget_tree(u64 tree);
  void add_routes(u32 conn, const std::vector<u32>& numbers, const std::vector<std::string_view>& filters,
                  std::optional<u64> tree);
  void remove_routes(u32 conn, const std::vector<u32>& numbers, std::optional<u64> tree);
  bool send(u32 conn, std::string_view frame, bool is_control);
  std::size_t waiting(u32 conn) const { return at(conn).out.size(); }
  // How many bytes? `now`: nullopt if it is that of the last call that said so.
  std::size_t output(u32 conn, char* to, std::size_t count, std::optional<i64> now);
  std::vector<u32> unblocked();
  Traffic traffic(u32 conn) const;
  Traffic totals();
  std::vector<u32> lossy();
  const Work& work() const { return work_; }
  u64 subscriptions() const;
  std::size_t bytes() const;

  // plane_sample.cpp
  struct Wanted {
    std::vector<u32> conns;
    std::vector<std::string> vectors;
  };
  void sample(u32 count);
  const std::vector<std::string>& samples() const { return samples_; }
  Wanted wanted_samples();

  // plane_stream.cpp
  struct TakenPlace {
    u32 conn, number;
    u64 pubend, tick;
  };
  void trust(u64 tree, const std::vector<std::pair<u64, u64>>& places, bool is_all);
  void widen(u64 tree);
  const Outcome& attend(u64 pubend, std::optional<u64> place);
  std::vector<StreamState> streams() const;
  std::vector<TickSpan> doubts(u64 pubend, u64 end, u32 count_max) const;
  void follow(u32 conn, u32 number);
  void owe(u32 conn, u32 number, u64 pubend, u64 place, u64 sound, u64 settled);
  std::vector<TakenPlace> taken();

  // plane_host.cpp
  void host(Log* log, const std::vector<u64>& pubends, i64 unix_offset_ns, i64 now);
  const Outcome& committed(i64 now);
  const Outcome& silence(u64 pubend, i64 now);
  int start_log();
  bool has_appended() const { return has_appended_; }
  const Outcome& submit(i64 now);
  void limit(u64 pubend, std::optional<double> events_s, i64 now);
  std::vector<std::pair<u64, u64>> heads() const;

  // plane_replay.cpp
  std::vector<TickSpan> answer(u32 conn, u64 tree, u64 pubend, const std::vector<TickSpan>& ranges);
  void replay(u64 replay, u32 conn, u32 number, u64 pubend, u64 place, std::string_view wanted, i64 bytes_max);
  void catch_up(u64 replay, u32 conn, u32 number, u64 pubend);
  void relay(u32 link, u64 replay, u32 conn, u32 number, u64 pubend);
  void end_replay(u64 replay);
  std::optional<std::pair<u32, u64>> stop_replay(u32 conn, u32 number);
  const Outcome& serve(i64 now);
  bool is_serving();

  // plane_flow.cpp
  const Outcome& receive(u32 conn, std::string_view data, i64 now_ns);
  const Outcome& resume(u32 conn, i64 now_ns);

  // plane_live.cpp
  void attach(u32 conn, int fd, std::unique_ptr<TlsLine> tls);
  const Outcome& pump(u32 conn, i64 now_ns);
  const Outcome& flush(u32 conn);
  void ignore(u32 conn);

  // plane_rest.cpp
  void limit_to(double cpu_share, double output_bytes_s);
  std::optional<u64> rest_ns();

  // plane_wait.cpp
  // What ended a waiting: sockets that are not the plane's or want more than to be read, and what is to be told, of a
  // connection that was pumped or (kNobody) of sockets that were written.
  struct Woken {
    std::vector<std::pair<int, u32>> others;  // fd and what epoll says of it
    u32 conn = kNobody;
    const Outcome* outcome = nullptr;  // nullptr: nothing
  };
  const Woken& wait(int epoll, int timeout_ms);

 private:
  struct Tree {
    Tree(u64 id_, u64 seed, const SimdOps& simd) : id(id_), routes(seed, simd) {}

    u64 id;
    RouteTable routes;
    u32 parent = kNobody;
    u64 last = 0;   // the highest position
    u64 floor = 0;  // what it was when the parent changed: nothing up to there is taken from the new one
    // Of the batch at work: its events, and who wants them.
    u64 gathered = 0;
    std::vector<std::string_view> events;
    Matches found;
    std::vector<u32> children;  // connections with routes, ascending
  };
  enum class Verdict : u8 { kTaken, kRefused, kStray, kDamaged };
  struct Item {
    std::string_view event;
    std::size_t end;  // in the intake
    Hop hop;
    Tree* tree;
    u32 row, tree_row;
    u32 next_alike;  // of its kind in this batch
    Verdict verdict;
    bool has_deadline, is_expired;
    const char *code, *reason;
  };
  struct Rows {
    u32 first = 0, end = 0, route_first = 0, route_end = 0;
  };
  // Events of a batch that go the same way: the first and the last, and how many bytes they have, stamped.
  struct Kind {
    u32 first, last, events;
    std::size_t bytes;
    bool has_deadlines = false;  // some of them
  };
  // What a connection gets of a batch: all events of some kinds, each by a row of the first one (kNobody: forwarded).
  struct Share {
    u32 conn, parts, first_part, frames;
    std::size_t bytes;
    u32 leader;  // the first of several equal ones
    std::size_t stream;
    u64 hash = 0;
    bool has_deadlines = false;
  };
  struct Part {
    u32 share, kind, row;
  };
  struct Way {
    u32 kind, row;
  };
  struct StreamItem {
    StreamHead head;
    std::string_view event;
    Tree* tree;  // nullptr: it is not to be learned
    Stream* stream;
    u32 tree_row;
  };
  struct Due {
    Stream* stream;
    u64 tick;
    Told told;
  };
  struct Hosted {
    u64 floor = 0;  // no tick is given up to here: an earlier life may have said that they are silent
    u64 mark = 0, mark_group = 0;
    u64 events = 0;
  };
  struct Relay {
    u32 conn, number;
    u64 pubend;
  };
  enum class Stop : u8 { kFull, kEmpty, kMessage, kBroken };
  struct Batch {
    Stop stop = Stop::kEmpty;
    std::string_view message;
    std::string reason;
  };

  Connection& at(u32 conn) const;
  Connection& client(u32 conn) const;
  Tree& tree_at(u64 tree);
  Tree* find_tree(u64 tree) const;
  RouteTable& table_of(const Connection& conn, std::optional<u64> tree);
  void unblock(Connection& conn);

  void work_on(Connection& from, std::string_view data, i64 now_ns);
  bool has_to_rest(Connection& from, std::string_view frame);
  bool is_limited() const { return cpu_.is_limited() || output_.is_limited(); }
  bool answer_ping(Connection& from, std::string_view frame, i64 now_ns);
  Item& next_item() {
    items_ = {item_memory_.data(), items_.size() + 1};
    return items_.back();
  }
  Batch collect(Connection& from, u32 events_max, i64 now_ns);
  void inspect_published(const Connection& from, Item& item, u32 stamp);
  void complete(Item& item, u32 stamp);
  void note_deadline(Item& item, const EventView& view);
  Batch take_streams(Connection& from, u32 events_max, i64 now_ns);

  // plane_stream.cpp
  Stream& stream_at(u64 pubend);
  Stream* find_stream(u64 pubend) const;
  bool is_hosted(u64 pubend) const;
  void distrust(u64 tree);
  void doubt(Stream& stream);
  Follower* find_follower(u32 conn, u32 number) const;
  void follow_routes(u32 conn, const std::vector<u32>& numbers, const std::vector<std::string_view>& filters);
  void unfollow(u32 conn, u32 number);
  const char* take_taken(const Connection& from, std::string_view payload);
  const char* take_stream(Connection& from, std::span<const std::string_view> payloads, i64 now_ns);
  void gather_for(Tree& tree, std::string_view event, u32& row);
  void match_trees();
  void came(Connection& from, const StreamItem& item, i64 now_ns);
  void note(Stream& stream, const StreamHead& head, const Told& told);
  void tell_children(Stream& stream, Tree& tree, const StreamHead& head, const Told& told, u32 row, bool is_new);
  bool tell(Connection& to, const StreamHead& head, const Told& told, bool is_again);
  FlowName flow_of(u64 pubend, bool is_again) const { return options_.is_fair ? FlowName{pubend, is_again} : FlowName{}; }
  char* room_in(Connection& to, FlowName flow, std::size_t size, bool is_event);
  void advance(Stream& stream);
  void lack(u64 pubend, const TickSpan& lost);
  void deliver_due();
  void deliver(const Due& due, u32 row);
  bool deliver_to(const Follower& follower, Place& place, u64 tick, const Told& told);

  // plane_host.cpp
  void refill(Limit& limit, i64 now_ns) const;
  bool has_room_for(u64 pubend) const;
  const char* take_guarantee(Connection& from, std::span<const std::string_view> payloads, i64 now_ns, std::size_t& handled);
  bool guarantee(Connection& from, const Item& item, u64 pubend, i64 now_ns);
  void refuse_guaranteed(const Item& item, u64 sequence);
  void refuse_for(const Item& item, const char* code, const char* reason);
  void receipt(Connection& to, u64 sequence, u64 tick);
  void emit_records(std::span<const LogRecord> records);
  void pass_on(Stream& stream, u64 tick, const Told& told, u32 row);

  // plane_replay.cpp
  bool has_place(const Job& job);
  bool is_behind(const Connection& to) const;
  bool is_here(const Job& job, const Stream& stream, const Follower* follower) const;
  u64 read_log(const Job& job, u64 end);
  u64 read_piece(const Job& job, const Stream& stream, const Follower* follower);
  void match_again(const Job& job);
  bool serve_piece(Job& job);
  bool say(Job& job, u64 tick, const Told& told, Follower* follower);
  bool say_lost(Job& job, std::size_t& at, u64 before, const Follower* follower);
  bool say_none(Job& job, Span what, u64 end);
  bool recover(const Job& job, u64 tick, Span what, const Told& told);
  bool recover_to(Connection& to, u32 number, u64 pubend, const StreamHead& span, std::string_view event);
  static void write_recover(char* at, u32 number, const StreamHead& span, std::string_view event);
  bool goes_on(u32 conn, u64 tree, u64 pubend, const TickSpan& asked);
  void answered(Connection& to, const StreamHead& answer, const Told& told);
  void ask_again(const Job& job);
  void break_off(u32 from, u32 replay, const Relay& relay, u64 place);
  void tell_replayed(u64 replay, u64 place, bool is_over, bool is_joined);
  bool is_done(Job& job, const Stream& stream, Follower* follower, bool is_stuck);
  const char* take_recover(Connection& from, std::string_view payload, i64 now_ns);
  void caught(u64 replay, Follower& follower, u64 pubend, const StreamHead& span, std::string_view event);
  const char* collect_publish(Connection& from, std::string_view payload, i64 now_ns);
  const char* collect_forward(Connection& from, std::string_view payload, i64 now_ns);
  Hop hop_here(const Connection& from, Hop hop, i64 now_ns) const;
  void gather_taken();
  void match_batch();

  // plane_emit.cpp
  std::size_t emit(Connection& from, u64 deadline_ns);
  bool is_free(const Connection& from, const Item& item);
  void find_full(const Connection& from, const Item& item, u32& full, std::size_t& frame_for_full);
  Rows rows_of(const Item& item) const;
  void depart(Connection& from, const Item& item, Departure& departure, char* memory);
  void keep_sample(std::string_view event);
  std::string_view delivery(Departure& departure, u32 row);
  void take(Connection& from, const Item& item);
  void turn_away(Connection& from, const Item& item);
  void refuse(Connection& from, const Item& item);
  void expire(Connection& from, const Item& item);
  // True if the event is in the queue.
  bool put(Connection& to, std::string_view frame, bool has_deadline) {
    if (!to.takes_events || !to.takes(frame.size()) || (!to.has_room(frame.size()) && !make_room(to, frame.size()))) [[unlikely]] {
      ++to.traffic.dropped;
      return false;
    }
    queue_of(to).push(frame);
    to.out.has_deadlines |= has_deadline;
    ++to.traffic.events_out;
    count_out(to, frame.size());
    return true;
  }
  void count_out(Connection& to, std::size_t bytes) {
    to.traffic.bytes_out += bytes;
    output_.use(static_cast<double>(bytes));
  }
  bool make_room(Connection& to, std::size_t frame);
  void overrun(Connection& conn);
  const Outcome& finish();
  void learn_cost(u64 spent_ns, std::size_t events);
  u32 events_at_once() const;

  // plane_share.cpp
  bool survey(Connection& from);
  void sort_out(const Connection& from);
  bool is_alike(const Item& a, const Item& b) const;
  void share_out(Connection& from);
  void order_parts();
  void find_equal_shares();
  bool is_equal(const Share& a, const Share& b) const;
  void write(const Share& share, ByteQueue& to);
  void give(Connection& to, const Share& leader);
  void keep(Connection& to);
  void touch(Connection& to) {
    if (to.is_touched) return;
    to.is_touched = true;
    to.was_empty = to.out.empty();
    touched_.push_back(to.number);
  }
  FrameQueue& queue_of(Connection& to) {
    touch(to);
    if (to.shared_bytes > 0) keep(to);
    return to.out.data;
  }

  bool serve_due();
  bool settle_log();
  bool serve_again();
  bool tells(const Outcome& outcome, u32 conn, bool goes_on = false);
  bool look_around(int epoll, u64 end_ns);
  bool serve(Connection& from);
  bool gather(Connection& to);
  void goes_on(Connection& to);
  void add_gathered(Connection& to);
  void send_gathered();
  bool is_busy(const Connection& from) const;
  Connection* connection_of(int fd) const;
  std::string_view open_sealed(Connection& from, std::string_view sealed);
  void send_some(Connection& to);
  bool has_room_once_expired(Connection& to, std::size_t frame);
  void seal_and_send(Connection& to);
  static int send_sealed(const Connection& to, ByteQueue& sealed);
  void stall(Connection& to, std::size_t sent);
  void fail(Connection& conn, int error);

  Options options_;
  const SimdOps* simd_;
  std::vector<std::unique_ptr<Connection>> connections_;
  u32 waiting_connections_ = 0;  // with the policy to wait
  RouteTable clients_;
  std::map<u64, std::unique_ptr<Tree>> trees_;
  Tree* own_ = nullptr;
  mutable Tree* last_tree_ = nullptr;
  Inspector inspector_;
  std::map<std::string, std::weak_ptr<Permit>> permits_;  // by their filters
  Traffic closed_;  // of connections that are no more
  std::vector<u32> blocked_, overrun_;
  Allowance cpu_, output_;  // nanoseconds and bytes
  std::vector<u32> resting_;  // those that are blocked because one of them is used up
  Work work_;
  u32 samples_left_ = 0;
  std::vector<std::string> samples_;
  Outcome outcome_;

  u64 batch_ = 0, ns_per_event_;
  i64 now_ns_ = 0;  // of the call at work, or the last one
  Classes classes_;
  std::vector<Item> item_memory_;
  std::span<Item> items_;
  bool has_expired_ = false;  // one of them
  EventView view_;  // here, like the memory of the items, because clearing it for every event takes time
  std::vector<std::string_view> events_;
  std::vector<Tree*> batch_trees_;
  Matches found_;
  std::vector<Kind> kinds_;
  std::array<u32, 256> kind_seen_;  // lately, by what is quick to see of an event's way
  std::vector<Share> shares_;
  std::vector<Part> parts_;
  std::vector<Way> ordered_;
  std::vector<u32> leaders_;
  std::vector<std::pair<u32, u32>> leaving_;  // item and row
  ByteQueue streams_;  // of the call at work: frames for several connections
  std::vector<Departure> departures_;
  std::vector<char> stamped_;
  std::size_t stamped_bytes_ = 0, longest_ = 0;
  std::vector<u32> touched_;
  std::vector<char> read_buffer_, clear_buffer_, record_;
  ByteQueue sealed_;  // of the call at work
  std::vector<u32> conn_of_fd_;
  std::deque<std::pair<u32, int>> due_;  // connections that have a turn, with their sockets
  std::vector<u32> busy_;      // those that are to have another one
  std::vector<u32> gathered_;  // have something to be sent, with what else comes
  bool gathers_ = false, has_more_ = false;
  u64 gathered_since_ns_ = 0;
  Woken woken_;

  // Streams.
  std::map<u64, std::unique_ptr<Stream>> knowledge_;
  std::map<std::pair<u64, u64>, u64> trusted_;  // by tree and pubend: from where on silence is silence
  std::map<std::pair<u32, u32>, std::unique_ptr<Follower>> followers_;
  std::vector<Follower*> follower_ids_;  // the destinations of `followed_`
  RouteTable followed_;
  Log* log_ = nullptr;
  std::vector<u64> pubends_;
  std::map<u64, Hosted> hosted_;
  i64 unix_offset_ns_ = 0;
  int log_fd_ = -1;
  bool is_log_ready_ = false;
  bool has_appended_ = false;  // since the log was last told to commit
  std::unordered_map<u64, u32> seats_;  // where the publishers are
  std::map<u64, Limit> limits_;
  std::map<u32, u64> waits_;  // connections that wait for a pubend to take more
  std::deque<Job> jobs_;
  std::map<std::pair<u32, u64>, Relay> relays_;
  StreamNews news_;
  // Of the batch at work.
  std::vector<std::string_view> payloads_;
  std::vector<StreamItem> stream_items_;
  std::vector<Due> deliverable_;
  std::vector<Stream*> trimmed_;
  Matches found_followed_, found_again_;
  std::vector<char> record_event_;
  std::vector<LogRecord> records_;
  std::map<u64, std::pair<u64, u64>> receipts_;
  LogPiece piece_;  // what was last read of the log, for whoever is behind
  u64 piece_of_ = 0, piece_first_ = 0;
  std::vector<std::pair<u64, Told>> again_;
  std::vector<TickSpan> again_lost_;
  std::vector<u8> is_wanted_;
};

}  // namespace tidewire
