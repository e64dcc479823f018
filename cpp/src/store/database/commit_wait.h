// Waits for commits that bring what a caller looks for.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "store/database/database_impl.h"

namespace topicdb {

// Calls look() at once, and then after commits, until it returns true or an error, or `timeout` has
// passed (absent: for ever). Refreshes a read-only handle before each further call. Holds no lock
// while it waits. Returns OK if nothing was found in time. kClosed, kInterrupted.
Status LookUntil(const std::shared_ptr<DatabaseImpl>& database,
                 std::optional<std::chrono::microseconds> timeout,
                 const InterruptCheck& interrupted, const std::function<Result<bool>()>& look);

}  // namespace topicdb
