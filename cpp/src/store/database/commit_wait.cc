#include "store/database/commit_wait.h"

#include <algorithm>

namespace topicdb {

namespace {

// Whoever waits asks this often whether to stop.
constexpr std::chrono::milliseconds kWait(50);
// A read-only handle asks this often, and looks for new commits.
constexpr std::chrono::milliseconds kRefreshWait(250);

using Clock = std::chrono::steady_clock;

}  // namespace

Status LookUntil(const std::shared_ptr<DatabaseImpl>& database,
                 std::optional<std::chrono::microseconds> timeout,
                 const InterruptCheck& interrupted, const std::function<Result<bool>()>& look) {
  const bool read_only = database->environment().read_only;
  const auto pause = read_only ? kRefreshWait : kWait;
  const auto began = Clock::now();
  while (true) {
    const std::uint64_t seen = database->environment().commits->count();
    TOPICDB_ASSIGN_OR_RETURN(const bool has_found, look());
    if (has_found) return Status::Ok();
    auto deadline = Clock::now() + pause;
    if (timeout.has_value()) deadline = std::min(deadline, began + *timeout);
    if (Clock::now() >= deadline) return Status::Ok();
    if (interrupted && interrupted()) return Interrupted();
    database->environment().commits->WaitUntil(seen, deadline);
    if (!read_only) continue;
    TOPICDB_ENTER(database);
    TOPICDB_RETURN_IF_ERROR(database->Refresh());
  }
}

}  // namespace topicdb
