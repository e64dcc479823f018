#include "replication/replica/reign.h"

#include <utility>
#include <vector>

#include "replication/entry_parts.h"
#include "replication/raft/format.h"

namespace topicdb::replication {

Result<LogPlace> Reign::Propose(const Entry& entry) {
  TOPICDB_RETURN_IF_ERROR(MayWrite());
  // The reign goes on after that, since nothing was proposed.
  TOPICDB_RETURN_IF_ERROR(
      CheckInForce(FormatOf(entry.kind), format_ ? format_() : kClusterFormatNewest));
  const auto proposed = site_.Propose(group_, DivideEntry(entry, Encode(entry)), patience_);
  auto place = proposed.ok() ? AwaitPassed(*proposed) : proposed;
  if (place.ok()) return place;
  // After an unknown outcome nothing may be proposed that builds upon it.
  End(NotLeader(place.status().message()));
  ended_();
  return place;
}

Result<LogPlace> Reign::AwaitPassed(const LogPlace& place) {
  const MutexLock lock(mutex_);
  // The consensus has said that the entry is committed, so it passes soon.
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  while (passed_ < place.index) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return UnknownOutcome("a committed entry did not come back: this site is stopping");
    }
    passes_.WaitUntil(mutex_, deadline);
  }
  if (successor_ == 0 || successor_ > place.index) return place;
  return NotLeader("another replica began to lead before the write: nothing was done");
}

void Reign::NoteApplied(const LogPlace& place) {
  const MutexLock lock(mutex_);
  applied_ = place.index;
  Forget();
}

void Reign::NoteFailed(const Status& why) {
  End(NotLeader("this replica cannot apply what it has written: " + why.message()));
  ended_();
}

Status Reign::MayWrite() const {
  const MutexLock lock(mutex_);
  return over_;
}

void Reign::Pass(KeptEntry entry) {
  const MutexLock lock(mutex_);
  passed_ = entry.place.index;
  const bool counts = Counts(entry);
  if (counts || !kept_.empty()) {
    kept_.push_back(std::move(entry));
  } else {
    site_.NoteApplied(group_, passed_);
  }
  passes_.NotifyAll();
}

bool Reign::Counts(const KeptEntry& entry) {
  if (successor_ != 0) return true;  // as far as this reign knows
  if (entry.bytes.empty()) return false;
  const auto decoded = DecodeEntry(entry.bytes.view());
  if (decoded.ok() && decoded->kind != EntryKind::kLead) return decoded->epoch == term_;
  if (decoded.ok() && entry.place.term == term_) return false;  // it began to lead twice
  // Another reign begins. What cannot be decoded ends this one, too: the follower says what it is.
  successor_ = entry.place.index;
  if (over_.ok()) over_ = NotLeader("another replica leads");
  return true;
}

void Reign::Forget() {
  std::uint64_t forgotten = 0;
  while (!kept_.empty()) {
    const KeptEntry& first = kept_.front();
    if (first.place.index > applied_) break;
    forgotten = first.place.index;
    kept_.pop_front();
  }
  if (kept_.empty()) forgotten = passed_;
  if (forgotten != 0) site_.NoteApplied(group_, forgotten);
}

void Reign::End(const Status& why) {
  const MutexLock lock(mutex_);
  if (over_.ok()) over_ = why;
}

std::uint64_t Reign::applied() const {
  const MutexLock lock(mutex_);
  return applied_;
}

bool Reign::is_over() const { return !MayWrite().ok(); }

KeptEntries Reign::TakeRest(std::uint64_t applied) {
  const MutexLock lock(mutex_);
  while (!kept_.empty() && kept_.front().place.index <= applied) kept_.pop_front();
  return std::move(kept_);
}

}  // namespace topicdb::replication
