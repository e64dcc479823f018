// A few independent tasks side by side, for those who wait for all of them.
#pragma once

#include <cstddef>
#include <functional>

#include "topicdb/status.h"

namespace topicdb {

// Calls run(0) to run(tasks - 1), each once, from this thread and as many others as the machine has
// processors for; comes back when all are done. Gives the first error by number; after one, tasks
// that have not begun are left out. One task alone is run in this thread.
Status RunInParallel(std::size_t tasks, const std::function<Status(std::size_t)>& run);

}  // namespace topicdb
