// Keeps the readers of iterators that were just used. The next page of a stream then continues
// where the last one ended, without reading and sorting its block again.
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

// Keeps the few readers that were used last. The ShardEnvironment of an open database owns it.
// Thread-safe. Lock rule: mutex_ is the innermost lock except RocksDB's own.
class ReaderCache {
 public:
  // A reader and what it needs.
  struct Entry {
    std::string iterator;  // encoded, as it is stored
    // In this order, so that the reader is destroyed before the view, and the view before the
    // shard.
    std::shared_ptr<Shard> shard;
    std::shared_ptr<const ShardView> view;
    std::unique_ptr<StreamReader> reader;
    std::chrono::steady_clock::time_point used_at{};
  };

  // Removes the entry of an iterator and returns it. Returns an entry without a reader if there is
  // none.
  Entry Take(const std::string& iterator) TOPICDB_EXCLUDES(mutex_);
  // Adds an entry, and forgets the oldest one if there are too many.
  void Put(Entry entry) TOPICDB_EXCLUDES(mutex_);
  // Forgets entries that were not used for some seconds, because their views keep on disk what was
  // removed since.
  void Expire() TOPICDB_EXCLUDES(mutex_);
  // Forgets all entries.
  void Clear() TOPICDB_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::list<Entry> entries_ TOPICDB_GUARDED_BY(mutex_);  // the latest one first
};

}  // namespace topicdb
