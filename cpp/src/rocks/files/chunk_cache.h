// Keeps parts of objects in memory that were read lately.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/thread/mutex.h"

namespace topicdb::rocks {

// Which part of which object: its name, unique in the process, and the number of the chunk.
using ChunkKey = std::pair<std::string, std::uint64_t>;
// The bytes of a chunk, which readers share with the cache.
using Chunk = std::shared_ptr<const std::string>;

// Keeps the chunks of objects that were used last, up to a number of bytes. One of them is enough
// for a process: objects never change. Thread-safe.
class ChunkCache {
 public:
  // Lets a cache keep more bytes as long as it lives. Whoever reads much at a time owns it.
  class Room {
   public:
    Room(ChunkCache* cache, std::size_t bytes) : cache_(cache), bytes_(bytes) {
      cache_->Widen(bytes_);
    }
    ~Room() { cache_->Narrow(bytes_); }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;

   private:
    ChunkCache* const cache_;
    const std::size_t bytes_;
  };

  explicit ChunkCache(std::size_t bytes_max) : bytes_max_(bytes_max) {}
  ChunkCache(const ChunkCache&) = delete;
  ChunkCache& operator=(const ChunkCache&) = delete;

  // Returns a chunk, or null if it is not here.
  Chunk Find(const ChunkKey& key) TOPICDB_EXCLUDES(mutex_);
  // Keeps a chunk, and gives up those that were not used for longest.
  void Add(const ChunkKey& key, Chunk chunk) TOPICDB_EXCLUDES(mutex_);
  std::size_t bytes() const TOPICDB_EXCLUDES(mutex_);

 private:
  struct Kept {
    ChunkKey key;
    Chunk chunk;
  };

  void Widen(std::size_t bytes) TOPICDB_EXCLUDES(mutex_);
  void Narrow(std::size_t bytes) TOPICDB_EXCLUDES(mutex_);
  // Gives up chunks until the others fit, and at least one is left.
  void GiveUp() TOPICDB_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::size_t bytes_max_ TOPICDB_GUARDED_BY(mutex_);
  std::list<Kept> used_ TOPICDB_GUARDED_BY(mutex_);  // the last used first
  std::map<ChunkKey, std::list<Kept>::iterator> places_ TOPICDB_GUARDED_BY(mutex_);
  std::size_t bytes_ TOPICDB_GUARDED_BY(mutex_) = 0;
};

}  // namespace topicdb::rocks
