// Waiting for commits that bring what is looked for.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "store/database/database_impl.h"

namespace topicdb {

// Calls look() until it says that it has found something, or fails, or `timeout` has passed
// (absent: for ever): at first, and then after commits. A read-only handle is refreshed. No lock is
// held meanwhile. kClosed, kInterrupted.
Status LookUntil(const std::shared_ptr<DatabaseImpl>& database,
                 std::optional<std::chrono::microseconds> timeout,
                 const InterruptCheck& interrupted, const std::function<Result<bool>()>& look);

}  // namespace topicdb
