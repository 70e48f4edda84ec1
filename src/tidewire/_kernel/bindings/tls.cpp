// TLS for Python: what it needs until a connection is secured.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "secured.hpp"

namespace nb = nanobind;

namespace tidewire {

namespace {

bool shake_hands(TlsLineObject& self) {
  const OneAtATime guard(self.busy);
  TlsLine& line = self.here();
  nb::gil_scoped_release without;
  return line.shake_hands();
}

nb::object certificate(TlsLineObject& self) {
  const OneAtATime guard(self.busy);
  const std::string found = self.here().certificate();
  return found.empty() ? nb::object(nb::none()) : nb::object(nb::bytes(found.data(), found.size()));
}

}  // namespace

void bind_tls(nb::module_& module) {
  nb::class_<TlsContext>(module, "TlsContext", "Who we are and whom we trust, by files in PEM.")
      .def(nb::init<bool, const std::string&, const std::string&, const std::string&>(), nb::arg("is_server"),
           nb::arg("certificate"), nb::arg("key"), nb::arg("authority"));
  nb::class_<TlsLineObject>(module, "TlsLine", "A connection that is being secured; the socket stays the caller's.")
      .def(nb::init<const TlsContext&, int, const std::optional<std::string>&>(), nb::arg("context"), nb::arg("fd"),
           nb::arg("server_name").none())
      .def("shake_hands", &shake_hands, "As far as it goes without waiting; true: it is secured.")
      .def("certificate", &certificate, "The other side's, which was verified (DER); None: it has shown none.");
}

}  // namespace tidewire
