// One request for a part of an object, while it is under way.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/thread/mutex.h"
#include "rocks/files/chunk_cache.h"
#include "topicdb/status.h"

namespace topicdb::rocks {

// Lets readers wait for chunks that one thread asks the store for. That thread and the readers
// share it. Thread-safe.
class ChunkFetch {
 public:
  // For `count` chunks from the chunk `begin` on.
  ChunkFetch(std::uint64_t begin, std::uint64_t count) : begin_(begin), count_(count) {}
  ChunkFetch(const ChunkFetch&) = delete;
  ChunkFetch& operator=(const ChunkFetch&) = delete;

  std::uint64_t begin() const { return begin_; }
  std::uint64_t count() const { return count_; }
  bool Has(std::uint64_t chunk) const { return chunk >= begin_ && chunk - begin_ < count_; }

  // Gives the readers what has come: all chunks in their order, or the error. Call it once.
  void Finish(Result<std::vector<Chunk>> chunks) TOPICDB_EXCLUDES(mutex_);
  // Waits for Finish. Returns the chunk, or the error of the request. Asks `is_interrupted` now and
  // then, and returns kInterrupted if it says so. REQUIRES: Has(chunk)
  Result<Chunk> Wait(std::uint64_t chunk, const std::function<bool()>& is_interrupted)
      TOPICDB_EXCLUDES(mutex_);

 private:
  const std::uint64_t begin_;
  const std::uint64_t count_;
  Mutex mutex_;
  CondVar changed_;
  bool is_done_ TOPICDB_GUARDED_BY(mutex_) = false;
  Status status_ TOPICDB_GUARDED_BY(mutex_);
  std::vector<Chunk> chunks_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb::rocks
