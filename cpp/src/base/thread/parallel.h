// Runs a few independent tasks side by side, for a caller that waits for all of them.
#pragma once

#include <cstddef>
#include <functional>

#include "topicdb/status.h"

namespace topicdb {

// Calls run(0) to run(tasks - 1), each once, from this thread and as many others as the machine has
// processors for. Returns when all are done. After an error, starts no more tasks, and returns the
// error of the task with the lowest number. Runs a single task in this thread.
Status RunInParallel(std::size_t tasks, const std::function<Status(std::size_t)>& run);

}  // namespace topicdb
