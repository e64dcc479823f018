// Counters in three stores: one and the same read-modify-write transaction on TopicDB and its
// peers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace topicdb::bench {

enum class Side { kTopicDb, kSqlite, kRocksDb };
inline constexpr std::array kSides = {Side::kTopicDb, Side::kSqlite, Side::kRocksDb};

std::string NameOf(Side side);
std::string SqliteVersion();

// One thread's access. Not thread-safe; must not outlive its store.
class CounterSession {
 public:
  CounterSession() = default;
  virtual ~CounterSession() = default;
  CounterSession(const CounterSession&) = delete;
  CounterSession& operator=(const CounterSession&) = delete;

  // One transaction: reads 8 bytes (absent: 0), adds one, writes them, commits. False: another
  // transaction was in the way, and nothing has changed. Any other failure ends the process.
  virtual bool TryIncrement(std::size_t counter) = 0;
};

// Thread-safe. Destroying it closes it.
class CounterStore {
 public:
  CounterStore() = default;
  virtual ~CounterStore() = default;
  CounterStore(const CounterStore&) = delete;
  CounterStore& operator=(const CounterStore&) = delete;

  virtual std::unique_ptr<CounterSession> NewSession() = 0;
  virtual std::uint64_t Read(std::size_t counter) = 0;
};

// Opens what is in `directory`, or begins a store there. `fsync`: a commit survives a loss of
// power; else it is handed to the operating system.
std::unique_ptr<CounterStore> OpenCounters(Side side, const std::string& directory, bool fsync);

}  // namespace topicdb::bench
