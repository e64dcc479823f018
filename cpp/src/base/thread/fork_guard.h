// Tells whether this process was forked since an object was made.
//
// RocksDB does not survive a fork. Its threads are gone in the child, and a write there goes into
// the parent's log. So every call on a handle must ask Forked() before it touches a lock or
// RocksDB.
#pragma once

#include <cstdint>

namespace topicdb {

// A member of the objects that a forked child must not use. Immutable, so thread-safe.
class ForkGuard {
 public:
  ForkGuard();
  // Returns whether the calling process was forked from the one that made this object. It costs one
  // load.
  bool Forked() const;

 private:
  std::uint64_t epoch_;
};

}  // namespace topicdb
