// Decides whether a commit that waits is applied or withdrawn.
#pragma once

#include <atomic>
#include <cstdint>

#include "topicdb/transaction.h"

namespace topicdb {

// Belongs to one commit that was submitted with a way back. Whoever submitted the commit and the
// committer share it. Thread-safe.
class CommitClaim {
 public:
  // Take and NoteStored are for the committer. Take claims the commit, and returns false if it was
  // withdrawn. It may be repeated. NoteStored says that readers see the commit.
  bool Take() {
    Phase found = Phase::kWaiting;
    return phase_.compare_exchange_strong(found, Phase::kTaken) || found == Phase::kTaken;
  }
  void NoteStored() { phase_.store(Phase::kStored); }

  // Withdraws the commit if the committer has not claimed it yet. Returns what is known then.
  CommitKnown GiveUp() {
    Phase found = Phase::kWaiting;
    if (phase_.compare_exchange_strong(found, Phase::kWithdrawn)) return CommitKnown::kNotStored;
    switch (found) {
      case Phase::kTaken:
        return CommitKnown::kUnknown;
      case Phase::kStored:
        return CommitKnown::kStored;
      case Phase::kWaiting:
      case Phase::kWithdrawn:
        break;
    }
    return CommitKnown::kNotStored;
  }

 private:
  enum class Phase : std::uint8_t { kWaiting, kWithdrawn, kTaken, kStored };

  std::atomic<Phase> phase_{Phase::kWaiting};
};

}  // namespace topicdb
