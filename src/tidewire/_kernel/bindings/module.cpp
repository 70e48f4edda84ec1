#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <exception>

#include "errors.hpp"
#include "files.hpp"

namespace nb = nanobind;

namespace tidewire {

namespace {

nb::object class_of(const char* code) {
  nb::module_ errors = nb::module_::import_("tidewire.model.errors");
  for (const auto& [name, item] : nb::borrow<nb::dict>(errors.attr("__dict__"))) {
    if (!nb::isinstance<nb::type_object>(item) || !nb::hasattr(item, "code")) continue;
    if (nb::cast<std::string>(item.attr("code")) == code) return nb::borrow(item);
  }
  return errors.attr("TidewireError");
}

}  // namespace

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const KernelError& error) {
      const nb::object kind = class_of(error.code);
      PyErr_SetString(kind.ptr(), error.what());
    } catch (const FileError& error) {
      const nb::object kind = class_of(error.is_full() ? "store-full" : "store-failed");
      PyErr_SetString(kind.ptr(), error.what());
    }
  });
}

}  // namespace tidewire

NB_MODULE(_native, module) {
  module.doc() = "The kernel: events, the matching index, the covering poset, the data plane and the log, batch by batch.";
  tidewire::translate_errors();
  tidewire::bind_columns(module);
  tidewire::bind_events(module);
  tidewire::bind_index(module);
  tidewire::bind_log(module);
  tidewire::bind_tls(module);
  tidewire::bind_plane(module);
  tidewire::bind_poset(module);
}
