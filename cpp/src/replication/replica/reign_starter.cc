#include "replication/replica/reign_starter.h"

#include <string>
#include <vector>

#include "replication/entry.h"
#include "replication/raft/hand_over.h"

namespace topicdb::replication {

namespace {

// How long a replica that hands over waits for another one to lead.
constexpr std::chrono::milliseconds kHandOverPatience(2'000);
// How long it waits before it proposes again what was not answered.
constexpr std::chrono::milliseconds kProposeAgainAfter(100);
// How long it waits before it tries to hand over again.
constexpr std::chrono::milliseconds kHandOverAgainAfter(1'000);

std::vector<std::string> FirstOfReign() {
  Entry begins;
  begins.kind = EntryKind::kLead;
  return {Encode(begins)};
}

}  // namespace

void ReignStarter::Start() {
  worker_ = std::thread([this] { Work(); });
}

void ReignStarter::Tell(const RaftPosition& position, Fitness fitness) {
  const MutexLock lock(mutex_);
  if (fitness_ != fitness) begun_term_ = 0;
  position_ = position;
  fitness_ = fitness;
  changed_.NotifyAll();
}

void ReignStarter::Stop() {
  {
    const MutexLock lock(mutex_);
    stops_ = true;
    changed_.NotifyAll();
  }
  if (worker_.joinable()) worker_.join();
}

void ReignStarter::Work() {
  const std::vector<std::string> begins = FirstOfReign();
  while (const std::optional<Task> task = AwaitTask()) {
    if (task->hands_over) {
      if (!LetAnotherLead()) TryAgainAfter(task->term, kHandOverAgainAfter);
    } else if (!site_.Propose(group_, begins, patience_).ok()) {
      TryAgainAfter(task->term, kProposeAgainAfter);
    }
  }
}

std::optional<ReignStarter::Task> ReignStarter::AwaitTask() {
  const MutexLock lock(mutex_);
  while (!stops_ && (position_.role != RaftRole::kLeader || begun_term_ == position_.term ||
                     fitness_ == Fitness::kReigns)) {
    changed_.Wait(mutex_);
  }
  if (stops_) return std::nullopt;
  begun_term_ = position_.term;
  return Task{begun_term_, fitness_ == Fitness::kMustNotReign};
}

void ReignStarter::TryAgainAfter(std::uint64_t term, std::chrono::milliseconds time) {
  const auto at = std::chrono::steady_clock::now() + time;
  const MutexLock lock(mutex_);
  while (!stops_ && begun_term_ == term && std::chrono::steady_clock::now() < at) {
    changed_.WaitUntil(mutex_, at);
  }
  if (begun_term_ == term) begun_term_ = 0;
}

bool ReignStarter::LetAnotherLead() {
  // If no other one leads in time, the others elect one after their election timeout.
  return HandOver(&site_, group_, std::chrono::steady_clock::now() + kHandOverPatience).ok();
}

}  // namespace topicdb::replication
