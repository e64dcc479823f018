// A connection between sites that a test can cut, delay and mend.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <random>
#include <string>
#include <thread>

namespace topicdb::replication {

// Forwards what one site sends to another one, and the answers to that. It has an address of its
// own, at which the first site looks for the second. The Cluster owns it. Thread-safe.
class Link {
 public:
  Link();
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int port() const { return port_; }
  // Says at which port of this machine the second site is now.
  void SetTarget(int port) { target_ = port; }
  // Swallows all bytes from now on. Nobody notices, except by the silence.
  void Cut() { is_cut_ = true; }
  // Forwards again. Connections that have lost bytes are closed.
  void Mend();
  // Keeps all bytes for this long, and at most `jitter` longer.
  void Delay(std::chrono::milliseconds delay, std::chrono::milliseconds jitter);

 private:
  // One connection and its two ends.
  struct Connection {
    int ends[2] = {-1, -1};
    std::atomic<bool> has_lost{false};
    std::thread threads[2];
  };

  void Accept();
  // Forwards bytes from one end to the other, until either is closed.
  void Forward(Connection* connection, int from);
  std::chrono::milliseconds DrawDelay();

  int port_ = 0;
  int listens_ = -1;
  std::atomic<int> target_{0};
  std::atomic<bool> is_cut_{false};
  std::atomic<std::chrono::milliseconds::rep> delay_{0};
  std::atomic<std::chrono::milliseconds::rep> jitter_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937 random_;  // mutex_ guards it and what follows
  std::list<Connection> connections_;
  bool stops_ = false;
  std::thread accepts_;
};

}  // namespace topicdb::replication
