// A port for tests of what must know its address before it listens there.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

namespace topicdb {

// Returns a port of this machine at which nobody listens. Somebody else may take it before the
// caller does, which is rare, since the system gives away other ports first.
inline std::uint16_t FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  void* const place = &address;
  bool is_bound = ::bind(socket, static_cast<sockaddr*>(place), size) == 0;
  is_bound = ::getsockname(socket, static_cast<sockaddr*>(place), &size) == 0 && is_bound;
  ::close(socket);
  return is_bound ? ntohs(address.sin_port) : std::uint16_t{0};
}

}  // namespace topicdb
