// Waits for commits that have what a caller looks for.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "store/database/database_impl.h"

namespace topicdb {

// Calls look() at once, and then after commits and from time to time. Ends when look() returns true
// or an error, or `timeout` has passed; without a timeout it waits for ever. Refreshes a read-only
// handle before each further call. Holds no lock while it waits. Returns OK also if nothing was
// found in time. Returns the error of look(), kInterrupted, or what the refresh returns, such as
// kClosed.
Status LookUntil(const std::shared_ptr<DatabaseImpl>& database,
                 std::optional<std::chrono::microseconds> timeout,
                 const InterruptCheck& interrupted, const std::function<Result<bool>()>& look);

}  // namespace topicdb
