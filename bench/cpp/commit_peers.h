// Counters in three stores. TopicDB and its peers increment them by the same read-modify-write
// transaction.
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

// The access of one thread to a store. Not thread-safe. The store must outlive it.
class CounterSession {
 public:
  CounterSession() = default;
  virtual ~CounterSession() = default;
  CounterSession(const CounterSession&) = delete;
  CounterSession& operator=(const CounterSession&) = delete;

  // Runs one transaction: reads 8 bytes (0 if they are absent), adds one, writes them, and commits.
  // Returns false if another transaction was in the way, and nothing has changed. Ends the process
  // on any other failure.
  virtual bool TryIncrement(std::size_t counter) = 0;
};

// A store of counters. Thread-safe. The destructor closes it.
class CounterStore {
 public:
  CounterStore() = default;
  virtual ~CounterStore() = default;
  CounterStore(const CounterStore&) = delete;
  CounterStore& operator=(const CounterStore&) = delete;

  virtual std::unique_ptr<CounterSession> NewSession() = 0;
  virtual std::uint64_t Read(std::size_t counter) = 0;
};

// Opens the store in `directory`, or creates one there. With `fsync`, a commit survives a loss of
// power; without, a commit is only handed to the operating system.
std::unique_ptr<CounterStore> OpenCounters(Side side, const std::string& directory, bool fsync);

}  // namespace topicdb::bench
