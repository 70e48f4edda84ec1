#include "tls.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace tidewire {

namespace {

std::string text_of(unsigned long error) {
  if (ERR_SYSTEM_ERROR(error)) return std::strerror(ERR_GET_REASON(error));
  const char* reason = ERR_reason_error_string(error);
  return reason == nullptr ? "an error without a name" : reason;
}

// New keys take long to make, and to ask for them costs nothing.
constexpr u32 kMessagesMax = 64;

// Nobody is asked for the password of a key: a broker has no terminal.
int no_password(char*, int, int, void*) { return -1; }

}  // namespace

void TlsContext::Free::operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
void TlsLine::Free::operator()(SSL* session) const { SSL_free(session); }

TlsContext::TlsContext(bool is_server, const std::string& certificate, const std::string& key,
                       const std::string& authority)
    : context_(SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method())), is_server_(is_server) {
  SSL_CTX* context = context_.get();
  if (context == nullptr) throw std::bad_alloc();
  ERR_clear_error();
  SSL_CTX_set_default_passwd_cb(context, no_password);
  // Nobody comes in by an earlier handshake: certificates are looked at every time.
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);  // there may be ten thousand who say little
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);  // of a client: if it shows a certificate
  X509_VERIFY_PARAM_set_hostflags(SSL_CTX_get0_param(context), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const bool is_good = SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                       SSL_CTX_set_num_tickets(context, 0) == 1 &&
                       SSL_CTX_load_verify_locations(context, authority.c_str(), nullptr) == 1 &&
                       SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) == 1 &&
                       SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) == 1;
  if (is_good) return;
  const unsigned long first = ERR_get_error();
  ERR_clear_error();
  throw KernelError("configuration", text_of(first));
}

// What OpenSSL reads and writes instead of the socket. In the handshake it does read the socket, a record at a time:
// what comes behind the handshake is still in the socket when that is done, and wakes up whoever waits for it.
struct TlsLine::Io {
  static TlsLine& line_of(BIO* bio) { return *static_cast<TlsLine*>(BIO_get_data(bio)); }

  static int read(BIO* bio, char* to, std::size_t count, std::size_t* got) {
    TlsLine& line = line_of(bio);
    BIO_clear_retry_flags(bio);
    if (line.is_secured_) {
      *got = std::min(count, line.incoming_.size());
      std::memcpy(to, line.incoming_.data(), *got);
      line.incoming_.remove_prefix(*got);
      if (*got == 0) BIO_set_retry_read(bio);
      return *got > 0;
    }
    const ssize_t came = recv(line.fd_, to, count, MSG_DONTWAIT);
    *got = came > 0 ? static_cast<std::size_t>(came) : 0;
    if (came > 0) return 1;
    if (came == 0) line.has_ended_ = true;
    else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) BIO_set_retry_read(bio);
    else line.socket_error_ = errno;
    return 0;
  }

  static int write(BIO* bio, const char* from, std::size_t count, std::size_t* put) {
    BIO_clear_retry_flags(bio);
    *put = 0;
    try {
      line_of(bio).outgoing_->push(from, count);
    } catch (const std::bad_alloc&) {
      return 0;  // C is above us
    }
    *put = count;
    return 1;
  }

  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH; }

  static void saw(int is_ours, int, int kind, const void*, std::size_t, SSL*, void* line) {
    if (!is_ours && kind == SSL3_RT_HANDSHAKE) ++static_cast<TlsLine*>(line)->messages_;
  }
};

const BIO_METHOD* TlsLine::method() {
  static BIO_METHOD* const made = [] {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tidewire");
    if (method == nullptr) throw std::bad_alloc();
    BIO_meth_set_read_ex(method, &Io::read);
    BIO_meth_set_write_ex(method, &Io::write);
    BIO_meth_set_ctrl(method, &Io::control);
    return method;
  }();
  return made;
}

TlsLine::TlsLine(const TlsContext& context, int fd, const std::optional<std::string>& server_name)
    : session_(SSL_new(context.get())), fd_(fd) {
  SSL* session = session_.get();
  BIO* bio = session == nullptr ? nullptr : BIO_new(method());
  if (bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(session, bio, bio);
  SSL_set_msg_callback(session, &Io::saw);
  SSL_set_msg_callback_arg(session, this);
  if (context.is_server()) {
    SSL_set_accept_state(session);
    return;
  }
  SSL_set_connect_state(session);
  if (!server_name) throw KernelError("usage", "whom has this client called? Its certificate must say so");
  server_name_ = *server_name;
  ERR_clear_error();
  const bool is_address = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), server_name->c_str()) == 1;
  if (!is_address && (SSL_set1_host(session, server_name->c_str()) != 1 ||
                      SSL_set_tlsext_host_name(session, server_name->c_str()) != 1))
    throw KernelError("usage", "'" + *server_name + "' cannot be the name of a host");
  ERR_clear_error();
}

bool TlsLine::shake_hands() {
  ERR_clear_error();
  const int result = SSL_do_handshake(session_.get());
  is_secured_ = result == 1;
  const bool goes_on = is_secured_ || SSL_get_error(session_.get(), result) == SSL_ERROR_WANT_READ;
  std::string why = goes_on ? "" : why_not(result);
  ERR_clear_error();
  const std::string unsaid = send_flight();  // if it has failed: the alert that says why
  if (goes_on) why = unsaid;
  if (!why.empty()) throw KernelError("peer", why);
  return is_secured_;
}

std::string TlsLine::why_not(int result) const {
  if (socket_error_ != 0) return std::strerror(socket_error_);
  if (has_ended_) return "the other side has ended it";
  const long verdict = SSL_get_verify_result(session_.get());
  if (verdict == X509_V_OK) {
    const bool is_known = SSL_get_error(session_.get(), result) == SSL_ERROR_SSL;
    return "it does not speak TLS as we do: " + (is_known ? text_of(ERR_peek_last_error()) : "no reason is known");
  }
  const std::string bad = "its certificate is not good: ";
  const bool is_name = verdict == X509_V_ERR_HOSTNAME_MISMATCH;
  if (!is_name && verdict != X509_V_ERR_IP_ADDRESS_MISMATCH) return bad + X509_verify_cert_error_string(verdict);
  const char* what = is_name ? "Hostname" : "IP address";
  return bad + what + " mismatch, certificate is not valid for '" + server_name_ + "'.";
}

// Why it was not taken; empty: it was. It has to fit into an empty socket: who is being secured is owed no memory.
std::string TlsLine::send_flight() {
  if (unsent.empty()) return {};
  ssize_t sent = 0;
  do sent = send(fd_, unsent.data(), unsent.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  const int error = sent < 0 ? errno : EAGAIN;
  const bool is_all = sent == static_cast<ssize_t>(unsent.size());
  unsent.clear();
  unsent.release();
  if (is_all) return {};
  return error == EAGAIN ? "the other side does not read" : std::strerror(error);
}

std::string TlsLine::certificate() const {
  const X509* shown = SSL_get0_peer_certificate(session_.get());
  const int size = shown == nullptr ? 0 : i2d_X509(shown, nullptr);
  std::string found(static_cast<std::size_t>(std::max(size, 0)), '\0');
  unsigned char* to = reinterpret_cast<unsigned char*>(found.data());
  if (size > 0) i2d_X509(shown, &to);
  return found;
}

std::size_t TlsLine::open(std::string_view sealed, char* to) {
  incoming_ = sealed;
  const std::size_t room = sealed.size() + kRecordBytes;
  std::size_t count = 0;
  messages_ = 0;
  while (!over_) {
    std::size_t got = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(session_.get(), to + count, room - count, &got);
    count += got;
    if (messages_ > kMessagesMax) over_ = EPROTO;
    if (result == 1) continue;
    const int error = SSL_get_error(session_.get(), result);
    if (error == SSL_ERROR_WANT_READ) break;
    over_ = error == SSL_ERROR_ZERO_RETURN ? 0 : EPROTO;
  }
  ERR_clear_error();
  incoming_ = {};
  return count;
}

bool TlsLine::seal(std::string_view clear, ByteQueue& into) {
  std::size_t put = 0;
  ERR_clear_error();
  outgoing_ = &into;
  const int result = SSL_write_ex(session_.get(), clear.data(), clear.size(), &put);
  outgoing_ = &unsent;
  if (result == 1 && put == clear.size()) return true;
  ERR_clear_error();
  return false;
}

void TlsLine::say_goodbye() {
  if (!is_secured_ || !unsent.empty() || over_ == EPROTO) return;
  ERR_clear_error();
  if (SSL_shutdown(session_.get()) >= 0 && !unsent.empty())
    (void)send(fd_, unsent.data(), unsent.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  ERR_clear_error();
}

}  // namespace tidewire
