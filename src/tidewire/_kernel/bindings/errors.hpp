// Between Python and the kernel: errors by their stable code, and objects that one thread uses at a time.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <atomic>
#include <string_view>
#include <vector>

#include "base.hpp"

namespace tidewire {

// Raises KernelError as the class of tidewire.model.errors that has its code.
void translate_errors();

using Numbers = nanobind::ndarray<const u32, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

// A copy: the caller's array may change while the GIL is released.
inline std::vector<u32> copied(const Numbers& numbers) { return {numbers.data(), numbers.data() + numbers.size()}; }

// The contents of a list of bytes objects, which stay alive (and the list may change) while the GIL is released.
struct HeldBytes {
  nanobind::tuple owners;
  std::vector<std::string_view> views;

  explicit HeldBytes(const nanobind::list& items) : owners(items) {
    views.reserve(owners.size());
    for (nanobind::handle item : owners) {
      if (!PyBytes_Check(item.ptr())) throw KernelError("usage", "an item of the list is not bytes");
      views.emplace_back(PyBytes_AS_STRING(item.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(item.ptr())));
    }
  }
};

void bind_columns(nanobind::module_& module);
void bind_events(nanobind::module_& module);
void bind_index(nanobind::module_& module);
void bind_log(nanobind::module_& module);
void bind_plane(nanobind::module_& module);
void bind_poset(nanobind::module_& module);
void bind_tls(nanobind::module_& module);

// A kernel object is not for two threads at once: the second one is told so instead of breaking the first.
class OneAtATime {
 public:
  explicit OneAtATime(std::atomic_flag& busy) : busy_(busy) {
    if (busy_.test_and_set(std::memory_order_acquire))
      throw KernelError("usage", "this object is in use by another thread; use it from one thread at a time");
  }
  ~OneAtATime() { busy_.clear(std::memory_order_release); }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;

 private:
  std::atomic_flag& busy_;
};

}  // namespace tidewire
