// The log as Python holds it: for its own methods, and for the data plane that appends to it.
#pragma once

#include <atomic>

#include "log.hpp"

namespace tidewire {

struct LogObject {
  Log log;
  std::atomic_flag busy = ATOMIC_FLAG_INIT;

  LogObject(std::shared_ptr<Files> files, const LogOptions& options) : log(std::move(files), options) {}
};

}  // namespace tidewire
