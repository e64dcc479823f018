// A site that is the only voter of its group, for tests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/thread/mutex.h"
#include "replication/raft/raft_site.h"
#include "replication/replica/reign.h"

namespace topicdb::replication {

inline constexpr std::uint64_t kGroup = 1;
inline constexpr std::uint64_t kReplica = 1;

inline RaftSiteOptions AloneAt(const std::string& directory) {
  RaftSiteOptions options;
  options.directory = directory;
  options.replica = kReplica;
  options.election_timeout = std::chrono::milliseconds(200);
  return options;
}

// Keeps what the site says. Thread-safe.
class KeepingClient : public RaftClient {
 public:
  void TakeCommitted(const std::vector<CommittedEntry>& entries) override {
    const MutexLock lock(mutex_);
    for (const CommittedEntry& entry : entries) {
      entries_.push_back({entry.place, entry.Keep()});
    }
    changed_.NotifyAll();
  }
  void TakePosition(const RaftPosition& position) override {
    const MutexLock lock(mutex_);
    position_ = position;
    changed_.NotifyAll();
  }
  void TakeStop(const Status& why) override { ADD_FAILURE() << why.message(); }
  void MakeSnapshot() override { ADD_FAILURE(); }
  bool FetchSnapshot(std::string_view) override { return false; }
  Status InstallSnapshot() override { return NotFound("no snapshot"); }
  Result<std::string> Answer(std::string_view request) override { return std::string(request); }

  // Waits until the site leads, and returns the term.
  std::uint64_t AwaitLeading() {
    const MutexLock lock(mutex_);
    while (position_.role != RaftRole::kLeader) changed_.Wait(mutex_);
    return position_.term;
  }
  // Waits for the entry at an index, and returns all entries up to it.
  KeptEntries AwaitEntry(std::uint64_t index) {
    const MutexLock lock(mutex_);
    while (entries_.empty() || entries_.back().place.index < index) changed_.Wait(mutex_);
    return entries_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  RaftPosition position_ TOPICDB_GUARDED_BY(mutex_);
  KeptEntries entries_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb::replication
