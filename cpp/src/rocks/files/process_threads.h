// RocksDB's background threads, and what a forked child may do.
//
// They belong to the whole process, and the first handle that asks for them makes them. A child has
// none of them, but believes that it has, and their locks are in the state that they were in at the
// moment of the fork. So handles that read have an environment without them. Handles that write in
// a child have it, too: each job gets a thread then. Where a writing handle was open at the moment
// of the fork, RocksDB may have been at work, and what it had locked stays locked in the child:
// nothing is written there.
#pragma once

#include <memory>

#include <rocksdb/env.h>
#include <rocksdb/listener.h>

#include "topicdb/status.h"

namespace topicdb::rocks {

// An environment that is another one without the threads. `base` must outlive it.
std::unique_ptr<rocksdb::Env> WithoutPool(rocksdb::Env* base);
// Whether the threads of this process are those that it has, not those that its parent had. To be
// asked by whoever is about to write, and by nobody else.
bool HasPool();

// kForked if this process may not write.
Status CheckProcessMayWrite();

// To be given to a handle that is opened for writing: RocksDB keeps it until it has closed the
// handle, which counts as open for so long.
std::shared_ptr<rocksdb::EventListener> MarkWriting();

}  // namespace topicdb::rocks
