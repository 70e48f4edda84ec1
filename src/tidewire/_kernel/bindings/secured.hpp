// A connection that is being secured belongs to Python; once it is, to the data plane.
#pragma once

#include "errors.hpp"
#include "tls.hpp"

namespace tidewire {

struct TlsLineObject {
  std::unique_ptr<TlsLine> line;
  std::atomic_flag busy = ATOMIC_FLAG_INIT;

  TlsLineObject(const TlsContext& context, int fd, const std::optional<std::string>& server_name)
      : line(std::make_unique<TlsLine>(context, fd, server_name)) {}

  TlsLine& here() const {
    if (line == nullptr) throw KernelError("usage", "this line has been attached: it is the data plane's now");
    return *line;
  }
  std::unique_ptr<TlsLine> handed_over() {
    const OneAtATime guard(busy);
    (void)here();
    return std::move(line);
  }
};

}  // namespace tidewire
