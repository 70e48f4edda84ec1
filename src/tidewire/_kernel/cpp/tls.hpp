// TLS 1.3 on a socket. OpenSSL never touches the socket of a connection that is secured: it opens and seals bytes in
// memory. So it never waits for the socket, nothing complete is left inside it, and what it has sealed has one owner.
#pragma once

#include <memory>
#include <optional>

#include "queue.hpp"

typedef struct bio_method_st BIO_METHOD;
typedef struct bio_st BIO;
typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_st SSL;

namespace tidewire {

inline constexpr std::size_t kRecordBytes = 16u << 10;  // in clear, at most

// Who we are, and whom we trust.
class TlsContext {
 public:
  // Files in PEM. KernelError, with the reason, if they are of no use.
  TlsContext(bool is_server, const std::string& certificate, const std::string& key, const std::string& authority);

  bool is_server() const { return is_server_; }
  SSL_CTX* get() const { return context_.get(); }

 private:
  struct Free {
    void operator()(SSL_CTX* context) const;
  };
  std::unique_ptr<SSL_CTX, Free> context_;
  bool is_server_;
};

// One connection, from its handshake on.
class TlsLine {
 public:
  // As a client: `server_name` is whom we have called, a name or an address, which its certificate must have.
  TlsLine(const TlsContext& context, int fd, const std::optional<std::string>& server_name);
  TlsLine(const TlsLine&) = delete;
  TlsLine& operator=(const TlsLine&) = delete;

  // As far as it goes without waiting; true: it is secured. KernelError, with the reason, if it has failed.
  bool shake_hands();
  // The other side's certificate, which was verified (DER); empty: it has shown none.
  std::string certificate() const;

  // Opens all records that are complete now. `to` has room for a record more than there are bytes. How many came out?
  std::size_t open(std::string_view sealed, char* to);
  // Nothing more comes out: the other side has said so (0), or what came is no TLS (EPROTO).
  std::optional<int> over() const { return over_; }
  // At most a record, sealed, behind what is there. False if that failed, and always will.
  bool seal(std::string_view clear, ByteQueue& into);
  // We say no more.
  void say_goodbye();

  ByteQueue unsent;  // sealed, and not yet taken by the socket

 private:
  struct Free {
    void operator()(SSL* session) const;
  };
  struct Io;  // what OpenSSL calls
  static const BIO_METHOD* method();
  std::string send_flight();
  std::string why_not(int result) const;

  std::unique_ptr<SSL, Free> session_;
  std::string server_name_;
  int fd_;
  u32 messages_ = 0;  // of TLS itself, among what is being opened
  bool is_secured_ = false;
  int socket_error_ = 0;
  bool has_ended_ = false;         // the socket, in the handshake
  std::string_view incoming_;      // for OpenSSL to read
  ByteQueue* outgoing_ = &unsent;  // where it writes
  std::optional<int> over_;
};

}  // namespace tidewire
