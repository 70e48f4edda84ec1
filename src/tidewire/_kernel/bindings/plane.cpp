// The data plane for Python: one call per read of a connection, the GIL released while the kernel works.
#include "plane.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "errors.hpp"
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

void make(PlaneObject* self, u64 seed, const std::string& simd, u32 frame_bytes_max, u64 budget_ns) {
  const SimdOps* found = choose_simd(simd);
  if (found == nullptr) throw KernelError("usage", "this machine has no SIMD path named '" + simd + "'");
  if (frame_bytes_max < 1024 || frame_bytes_max > 1u << 30)
    throw KernelError("value-range", "frames have a bound from 1 KiB to 1 GiB");
  new (self) PlaneObject({seed, frame_bytes_max, budget_ns}, *found);
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

// None, unless there is something to know: this is once per read, whatever the number of events.
nb::object told(const Outcome& outcome) {
  if (outcome.is_quiet()) return nb::none();
  nb::list refusals;
  for (const Outcome::Refusal& one : outcome.refusals)
    refusals.append(nb::make_tuple(one.sequences, one.further, one.code, one.reason));
  const nb::object message =
      outcome.has_message ? nb::object(nb::bytes(outcome.message.data(), outcome.message.size())) : nb::object(nb::none());
  return nb::make_tuple(name_of(outcome.state), message, outcome.reason, refusals, outcome.ready, outcome.overrun,
                        outcome.stalled, outcome.ended);
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

nb::bytes output(PlaneObject& self, u32 conn, std::size_t bytes_max) {
  const OneAtATime guard(self.busy);
  const std::size_t size = std::min(bytes_max, self.plane.waiting(conn));
  PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size));
  if (made == nullptr) throw nb::python_error();
  self.plane.output(conn, PyBytes_AS_STRING(made), size);
  return nb::steal<nb::bytes>(made);
}

nb::tuple shown(const Traffic& of) {
  return nb::make_tuple(of.events_in, of.bytes_in, of.events_out, of.bytes_out, of.dropped, of.queued_bytes, of.stray,
                        of.damaged);
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

// A method of the plane that is done before anybody could notice that the GIL is held.
template <class... Arguments>
auto quick(void (Plane::*method)(Arguments...)) {
  return [method](PlaneObject& self, std::decay_t<Arguments>... arguments) {
    const OneAtATime guard(self.busy);
    (self.plane.*method)(arguments...);
  };
}

}  // namespace

void bind_plane(nb::module_& module) {
  nb::class_<PlaneObject>(module, "Plane", "The data plane of a broker; one thread at a time.")
      .def("__init__", &make, nb::arg("seed") = 0, nb::arg("simd") = "", nb::arg("frame_bytes_max") = 2u << 20,
           nb::arg("budget_ns") = 1'000'000)
      .def("open",
           [](PlaneObject& self, u32 conn, bool is_link, const std::string& when_full, u64 queue_bytes_max) {
             const OneAtATime guard(self.busy);
             self.plane.open(conn, is_link, policy_named(when_full), queue_bytes_max);
           },
           nb::arg("conn"), nb::arg("is_link"), nb::arg("when_full"), nb::arg("queue_bytes_max"))
      .def("close", quick(&Plane::close), nb::arg("conn"))
      .def("make_link", quick(&Plane::make_link), nb::arg("conn"), nb::arg("queue_bytes_max"))
      .def("may_publish", quick(&Plane::may_publish), nb::arg("conn"), nb::arg("publisher"), nb::arg("next_sequence"))
      .def("permit", &permit, nb::arg("conn"), nb::arg("filters").none())
      .def("allow", &allow, nb::arg("conn"), nb::arg("filters").none())
      .def("set_clock", quick(&Plane::set_clock), nb::arg("conn"), nb::arg("offset_ns"), nb::arg("error_us"))
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
      .def("output", &output, nb::arg("conn"), nb::arg("bytes_max"))
      .def("unblocked", [](PlaneObject& self) { return OneAtATime(self.busy), self.plane.unblocked(); })
      .def("traffic", &traffic, nb::arg("conn"),
           "events in, bytes in, events out, bytes out, dropped, queued bytes, stray, damaged")
      .def("totals", &totals, "the same of all connections together")
      .def("lossy", [](PlaneObject& self) { return OneAtATime(self.busy), self.plane.lossy(); })
      .def("work", &work, "events, matches, deliveries, forwards, refused, busy ns, subscriptions, memory bytes")
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
