#include "tls.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cerrno>
#include <stdexcept>

namespace tidewire::bench {

namespace {

constexpr std::size_t kReadAheadBytes = 1 << 16;  // four records with one call to the system

[[noreturn]] void fail(const std::string& what, SSL* session = nullptr) {
  const long verdict = session != nullptr ? SSL_get_verify_result(session) : X509_V_OK;
  const char* reason =
      verdict != X509_V_OK ? X509_verify_cert_error_string(verdict) : ERR_reason_error_string(ERR_peek_error());
  throw std::runtime_error(what + ": " + (reason != nullptr ? reason : "the server closed or took too long"));
}

}  // namespace

void Trust::Free::operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
void Tls::Free::operator()(SSL* session) const { SSL_free(session); }

Trust::Trust(const std::string& authority) : context_(SSL_CTX_new(TLS_client_method())) {
  SSL_CTX* context = context_.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1) fail("TLS");
  // One cipher for everybody: servers differ in which they prefer, and ciphers in what they cost.
  if (SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1) fail("TLS");
  if (SSL_CTX_load_verify_locations(context, authority.c_str(), nullptr) != 1) fail(authority);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadAheadBytes);
}

Tls::Tls(const Trust& trust, int fd, const std::string& host) : session_(SSL_new(trust.context())) {
  SSL* session = session_.get();
  ERR_clear_error();
  if (session == nullptr || SSL_set_fd(session, fd) != 1) fail("TLS");
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host.c_str()) != 1) fail(host);
  if (SSL_connect(session) != 1) fail("the TLS handshake", session);
}

ssize_t Tls::receive(char* to, std::size_t room) {
  std::size_t got = 0;
  ERR_clear_error();
  return SSL_read_ex(session_.get(), to, room, &got) == 1 ? static_cast<ssize_t>(got) : failed();
}

ssize_t Tls::transmit(const char* from, std::size_t count) {
  std::size_t sent = 0;
  ERR_clear_error();
  return SSL_write_ex(session_.get(), from, count, &sent) == 1 ? static_cast<ssize_t>(sent) : failed();
}

ssize_t Tls::failed() const {
  switch (SSL_get_error(session_.get(), 0)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
    case SSL_ERROR_ZERO_RETURN: return 0;
    case SSL_ERROR_SYSCALL: return errno == 0 ? 0 : -1;
    default: errno = EPROTO; return -1;
  }
}

}  // namespace tidewire::bench
