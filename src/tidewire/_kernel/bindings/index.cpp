// The matching index for Python: many subscriptions or events per call, the GIL released while the kernel works.
#include "index.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "errors.hpp"

namespace nb = nanobind;

namespace tidewire {

namespace {

struct IndexObject {
  Index index;
  std::atomic_flag busy = ATOMIC_FLAG_INIT;

  IndexObject(u64 seed, const SimdOps& simd) : index(seed, simd) {}
};

const SimdOps& simd_named(const std::string& name) {
  const SimdOps* found = choose_simd(name);
  if (found == nullptr) throw KernelError("usage", "this machine has no SIMD path named '" + name + "'");
  return *found;
}

std::vector<std::string> simd_paths() {
  std::vector<std::string> found;
  for (const char* name : {"avx512", "avx2", "scalar"})
    if (choose_simd(name) != nullptr) found.emplace_back(name);
  return found;
}

void same_length(std::size_t one, std::size_t other) {
  if (one != other) throw KernelError("usage", "destinations, numbers and filters must be equally many");
}

void insert(IndexObject& self, Numbers given_destinations, Numbers given_numbers, nb::list filters) {
  const std::vector<u32> destinations = copied(given_destinations), numbers = copied(given_numbers);
  same_length(destinations.size(), numbers.size());
  same_length(destinations.size(), filters.size());
  const HeldBytes held(filters);
  const OneAtATime guard(self.busy);
  nb::gil_scoped_release released;
  std::vector<Subscription> subscriptions;
  subscriptions.reserve(destinations.size());
  for (std::size_t i = 0; i < destinations.size(); ++i)
    subscriptions.push_back({destinations[i], numbers[i], held.views[i]});
  self.index.insert(subscriptions);
}

void remove(IndexObject& self, Numbers given_destinations, Numbers given_numbers) {
  const std::vector<u32> destinations = copied(given_destinations), numbers = copied(given_numbers);
  same_length(destinations.size(), numbers.size());
  const OneAtATime guard(self.busy);
  nb::gil_scoped_release released;
  std::vector<std::pair<u32, u32>> named;
  named.reserve(destinations.size());
  for (std::size_t i = 0; i < destinations.size(); ++i) {
    named.emplace_back(destinations[i], numbers[i]);
    if (!self.index.has(destinations[i], numbers[i]))
      throw KernelError("subscription-unknown", "destination " + std::to_string(destinations[i]) + " has no subscription " +
                                                    std::to_string(numbers[i]));
  }
  std::sort(named.begin(), named.end());
  if (std::adjacent_find(named.begin(), named.end()) != named.end())
    throw KernelError("subscription-unknown", "a subscription is named twice in one call");
  for (std::size_t i = 0; i < destinations.size(); ++i) self.index.remove(destinations[i], numbers[i]);
}

void check_filters(nb::list filters) {
  const HeldBytes held(filters);
  nb::gil_scoped_release released;
  FilterSpec spec;
  for (const std::string_view filter : held.views) parse_filter(filter, spec);
}

std::unique_ptr<Matches> match(IndexObject& self, nb::bytes batch, u32 first, u32 limit, u64 budget_us, bool settle) {
  auto found = std::make_unique<Matches>();
  const std::string_view bytes(batch.c_str(), batch.size());
  const Index::Options options{first, limit, std::min(budget_us, u64{1} << 40) * 1000, settle};
  {
    const OneAtATime guard(self.busy);
    nb::gil_scoped_release released;
    self.index.match(bytes, options, *found);
  }
  if (found->batch_error != nullptr) throw KernelError("event-damaged", found->batch_error);
  return found;
}

template <class T>
nb::object view(nb::handle owner, const std::vector<T>& values) {
  using Array = nb::ndarray<nb::memview, const T, nb::ndim<1>>;
  return nb::cast(Array(values.data(), {values.size()}, owner));
}

}  // namespace

void bind_index(nb::module_& module) {
  module.def("simd_paths", &simd_paths, "The SIMD paths of this machine, the widest first.");

  module.def("check_filters", &check_filters, nb::arg("filters"), "Raises DamagedFilter if one of these is no filter.");

  nb::class_<Matches>(module, "Matches", "Who wants the events of a batch: flat arrays over its memory.")
      .def_prop_ro("event_first", [](nb::handle self) { return view(self, nb::cast<Matches&>(self).event_first); })
      .def_prop_ro("destination", [](nb::handle self) { return view(self, nb::cast<Matches&>(self).destination); })
      .def_prop_ro("more", [](nb::handle self) { return view(self, nb::cast<Matches&>(self).more); })
      .def_prop_ro("number_first", [](nb::handle self) { return view(self, nb::cast<Matches&>(self).number_first); })
      .def_prop_ro("numbers", [](nb::handle self) { return view(self, nb::cast<Matches&>(self).numbers); })
      .def_prop_ro("damaged",
                   [](const Matches& self) {
                     std::vector<std::pair<u32, std::string>> found;
                     for (const auto& [event, why] : self.damaged) found.emplace_back(event, why);
                     return found;
                   })
      .def_ro("next", &Matches::next)
      .def_ro("entries_matched", &Matches::entries_matched);

  nb::class_<IndexObject>(module, "Index", "The matching index; one thread at a time.")
      .def("__init__",
           [](IndexObject* self, u64 seed, const std::string& simd) { new (self) IndexObject(seed, simd_named(simd)); },
           nb::arg("seed") = 0, nb::arg("simd") = "")
      .def("insert", &insert, nb::arg("destinations"), nb::arg("numbers"), nb::arg("filters"),
           "Take these subscriptions, or none of them.")
      .def("remove", &remove, nb::arg("destinations"), nb::arg("numbers"), "Forget these subscriptions, or none of them.")
      .def("match", &match, nb::arg("batch"), nb::arg("first") = 0, nb::arg("limit") = 16, nb::arg("budget_us") = 0,
           nb::arg("settle") = true, "Who wants the events of this batch, from event `first` on?")
      .def_prop_ro("subscriptions", [](IndexObject& self) { return OneAtATime(self.busy), self.index.subscriptions(); })
      .def_prop_ro("entries", [](IndexObject& self) { return OneAtATime(self.busy), self.index.entries(); })
      .def_prop_ro("placements", [](IndexObject& self) { return OneAtATime(self.busy), self.index.placements(); })
      .def_prop_ro("memory_bytes", [](IndexObject& self) { return OneAtATime(self.busy), self.index.bytes(); })
      .def_prop_ro("memory",
                   [](IndexObject& self) {
                     const OneAtATime guard(self.busy);
                     nb::dict parts;
                     for (const auto& [part, size] : self.index.memory()) parts[part.c_str()] = size;
                     return parts;
                   })
      .def_prop_ro("simd", [](const IndexObject& self) { return self.index.simd(); });
}

}  // namespace tidewire
