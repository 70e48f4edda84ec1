// The covering order for Python.
#include "poset.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "errors.hpp"

namespace nb = nanobind;

namespace tidewire {

namespace {

struct PosetObject {
  Poset poset;
  std::atomic_flag busy = ATOMIC_FLAG_INIT;

  explicit PosetObject(u64 seed) : poset(seed) {}
  explicit PosetObject(const Poset& other) : poset(other) {}

  u32 checked(u32 node) const {
    if (!poset.has(node)) throw KernelError("subscription-unknown", "the poset has no node " + std::to_string(node));
    return node;
  }
};

std::vector<u32> insert(PosetObject& self, nb::list filters) {
  const HeldBytes held(filters);
  std::vector<u32> nodes;
  nodes.reserve(held.views.size());
  const OneAtATime guard(self.busy);
  nb::gil_scoped_release released;
  try {
    for (const std::string_view filter : held.views) nodes.push_back(self.poset.insert(filter));
  } catch (...) {
    for (const u32 node : nodes) self.poset.remove(node);
    throw;
  }
  return nodes;
}

void remove(PosetObject& self, Numbers given) {
  const std::vector<u32> nodes = copied(given);
  const OneAtATime guard(self.busy);
  nb::gil_scoped_release released;
  std::unordered_map<u32, u32> wanted;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (++wanted[nodes[i]] > self.poset.uses(self.checked(nodes[i])))
      throw KernelError("subscription-unknown", "node " + std::to_string(nodes[i]) + " is removed more often than inserted");
  for (std::size_t i = 0; i < nodes.size(); ++i) self.poset.remove(nodes[i]);
}

void forget(PosetObject& self, nb::list filters) {
  const HeldBytes held(filters);
  const OneAtATime guard(self.busy);
  nb::gil_scoped_release released;
  std::vector<u32> nodes;
  std::unordered_map<u32, u32> wanted;
  for (const std::string_view filter : held.views) {
    nodes.push_back(self.poset.find(filter));
    if (nodes.back() == 0 || ++wanted[nodes.back()] > self.poset.uses(nodes.back()))
      throw KernelError("subscription-unknown", "a filter is removed more often than inserted");
  }
  for (const u32 node : nodes) self.poset.remove(node);
}

nb::tuple changes(PosetObject& self) {
  const OneAtATime guard(self.busy);
  nb::list risen, sunk;
  for (const auto& [filter, is_root] : self.poset.take_changes())
    (is_root ? risen : sunk).append(nb::bytes(filter.data(), filter.size()));
  return nb::make_tuple(risen, sunk);
}

std::vector<bool> are_covered(PosetObject& self, nb::list filters) {
  const HeldBytes held(filters);
  std::vector<bool> found;
  found.reserve(held.views.size());
  const OneAtATime guard(self.busy);
  nb::gil_scoped_release released;
  for (const std::string_view filter : held.views) found.push_back(self.poset.is_covered(filter));
  return found;
}

PosetObject* copy(PosetObject& self) {
  const OneAtATime guard(self.busy);
  nb::gil_scoped_release released;
  return new PosetObject(self.poset);
}

}  // namespace

void bind_poset(nb::module_& module) {
  nb::class_<PosetObject>(module, "Poset", "The covering order of filters; one thread at a time.")
      .def(nb::init<u64>(), nb::arg("seed") = 0)
      .def("insert", &insert, nb::arg("filters"), "The nodes of these filters, in order; made where they are new.")
      .def("remove", &remove, nb::arg("nodes"), "Undo one insertion of each.")
      .def("forget", &forget, nb::arg("filters"), "Undo one insertion of each of these filters.")
      .def("changes", &changes,
           "The filters that have become roots, and those that are no longer, since the last call; none at the first.")
      .def("are_covered", &are_covered, nb::arg("filters"), "Which of these are in it, or covered by one that is?")
      .def("copy", &copy, nb::rv_policy::take_ownership, "The same order, with the same nodes; it changes on its own.")
      .def("roots", [](PosetObject& self) { return OneAtATime(self.busy), self.poset.roots(); }, "The covering set, as nodes.")
      .def("parent", [](PosetObject& self, u32 node) { return OneAtATime(self.busy), self.poset.parent(self.checked(node)); },
           nb::arg("node"), "The node that covers this one; 0 for a root.")
      .def("children",
           [](PosetObject& self, u32 node) { return OneAtATime(self.busy), self.poset.children(self.checked(node)); },
           nb::arg("node"))
      .def("uses", [](PosetObject& self, u32 node) { return OneAtATime(self.busy), self.poset.uses(self.checked(node)); },
           nb::arg("node"))
      .def("filter",
           [](PosetObject& self, u32 node) {
             const OneAtATime guard(self.busy);
             const std::string_view bytes = self.poset.filter(self.checked(node));
             return nb::bytes(bytes.data(), bytes.size());
           },
           nb::arg("node"))
      .def_prop_ro("root_count", [](PosetObject& self) { return OneAtATime(self.busy), self.poset.roots().size(); })
      .def("__len__", [](PosetObject& self) { return OneAtATime(self.busy), self.poset.size(); });
}

}  // namespace tidewire
