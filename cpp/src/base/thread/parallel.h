// Runs a few independent tasks side by side, for a caller that waits for all of them.
#pragma once

#include <cstddef>
#include <functional>

#include "topicdb/status.h"

namespace topicdb {

// Calls run(0) to run(tasks - 1), each once, and returns when all are done. This thread and others
// run them: at most 8 threads, and at most as many as the machine has processors. Fewer do if the
// system gives no more threads. After an error, starts no more tasks, and returns the error of the
// task with the lowest number. What a task throws, such as std::bad_alloc, is thrown here once no
// task runs any more. Runs a single task in this thread.
Status RunInParallel(std::size_t tasks, const std::function<Status(std::size_t)>& run);

}  // namespace topicdb
