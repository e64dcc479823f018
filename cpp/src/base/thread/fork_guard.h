// Tells whether this process was forked since an object was made.
//
// RocksDB does not survive a fork: its threads are gone in the child, and a write there goes into
// the parent's log. So every call on a handle asks Forked() before it touches a lock or RocksDB.
#pragma once

#include <cstdint>

namespace topicdb {

class ForkGuard {
 public:
  ForkGuard();
  // Whether the calling process is a forked child of the one that made this object. Costs one load.
  bool Forked() const;

 private:
  std::uint64_t epoch_;
};

}  // namespace topicdb
