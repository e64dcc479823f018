// The queue of commits of one shard: GroupCommit for one type of commit.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "commit/group_commit.h"
#include "topicdb/options.h"
#include "topicdb/status.h"

namespace topicdb {

// Gathers the commits of one type, which derives from QueuedCommit, and has two functions write and
// fsync them. The Committer of a shard owns it, and must keep alive what these functions use.
// Thread-safe; Close must be the last call.
template <typename Commit>
class CommitQueue {
 public:
  // They write and fsync as the functions of GroupCommit do.
  using WriteGroup = std::function<void(std::span<Commit* const> group)>;
  using SyncLog = GroupCommit::SyncLog;

  CommitQueue(WriteGroup write_group, SyncLog sync_log, const CommitOptions& options)
      : commits_(
            [write_group = std::move(write_group)](std::span<QueuedCommit* const> group) {
              std::vector<Commit*> typed;
              typed.reserve(group.size());
              // The queue takes no other type.
              for (QueuedCommit* commit : group) typed.push_back(static_cast<Commit*>(commit));
              write_group(typed);
            },
            std::move(sync_log), options) {}

  // Returns when the commit has failed, or is written and as durable as it asks. Waits while the
  // queue is full.
  void Run(Commit* commit) { commits_.Run(commit); }
  // Takes the commit and returns true. Calls `done` from a thread of the queue when the commit is
  // over. Waits while the queue is full. If it still is at the deadline `room_until`, returns false
  // and destroys the commit; nobody calls `done` then.
  bool Submit(std::unique_ptr<Commit> commit, std::function<void()> done,
              std::optional<GroupCommit::Clock::time_point> room_until = std::nullopt) {
    return commits_.Submit(std::move(commit), std::move(done), room_until);
  }
  // Finishes what was submitted. No call may be under way or follow. May be repeated.
  void Close() { commits_.Close(); }

  // Returns how many commits wait for a group. Callers that wait for room are not among them.
  std::size_t pending_count() { return commits_.pending_count(); }

 private:
  GroupCommit commits_;
};

}  // namespace topicdb
