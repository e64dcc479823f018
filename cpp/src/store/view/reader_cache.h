// Readers of iterators that were just used: the next page of a stream goes on where the last one
// ended, without reading and sorting its block again.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "base/thread/mutex.h"
#include "layout/layout.h"

namespace topicdb {

class Shard;
class ShardView;

// Thread-safe. Lock rule: mutex_ is the innermost lock but RocksDB's own.
class ReaderCache {
 public:
  struct Entry {
    std::string iterator;  // as it is stored
    // In this order: the reader goes before the view, and that before the shard.
    std::shared_ptr<Shard> shard;
    std::shared_ptr<const ShardView> view;
    std::unique_ptr<StreamReader> reader;
    std::chrono::steady_clock::time_point used_at{};
  };

  // Takes the entry of an iterator out; its reader is null if there is none.
  Entry Take(const std::string& iterator) TOPICDB_EXCLUDES(mutex_);
  void Put(Entry entry) TOPICDB_EXCLUDES(mutex_);
  // Forgets what was not used for some seconds: a view keeps what was removed since on the disk.
  void Expire() TOPICDB_EXCLUDES(mutex_);
  void Clear() TOPICDB_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::list<Entry> entries_ TOPICDB_GUARDED_BY(mutex_);  // the latest first
};

}  // namespace topicdb
