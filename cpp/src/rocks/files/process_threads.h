// RocksDB's background threads, and what a forked child may do.
//
// The threads belong to the whole process, and the first handle that asks for them makes them. A
// child has none of them, but RocksDB believes that it has, and their locks are as they were at the
// moment of the fork. So handles that read have an environment without these threads. Handles that
// write in a child have it, too: each job then gets a thread of its own. If a writing handle was
// open at the moment of the fork, RocksDB may have been at work, and what it had locked stays
// locked in the child. Such a child must not write.
#pragma once

#include <memory>

#include <rocksdb/env.h>
#include <rocksdb/listener.h>

#include "topicdb/status.h"

namespace topicdb::rocks {

// Returns an environment that is `base` without the threads. `base` must outlive it.
std::unique_ptr<rocksdb::Env> WithoutPool(rocksdb::Env* base);
// Returns whether this process has the threads itself: they are not those that its parent had. Only
// a caller that is about to write may call it.
bool HasPool();

// Returns kForked if this process may not write.
Status CheckProcessMayWrite();

// Returns a listener for a handle that is opened for writing. RocksDB keeps it until it has closed
// the handle. For that long, the handle counts as open.
std::shared_ptr<rocksdb::EventListener> MarkWriting();

}  // namespace topicdb::rocks
