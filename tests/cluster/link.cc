#include "cluster/link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

namespace topicdb::replication {

namespace {

sockaddr_in OnLoopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

sockaddr* Raw(sockaddr_in* address) { return reinterpret_cast<sockaddr*>(address); }

void SendAtOnce(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

Link::Link() : random_(20'261'128) {
  listens_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = OnLoopback(0);
  EXPECT_EQ(bind(listens_, Raw(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(listens_, SOMAXCONN), 0);
  socklen_t size = sizeof(address);
  EXPECT_EQ(getsockname(listens_, Raw(&address), &size), 0);
  port_ = ntohs(address.sin_port);
  accepts_ = std::thread([this] { Accept(); });
}

Link::~Link() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    changed_.notify_all();
  }
  shutdown(listens_, SHUT_RDWR);
  accepts_.join();
  close(listens_);
  for (Connection& connection : connections_) {
    for (const int end : connection.ends) shutdown(end, SHUT_RDWR);
    for (std::thread& thread : connection.threads) thread.join();
    for (const int end : connection.ends) close(end);
  }
}

void Link::Mend() {
  const std::lock_guard lock(mutex_);
  is_cut_ = false;
  changed_.notify_all();
  for (Connection& connection : connections_) {
    if (!connection.has_lost) continue;
    for (const int end : connection.ends) shutdown(end, SHUT_RDWR);
  }
}

void Link::Delay(std::chrono::milliseconds delay, std::chrono::milliseconds jitter) {
  delay_ = delay.count();
  jitter_ = jitter.count();
}

std::chrono::milliseconds Link::DrawDelay() {
  const auto jitter = jitter_.load();
  if (jitter == 0) return std::chrono::milliseconds(delay_.load());
  const std::lock_guard lock(mutex_);
  return std::chrono::milliseconds(
      delay_ + std::uniform_int_distribution<std::chrono::milliseconds::rep>(0, jitter)(random_));
}

void Link::Accept() {
  for (;;) {
    const int first = accept4(listens_, nullptr, nullptr, SOCK_CLOEXEC);
    if (first < 0) return;
    const int second = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = OnLoopback(target_);
    if (connect(second, Raw(&address), sizeof(address)) != 0) {
      close(first);
      close(second);
      continue;
    }
    SendAtOnce(first);
    SendAtOnce(second);
    const std::lock_guard lock(mutex_);
    Connection& made = connections_.emplace_back();
    made.ends[0] = first;
    made.ends[1] = second;
    if (stops_) shutdown(first, SHUT_RDWR);
    for (int from = 0; from < 2; ++from) {
      made.threads[from] = std::thread([this, &made, from] { Forward(&made, from); });
    }
  }
}

void Link::Forward(Connection* connection, int from) {
  std::string bytes(std::size_t{64} << 10, '\0');
  for (;;) {
    const ssize_t count = recv(connection->ends[from], bytes.data(), bytes.size(), 0);
    if (count <= 0) break;
    if (is_cut_ || connection->has_lost) {
      connection->has_lost = true;
      continue;
    }
    if (const auto delay = DrawDelay(); delay.count() > 0) std::this_thread::sleep_for(delay);
    std::size_t sent = 0;
    while (sent < static_cast<std::size_t>(count)) {
      const ssize_t more = send(connection->ends[1 - from], bytes.data() + sent,
                                static_cast<std::size_t>(count) - sent, MSG_NOSIGNAL);
      if (more <= 0) break;
      sent += static_cast<std::size_t>(more);
    }
    if (sent < static_cast<std::size_t>(count)) break;
  }
  // The other end learns that this one is gone, unless the link is cut.
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stops_ || !is_cut_; });
  }
  for (const int end : connection->ends) shutdown(end, SHUT_RDWR);
}

}  // namespace topicdb::replication
