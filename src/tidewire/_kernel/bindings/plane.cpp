// The data plane for Python: one call per read of a connection, the GIL released while the kernel works.
#include "plane.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "errors.hpp"
#include "log_object.hpp"
#include "secured.hpp"

namespace nb = nanobind;

namespace tidewire {

namespace {

struct PlaneObject {
  Plane plane;
  std::atomic_flag busy = ATOMIC_FLAG_INIT;

  PlaneObject(const Plane::Options& options, const SimdOps& simd) : plane(options, simd) {}
};

std::string_view view(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

void make(PlaneObject* self, u64 seed, const std::string& simd, u32 frame_bytes_max, u64 budget_ns, u64 window_ticks_max,
          u64 cache_bytes_max, bool is_fair) {
  const SimdOps* found = choose_simd(simd);
  if (found == nullptr) throw KernelError("usage", "this machine has no SIMD path named '" + simd + "'");
  if (frame_bytes_max < 1024 || frame_bytes_max > 1u << 30)
    throw KernelError("value-range", "frames have a bound from 1 KiB to 1 GiB");
  new (self) PlaneObject({seed, frame_bytes_max, budget_ns, window_ticks_max, cache_bytes_max, is_fair}, *found);
}

WhenFull policy_named(const std::string& name) {
  if (name == "wait") return WhenFull::kWait;
  if (name == "drop") return WhenFull::kDrop;
  if (name == "end") return WhenFull::kEnd;
  throw KernelError("usage", "a queue that is full can wait, drop or end, not '" + name + "'");
}

const char* name_of(State state) {
  static constexpr const char* kNames[] = {"idle", "busy", "blocked", "broken"};
  return kNames[static_cast<int>(state)];
}

// Doubtful pubends, how far replays have come, who has fallen behind, what is lost, what has to be asked for; None: nothing.
nb::object told(const StreamNews& news) {
  if (news.empty()) return nb::none();
  nb::list replayed, fallen, lacks, unknown;
  for (const auto& one : news.replayed) replayed.append(nb::make_tuple(one.replay, one.place, one.is_over, one.is_joined));
  for (const auto& one : news.fallen) fallen.append(nb::make_tuple(one.conn, one.number, one.pubend, one.place));
  for (const auto& one : news.lacks) lacks.append(nb::make_tuple(one.conn, one.number, one.pubend, one.first, one.last));
  for (const auto& one : news.unknown) unknown.append(nb::make_tuple(one.tree, one.pubend, one.first, one.end));
  return nb::make_tuple(news.doubtful, replayed, fallen, lacks, unknown);
}

// None, unless there is something to know: this is once per read, whatever the number of events.
nb::object told(const Outcome& outcome) {
  if (outcome.is_quiet()) return nb::none();
  nb::list refusals;
  for (const Outcome::Refusal& one : outcome.refusals)
    refusals.append(nb::make_tuple(one.sequences, one.further, one.code, one.reason, one.is_guaranteed));
  const nb::object message =
      outcome.has_message ? nb::object(nb::bytes(outcome.message.data(), outcome.message.size())) : nb::object(nb::none());
  return nb::make_tuple(name_of(outcome.state), message, outcome.reason, refusals, outcome.ready, outcome.overrun,
                        outcome.stalled, outcome.ended, told(outcome.news));
}

template <class Call>
nb::object released(PlaneObject& self, Call call) {
  const OneAtATime guard(self.busy);
  const Outcome* outcome = nullptr;
  {
    nb::gil_scoped_release without;
    outcome = &call(self.plane);
  }
  return told(*outcome);
}

nb::object receive(PlaneObject& self, u32 conn, nb::bytes data, i64 now_ns) {
  return released(self, [&](Plane& plane) -> const Outcome& { return plane.receive(conn, view(data), now_ns); });
}

nb::object resume(PlaneObject& self, u32 conn, i64 now_ns) {
  return released(self, [&](Plane& plane) -> const Outcome& { return plane.resume(conn, now_ns); });
}

nb::object pump(PlaneObject& self, u32 conn, i64 now_ns) {
  return released(self, [&](Plane& plane) -> const Outcome& { return plane.pump(conn, now_ns); });
}

nb::object flush(PlaneObject& self, u32 conn) {
  return released(self, [&](Plane& plane) -> const Outcome& { return plane.flush(conn); });
}

nb::tuple wait(PlaneObject& self, int epoll, int timeout_ms) {
  const OneAtATime guard(self.busy);
  const Plane::Woken* woken = nullptr;
  {
    nb::gil_scoped_release without;
    woken = &self.plane.wait(epoll, timeout_ms);
  }
  if (woken->outcome == nullptr) return nb::make_tuple(woken->others, nb::none(), nb::none());
  const nb::object conn = woken->conn == kNobody ? nb::object(nb::none()) : nb::cast(woken->conn);
  return nb::make_tuple(woken->others, conn, told(*woken->outcome));
}

void attach(PlaneObject& self, u32 conn, int fd, TlsLineObject* tls) {
  const OneAtATime guard(self.busy);
  self.plane.attach(conn, fd, tls == nullptr ? nullptr : tls->handed_over());
}

void allow(PlaneObject& self, u32 conn, std::optional<nb::list> filters) {
  const OneAtATime guard(self.busy);
  if (!filters) return self.plane.allow(conn, nullptr);
  const HeldBytes held(*filters);
  self.plane.allow(conn, &held.views);
}

void permit(PlaneObject& self, u32 conn, std::optional<nb::list> filters) {
  const OneAtATime guard(self.busy);
  if (!filters) return self.plane.permit(conn, nullptr);
  const HeldBytes held(*filters);
  self.plane.permit(conn, &held.views);
}

void set_classes(PlaneObject& self,
                 const std::vector<std::tuple<u32, nb::bytes, std::optional<i64>, std::optional<double>>>& given) {
  const OneAtATime guard(self.busy);
  std::vector<TrafficClass> classes;
  for (const auto& [number, filter, ttl_ns, value] : given) classes.push_back({number, std::string(view(filter)), ttl_ns, value});
  self.plane.set_classes(classes);
}

void add_routes(PlaneObject& self, u32 conn, Numbers given, nb::list filters, std::optional<u64> tree) {
  const std::vector<u32> numbers = copied(given);
  const HeldBytes held(filters);
  const OneAtATime guard(self.busy);
  nb::gil_scoped_release without;
  self.plane.add_routes(conn, numbers, held.views, tree);
}

void remove_routes(PlaneObject& self, u32 conn, Numbers given, std::optional<u64> tree) {
  const std::vector<u32> numbers = copied(given);
  const OneAtATime guard(self.busy);
  nb::gil_scoped_release without;
  self.plane.remove_routes(conn, numbers, tree);
}

nb::bytes output(PlaneObject& self, u32 conn, std::size_t bytes_max, std::optional<i64> now_ns) {
  const OneAtATime guard(self.busy);
  const std::size_t size = std::min(bytes_max, self.plane.waiting(conn));
  PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size));
  if (made == nullptr) throw nb::python_error();
  const std::size_t written = self.plane.output(conn, PyBytes_AS_STRING(made), size, now_ns);
  if (written < size && _PyBytes_Resize(&made, static_cast<Py_ssize_t>(written)) != 0) throw nb::python_error();
  return nb::steal<nb::bytes>(made);
}

nb::tuple shown(const Traffic& of) {
  return nb::make_tuple(of.events_in, of.bytes_in, of.events_out, of.bytes_out, of.dropped, of.queued_bytes, of.stray,
                        of.damaged, of.expired);
}

nb::tuple traffic(PlaneObject& self, u32 conn) {
  const OneAtATime guard(self.busy);
  return shown(self.plane.traffic(conn));
}

nb::tuple totals(PlaneObject& self) {
  const OneAtATime guard(self.busy);
  return shown(self.plane.totals());
}

nb::tuple work(PlaneObject& self) {
  const OneAtATime guard(self.busy);
  const Work& done = self.plane.work();
  return nb::make_tuple(done.events, done.matches, done.deliveries, done.forwards, done.refused, done.busy_ns,
                        self.plane.subscriptions(), self.plane.bytes());
}

nb::tuple samples(PlaneObject& self) {
  const OneAtATime guard(self.busy);
  const Plane::Wanted wanted = [&] {
    const nb::gil_scoped_release release;
    return self.plane.wanted_samples();
  }();
  nb::list events, vectors;
  for (const std::string& event : self.plane.samples()) events.append(nb::bytes(event.data(), event.size()));
  for (const std::string& vector : wanted.vectors) vectors.append(nb::bytes(vector.data(), vector.size()));
  return nb::make_tuple(events, wanted.conns, vectors);
}

nb::list shown(const std::vector<TickSpan>& spans) {
  nb::list found;
  for (const TickSpan& span : spans) found.append(nb::make_tuple(span.first, span.end));
  return found;
}

nb::list streams(PlaneObject& self) {
  const OneAtATime guard(self.busy);
  nb::list found;
  for (const StreamState& one : self.plane.streams()) {
    const nb::object tree = one.has_tree ? nb::cast(one.tree) : nb::object(nb::none());
    const nb::object horizon = one.has_horizon ? nb::cast(one.horizon) : nb::object(nb::none());
    found.append(nb::make_tuple(one.pubend, tree, one.heard, horizon, one.cached, one.ignored, one.events, one.is_awaited,
                                one.released, one.kept_bytes));
  }
  return found;
}

nb::list taken(PlaneObject& self) {
  const OneAtATime guard(self.busy);
  nb::list found;
  for (const Plane::TakenPlace& one : self.plane.taken())
    found.append(nb::make_tuple(one.conn, one.number, one.pubend, one.tick));
  return found;
}

nb::list answer(PlaneObject& self, u32 conn, u64 tree, u64 pubend, const std::vector<std::pair<u64, u64>>& ranges) {
  const OneAtATime guard(self.busy);
  std::vector<TickSpan> spans;
  for (const auto& [first, end] : ranges) spans.push_back({first, end});
  return shown(self.plane.answer(conn, tree, pubend, spans));
}

// A method of the plane that is done before anybody could notice that the GIL is held.
template <class... Arguments>
auto quick(void (Plane::*method)(Arguments...)) {
  return [method](PlaneObject& self, std::decay_t<Arguments>... arguments) {
    const OneAtATime guard(self.busy);
    (self.plane.*method)(arguments...);
  };
}

// The plane appends to the log and reads from it, without Python: nobody else may use it at that time.
void bind_streams(nb::class_<PlaneObject>& plane) {
  plane
      .def("host",
           [](PlaneObject& self, LogObject& log, const std::vector<u64>& pubends, i64 unix_offset_ns, i64 now_ns) {
             const OneAtATime guard(self.busy);
             self.plane.host(&log.log, pubends, unix_offset_ns, now_ns);
           },
           nb::arg("log"), nb::arg("pubends"), nb::arg("unix_offset_ns"), nb::arg("now_ns"), nb::keep_alive<1, 2>())
      .def("committed",
           [](PlaneObject& self, i64 now_ns) {
             return released(self, [&](Plane& plane) -> const Outcome& { return plane.committed(now_ns); });
           },
           nb::arg("now_ns"))
      .def("start_log", [](PlaneObject& self) { return OneAtATime(self.busy), self.plane.start_log(); },
           "The log commits by itself from now on; readable when something has become durable.")
      .def("has_appended", [](PlaneObject& self) { return OneAtATime(self.busy), self.plane.has_appended(); })
      .def("submit",
           [](PlaneObject& self, i64 now_ns) {
             return released(self, [&](Plane& plane) -> const Outcome& { return plane.submit(now_ns); });
           },
           nb::arg("now_ns"), "What was appended is to become durable; if it is at once, it goes its way.")
      .def("silence",
           [](PlaneObject& self, u64 pubend, i64 now_ns) {
             return released(self, [&](Plane& plane) -> const Outcome& { return plane.silence(pubend, now_ns); });
           },
           nb::arg("pubend"), nb::arg("now_ns"))
      .def("limit", quick(&Plane::limit), nb::arg("pubend"), nb::arg("events_s").none(), nb::arg("now_ns"))
      .def("heads", [](PlaneObject& self) { return OneAtATime(self.busy), self.plane.heads(); })
      .def("trust", quick(&Plane::trust), nb::arg("tree"), nb::arg("places"), nb::arg("is_all"))
      .def("widen", quick(&Plane::widen), nb::arg("tree"))
      .def("attend",
           [](PlaneObject& self, u64 pubend, std::optional<u64> place) {
             return released(self, [&](Plane& plane) -> const Outcome& { return plane.attend(pubend, place); });
           },
           nb::arg("pubend"), nb::arg("place").none())
      .def("streams", &streams,
           "pubend, tree, heard, horizon, cached, ignored, events, is awaited, released; those that are hosted first")
      .def("doubts",
           [](PlaneObject& self, u64 pubend, u64 end, u32 count_max) {
             return OneAtATime(self.busy), shown(self.plane.doubts(pubend, end, count_max));
           },
           nb::arg("pubend"), nb::arg("end"), nb::arg("count_max"))
      .def("answer", &answer, nb::arg("conn"), nb::arg("tree"), nb::arg("pubend"), nb::arg("ranges"))
      .def("replay",
           [](PlaneObject& self, u64 replay, u32 conn, u32 number, u64 pubend, u64 place, nb::bytes wanted, i64 bytes_max) {
             const OneAtATime guard(self.busy);
             self.plane.replay(replay, conn, number, pubend, place, view(wanted), bytes_max);
           },
           nb::arg("replay"), nb::arg("conn"), nb::arg("number"), nb::arg("pubend"), nb::arg("place"), nb::arg("wanted"),
           nb::arg("bytes_max"))
      .def("catch_up", quick(&Plane::catch_up), nb::arg("replay"), nb::arg("conn"), nb::arg("number"), nb::arg("pubend"))
      .def("relay", quick(&Plane::relay), nb::arg("link"), nb::arg("replay"), nb::arg("conn"), nb::arg("number"),
           nb::arg("pubend"))
      .def("end_replay", quick(&Plane::end_replay), nb::arg("replay"))
      .def("stop_replay",
           [](PlaneObject& self, u32 conn, u32 number) { return OneAtATime(self.busy), self.plane.stop_replay(conn, number); },
           nb::arg("conn"), nb::arg("number"))
      .def("serve",
           [](PlaneObject& self, i64 now_ns) {
             return released(self, [&](Plane& plane) -> const Outcome& { return plane.serve(now_ns); });
           },
           nb::arg("now_ns"))
      .def("is_serving", [](PlaneObject& self) { return OneAtATime(self.busy), self.plane.is_serving(); })
      .def("follow", quick(&Plane::follow), nb::arg("conn"), nb::arg("number"))
      .def("owe", quick(&Plane::owe), nb::arg("conn"), nb::arg("number"), nb::arg("pubend"), nb::arg("place"),
           nb::arg("sound"), nb::arg("settled"))
      .def("taken", &taken, "connection, number, pubend, and the tick before which all is settled");
}

}  // namespace

void bind_plane(nb::module_& module) {
  nb::class_<PlaneObject> plane(module, "Plane", "The data plane of a broker; one thread at a time.");
  bind_streams(plane);
  plane
      .def("__init__", &make, nb::arg("seed") = 0, nb::arg("simd") = "", nb::arg("frame_bytes_max") = 2u << 20,
           nb::arg("budget_ns") = 1'000'000, nb::arg("window_ticks_max") = u64{10'000} << kTickCounterBits,
           nb::arg("cache_bytes_max") = u64{8} << 20, nb::arg("is_fair") = true)
      .def("open",
           [](PlaneObject& self, u32 conn, bool is_link, const std::string& when_full, u64 queue_bytes_max) {
             const OneAtATime guard(self.busy);
             self.plane.open(conn, is_link, policy_named(when_full), queue_bytes_max);
           },
           nb::arg("conn"), nb::arg("is_link"), nb::arg("when_full"), nb::arg("queue_bytes_max"))
      .def("close", quick(&Plane::close), nb::arg("conn"))
      .def("make_link", quick(&Plane::make_link), nb::arg("conn"), nb::arg("queue_bytes_max"), nb::arg("frame_bytes_max"))
      .def("may_publish", quick(&Plane::may_publish), nb::arg("conn"), nb::arg("publisher"), nb::arg("next_sequence"))
      .def("permit", &permit, nb::arg("conn"), nb::arg("filters").none())
      .def("allow", &allow, nb::arg("conn"), nb::arg("filters").none())
      .def("set_clock", quick(&Plane::set_clock), nb::arg("conn"), nb::arg("offset_ns"), nb::arg("error_us"))
      .def("set_classes", &set_classes, nb::arg("classes"), "number, filter, ttl_ns and value, each of which may be None")
      .def("own_tree", quick(&Plane::own_tree), nb::arg("tree"))
      .def("set_parent", quick(&Plane::set_parent), nb::arg("tree"), nb::arg("parent").none())
      .def("forget_tree", quick(&Plane::forget_tree), nb::arg("tree"))
      .def("add_routes", &add_routes, nb::arg("conn"), nb::arg("numbers"), nb::arg("filters"), nb::arg("tree").none())
      .def("remove_routes", &remove_routes, nb::arg("conn"), nb::arg("numbers"), nb::arg("tree").none())
      .def("receive", &receive, nb::arg("conn"), nb::arg("data"), nb::arg("now_ns"),
           "Bytes have come; None if there is nothing to know.")
      .def("resume", &resume, nb::arg("conn"), nb::arg("now_ns"))
      .def("send",
           [](PlaneObject& self, u32 conn, nb::bytes frame, bool is_control) {
             const OneAtATime guard(self.busy);
             return self.plane.send(conn, view(frame), is_control);
           },
           nb::arg("conn"), nb::arg("frame"), nb::arg("is_control"))
      .def("output", &output, nb::arg("conn"), nb::arg("bytes_max"), nb::arg("now_ns").none() = nb::none())
      .def("unblocked", [](PlaneObject& self) { return OneAtATime(self.busy), self.plane.unblocked(); })
      .def("limit_to", quick(&Plane::limit_to), nb::arg("cpu_share"), nb::arg("output_bytes_s"), "0: no limit")
      .def("rest_ns", [](PlaneObject& self) { return OneAtATime(self.busy), self.plane.rest_ns(); })
      .def("traffic", &traffic, nb::arg("conn"),
           "events in, bytes in, events out, bytes out, dropped, queued bytes, stray, damaged, expired")
      .def("totals", &totals, "the same of all connections together")
      .def("lossy", [](PlaneObject& self) { return OneAtATime(self.busy), self.plane.lossy(); })
      .def("work", &work, "events, matches, deliveries, forwards, refused, busy ns, subscriptions, memory bytes")
      .def("sample", quick(&Plane::sample), nb::arg("count"), "Keep the next so many events that are taken.")
      .def("samples", &samples, "Those that were kept; who wants some of them, with a bit for each event.")
      .def("attach", &attach, nb::arg("conn"), nb::arg("fd"), nb::arg("tls").none() = nb::none(),
           "It is this socket: read and write it, by TLS if it was secured.")
      .def("pump", &pump, nb::arg("conn"), nb::arg("now_ns"), "Read, handle, write; None if there is nothing to know.")
      .def("flush", &flush, nb::arg("conn"), "Write what waits; None if all is written.")
      .def("ignore", quick(&Plane::ignore), nb::arg("conn"),
           "Nothing that comes from there is handled any more.")
      .def("wait", &wait, nb::arg("epoll"), nb::arg("timeout_ms"),
           "Pump what can be read until there is something to know: other sockets with their events; who, what.");
}

}  // namespace tidewire
