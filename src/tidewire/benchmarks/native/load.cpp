// tidewire-load PLAN: publishes and counts what is delivered, for any server whose protocol streams.cpp can cut.
//
// It sets up all connections and prints "ready" and how many seconds that took. The line "go" on standard input starts a
// turn; "go EVENTS EXPECT" one with other numbers than the plan's. It ends when another line comes; with subscribers, or
// publishers that have a window, also when all that is expected has come, nothing has for idle_s, or no connection is left;
// without subscribers also when standard input ends. Then it prints one JSON object, and can be told to go again.
// With a window, the deliveries that it speaks of are the acknowledgements, and their delays are counted from the sending.
// Publishers and subscribers are best run as two processes: then what one costs does not slow the other.
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <deque>
#include <exception>
#include <map>
#include <sstream>

#include "connection.hpp"
#include "histogram.hpp"

namespace tidewire::bench {

namespace {

constexpr std::size_t kReadBytes = 1 << 18, kBatchBytes = 1 << 16;
constexpr int kTurnMs = 50;
constexpr u64 kTimer = ~u64{0}, kInput = kTimer - 1;
constexpr int kPublisherShift = 48;
constexpr double kSecond = 1e9;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + time.tv_usec / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class Load {
 public:
  explicit Load(const Plan& plan) : plan_(plan), buffer_(kReadBytes) {
    const i64 started = now_ns();
    connect();
    setup_s_ = static_cast<double>(now_ns() - started) / kSecond;
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) throw std::runtime_error("epoll_create1 failed");
    for (std::size_t i = 0; i < connections_.size(); ++i) watch(i, EPOLL_CTL_ADD);
  }
  ~Load() {
    if (timer_ >= 0) ::close(timer_);
    ::close(epoll_);
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  double setup_s() const { return setup_s_; }

  void run(u64 events, u64 expect) {
    events_ += events;
    expect_ = expect;
    deliveries_ = published_ = bytes_out_ = out_of_order_ = complaints_ = 0;
    first_sent_ = last_out_ = 0;
    kept_alive_ = 0;
    input_has_come_ = false;
    delay_ = late_ = {};
    for (const auto& connection : connections_) connection->bytes_in = 0;
    cpu_start_ = cpu_seconds();
    started_ = last_in_ = now_ns();
    has_begun_ = false;
    watch_input();
    if (has_publishers_ && plan_.rate > 0) start_timer();
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      begin(*connections_[i]);
      read(*connections_[i]);  // something may have come behind the last step of the beginning
      if (is_flooding(*connections_[i]) || connections_[i]->has_unsent()) watch(i, EPOLL_CTL_MOD);
    }
    std::array<epoll_event, 64> ready;
    while (!is_over()) {
      const int count = epoll_wait(epoll_, ready.data(), static_cast<int>(ready.size()), kTurnMs);
      for (int i = 0; i < count; ++i) handle(ready[static_cast<std::size_t>(i)]);
      keep_alive();
    }
    if (timer_ >= 0) ::close(timer_);
    timer_ = -1;
  }

  void print() const {
    u64 bytes_in = 0;
    for (const auto& connection : connections_) bytes_in += connection->bytes_in;
    // From the first sending, or the beginning, to the last delivery; the clock is the same for both processes.
    const double seconds = deliveries_ > 0 ? static_cast<double>(last_in_ - first_sent_) / kSecond : 0;
    std::printf("{\"deliveries\":%llu,\"expected\":%llu,\"published\":%llu,\"seconds\":%.9f,\"cpu_s\":%.6f",
                deliveries_ + 0ULL, expect_ + 0ULL, published_ + 0ULL, seconds, cpu_seconds() - cpu_start_);
    std::printf(",\"publish_s\":%.9f,\"bytes_in\":%llu,\"bytes_out\":%llu,\"out_of_order\":%llu,\"complaints\":%llu",
                static_cast<double>(last_out_ - started_) / kSecond, bytes_in + 0ULL, bytes_out_ + 0ULL,
                out_of_order_ + 0ULL, complaints_ + 0ULL);
    print(",\"delay_us\":", delay_);
    print(",\"late_us\":", late_);
    std::printf(",\"errors\":[");
    bool is_first = true;
    for (const auto& connection : connections_) {
      if (connection->error.empty()) continue;
      std::printf("%s\"%s\"", is_first ? "" : ",", connection->error.c_str());
      is_first = false;
    }
    std::printf("]}\n");
  }

 private:
  // Some are set up at the same time, and each waits for its own answers.
  void connect() {
    std::map<std::string, Trust> trusts;
    std::deque<Connection*> begun;
    const auto go_on = [&begun] {
      Connection* connection = begun.front();
      begun.pop_front();
      if (!connection->begin_further()) begun.push_back(connection);
    };
    for (const ConnectionPlan& own : plan_.connections) {
      while (begun.size() >= plan_.together) go_on();
      const Trust* trust = own.authority.empty() ? nullptr : &trusts.try_emplace(own.authority, own.authority).first->second;
      connections_.push_back(std::make_unique<Connection>(plan_, own, trust));
      begun.push_back(connections_.back().get());
      (own.is_publisher ? has_publishers_ : has_subscribers_) = true;
    }
    while (!begun.empty()) go_on();
  }

  static void print(const char* name, const Histogram& histogram) {
    const auto us = [](u64 ns) { return static_cast<double>(ns) / 1e3; };
    std::printf("%s{\"p50\":%.3f,\"p99\":%.3f,\"p999\":%.3f,\"max\":%.3f}", name, us(histogram.quantile(0.5)),
                us(histogram.quantile(0.99)), us(histogram.quantile(0.999)), us(histogram.max()));
  }

  bool is_flooding(const Connection& connection) const {
    return connection.is_publisher() && plan_.rate <= 0 && connection.next < events_ &&
           (plan_.window == 0 || connection.window.has_room());
  }

  void begin(Connection& connection) {
    const std::string said = connection.take_begin();
    if (said.empty() || !connection.is_open()) return;
    has_begun_ = true;
    first_sent_ = started_;
    connection.outgoing() += said;
    send(connection);
  }

  void watch(std::size_t i, int operation) {
    const Connection& connection = *connections_[i];
    if (!connection.is_open()) return;
    const bool writes = is_flooding(connection) || connection.has_unsent();
    epoll_event event{EPOLLIN | (writes ? EPOLLOUT : 0u), {.u64 = i}};
    epoll_ctl(epoll_, operation, connection.fd(), &event);
  }

  void watch_input() {
    epoll_event event{EPOLLIN, {.u64 = kInput}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, STDIN_FILENO, &event) != 0 && errno != EEXIST) throw std::runtime_error("stdin is no pipe");
  }

  void start_timer() {
    prctl(PR_SET_TIMERSLACK, 1);
    timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    const i64 interval = std::max<i64>(1, static_cast<i64>(kSecond / plan_.rate));
    const timespec time{interval / 1'000'000'000, interval % 1'000'000'000};
    const itimerspec both{time, time};
    epoll_event event{EPOLLIN, {.u64 = kTimer}};
    if (timerfd_settime(timer_, 0, &both, nullptr) != 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, timer_, &event) != 0)
      throw std::runtime_error("the timer cannot be started");
    timer_started_ = now_ns();
    ticks_ = 0;
    interval_ = interval;
  }

  bool is_over() const {
    if (input_has_come_ || (!has_subscribers_ && plan_.window == 0)) return input_has_come_;
    const bool has_ended = std::ranges::none_of(connections_, [](const auto& one) { return one->is_open(); });
    return has_ended || deliveries_ >= expect_ || static_cast<double>(now_ns() - last_in_) > plan_.idle_s * kSecond;
  }

  void handle(const epoll_event& event) {
    if (event.data.u64 == kTimer) return publish_due();
    if (event.data.u64 == kInput) return read_input();
    const std::size_t i = event.data.u64;
    Connection& connection = *connections_[i];
    const bool was_writing = is_flooding(connection) || connection.has_unsent();
    if (connection.is_open() && (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read(connection);
    // What was acknowledged made room: it is used at once, without asking whether the socket takes it.
    const bool has_room = plan_.window > 0 && is_flooding(connection);
    if (connection.is_open() && (has_room || (event.events & EPOLLOUT) != 0)) write(connection, i);
    if (was_writing != (is_flooding(connection) || connection.has_unsent())) watch(i, EPOLL_CTL_MOD);
  }

  void read_input() {
    char byte = 0;
    ssize_t got = 0;
    while ((got = ::read(STDIN_FILENO, &byte, 1)) > 0 && byte != '\n') {}
    input_has_come_ = got > 0 || !has_subscribers_;
    if (!input_has_come_) epoll_ctl(epoll_, EPOLL_CTL_DEL, STDIN_FILENO, nullptr);
  }

  void write(Connection& connection, std::size_t i) {
    if (is_flooding(connection) && !connection.has_unsent()) {
      std::string& out = connection.outgoing();
      const i64 now = now_ns();
      while (out.size() < kBatchBytes && is_flooding(connection)) append_event(out, connection, i, now);
    }
    send(connection);
  }

  void send(Connection& connection) {
    bytes_out_ += connection.send_some();
    last_out_ = now_ns();
  }

  void append_event(std::string& out, Connection& connection, std::size_t i, i64 now) {
    const std::string& message = connection.messages()[connection.next % connection.messages().size()];
    const std::size_t start = out.size();
    out += message;
    char* stamp = out.data() + out.size() - plan_.stamp;
    store<i64>(stamp, now);
    store<u64>(stamp + 8, u64{i} << kPublisherShift | connection.next);
    if (plan_.born >= 0) store<i64>(out.data() + start + plan_.born, now);
    if (plan_.number >= 0) {
      const u64 number = connection.next % kPacketNumbers + 1;
      store<u8>(out.data() + start + plan_.number, static_cast<u8>(number >> 8));
      store<u8>(out.data() + start + plan_.number + 1, static_cast<u8>(number));
    }
    if (plan_.sequence >= 0) store<u64>(out.data() + start + plan_.sequence, connection.next + 1);
    if (plan_.window > 0) {
      if (published_ == 0) first_sent_ = now;
      connection.window.add(now);
    }
    ++connection.next;
    ++published_;
  }

  // One event of each publisher for every tick; each is sent by itself.
  void publish_due() {
    u64 ticks = 0;
    if (::read(timer_, &ticks, sizeof ticks) != sizeof ticks) return;
    for (; ticks > 0; --ticks) {
      ++ticks_;
      const i64 due = timer_started_ + static_cast<i64>(ticks_) * interval_;
      for (std::size_t i = 0; i < connections_.size(); ++i) {
        Connection& connection = *connections_[i];
        if (!connection.is_publisher() || !connection.is_open() || connection.next >= events_) continue;
        const bool was_waiting = connection.has_unsent();
        const i64 now = now_ns();
        late_.add(now - due);
        append_event(connection.outgoing(), connection, i, now);
        if (was_waiting) continue;
        send(connection);
        if (connection.has_unsent()) watch(i, EPOLL_CTL_MOD);
      }
    }
  }

  void read(Connection& connection) {
    do read_once(connection);
    while (connection.has_more());
  }

  void read_once(Connection& connection) {
    std::string_view stream = connection.read_some(buffer_);
    const i64 now = now_ns();
    const Cutter cut = plan_.protocol->cut;
    while (!stream.empty()) {
      const Cut found = cut(stream);
      if (found.kind == Kind::kIncomplete) break;
      if (!found.mark.empty()) connection.note(found.mark);
      if (found.kind == Kind::kDelivery) count(connection, found.payload, now);
      else if (found.kind == Kind::kAck && !acknowledge(connection, found.ack, now))
        return end(connection, "the server acknowledged what was not waiting for it: ", stream);
      else if (found.kind == Kind::kComplaint) ++complaints_;
      else if (found.kind == Kind::kPing) answer(connection, stream.substr(0, found.size));
      else if (found.kind == Kind::kBroken) return end(connection, "the server said: ", stream);
      stream.remove_prefix(found.size);
    }
    connection.keep(stream);
    if (connection.has_unsent()) send(connection);
  }

  // False if it acknowledges what was not sent, or not again. Without a window nobody counts them.
  bool acknowledge(Connection& connection, const Ack& ack, i64 now) {
    return plan_.window == 0 || connection.window.acknowledge(ack, [this, now](i64 sent) {
      ++deliveries_;
      delay_.add(now - sent);
      last_in_ = now;
    });
  }

  void count(Connection& connection, std::string_view payload, i64 now) {
    if (payload.size() < plan_.payload_stamp) return;
    const char* stamp = payload.data() + payload.size() - plan_.payload_stamp;
    const i64 sent = load<i64>(stamp);
    const u64 sequence = load<u64>(stamp + 8), publisher = sequence >> kPublisherShift;
    if (!has_begun_ && (deliveries_ == 0 || sent < first_sent_)) first_sent_ = sent;
    if (publisher < connection.last_seen.size()) {
      const u64 one_more = (sequence & ((u64{1} << kPublisherShift) - 1)) + 1;
      u64& last = connection.last_seen[publisher];
      if (one_more <= last) ++out_of_order_;
      last = one_more;
    }
    ++deliveries_;
    delay_.add(now - sent);
    last_in_ = now;
    connection.delivered();
  }

  void answer(Connection& connection, std::string_view ping) {
    connection.outgoing() += plan_.protocol->answer(ping, now_ns());
    send(connection);
  }

  void end(Connection& connection, const std::string& why, std::string_view said) {
    connection.error = why + readable(said);
    connection.close();
  }

  // Each in its turn, once in keepalive_s: many connections do not all speak at the same moment.
  void keep_alive() {
    if (plan_.keepalive.empty()) return;
    const double rounds = static_cast<double>(now_ns() - started_) / (plan_.keepalive_s * kSecond) - 1;
    const u64 count = connections_.size();
    for (; static_cast<double>(kept_alive_) <= rounds * static_cast<double>(count); ++kept_alive_) {
      const std::size_t i = kept_alive_ % count;
      Connection& connection = *connections_[i];
      if (!connection.is_open() || connection.has_unsent()) continue;
      connection.outgoing() += plan_.keepalive;
      send(connection);
      if (connection.has_unsent()) watch(i, EPOLL_CTL_MOD);
    }
  }

  const Plan& plan_;
  std::vector<char> buffer_;
  std::vector<std::unique_ptr<Connection>> connections_;
  int epoll_ = -1, timer_ = -1;
  bool has_publishers_ = false, has_subscribers_ = false, input_has_come_ = false, has_begun_ = false;
  double cpu_start_ = 0, setup_s_ = 0;
  i64 started_ = 0, timer_started_ = 0, interval_ = 0;
  i64 first_sent_ = 0, last_in_ = 0, last_out_ = 0;
  u64 events_ = 0, expect_ = 0;  // to be published by each in all turns so far; to be delivered in this one
  u64 ticks_ = 0, kept_alive_ = 0, published_ = 0, deliveries_ = 0, bytes_out_ = 0, out_of_order_ = 0, complaints_ = 0;
  Histogram delay_, late_;
};

// Waits for the line "go", with or without numbers; false if standard input ends instead.
bool is_told_to_go(u64& events, u64& expect) {
  std::string line, word;
  for (char byte; ::read(STDIN_FILENO, &byte, 1) == 1; line += byte) {
    if (byte != '\n') continue;
    std::istringstream words(line);
    u64 number = 0;
    words >> word;
    if (words >> number) events = number, words >> expect;
    return word == "go";
  }
  return false;
}

// Each connection is an open file, and the usual limit is a low one.
void allow_many_connections() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int run(const char* path) {
  allow_many_connections();
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
  const Plan plan = read_plan(path);
  Load load(plan);
  std::printf("ready %.6f\n", load.setup_s());
  std::fflush(stdout);
  u64 events = plan.events, expect = plan.expect;
  bool has_run = false;
  for (; is_told_to_go(events, expect); has_run = true) {
    load.run(events, expect);
    load.print();
    std::fflush(stdout);
  }
  return has_run ? 0 : 1;
}

}  // namespace

}  // namespace tidewire::bench

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: tidewire-load PLAN\n", stderr);
    return 2;
  }
  try {
    return tidewire::bench::run(arguments[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tidewire-load: %s\n", error.what());
    return 1;
  }
}
