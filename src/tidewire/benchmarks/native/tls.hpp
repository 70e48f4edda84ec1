// TLS 1.3 on a connected socket, as a client that verifies the server's certificate.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

extern "C" {
typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_st SSL;
}

namespace tidewire::bench {

// Whom to believe: the certificates in a file. std::runtime_error if it cannot be read.
class Trust {
 public:
  explicit Trust(const std::string& authority);
  SSL_CTX* context() const { return context_.get(); }

 private:
  struct Free {
    void operator()(SSL_CTX* context) const;
  };
  std::unique_ptr<SSL_CTX, Free> context_;
};

class Tls {
 public:
  // Shakes hands on a socket that waits; std::runtime_error if the server is not the one at this numeric address.
  Tls(const Trust& trust, int fd, const std::string& host);

  // As recv and send: -1 and errno, EAGAIN if nothing can be done now.
  ssize_t receive(char* to, std::size_t room);
  ssize_t transmit(const char* from, std::size_t count);

 private:
  struct Free {
    void operator()(SSL* session) const;
  };
  ssize_t failed() const;

  std::unique_ptr<SSL, Free> session_;
};

}  // namespace tidewire::bench
