// Lets RocksDB read table files that are objects of an object store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <rocksdb/env.h>

#include "base/thread/mutex.h"
#include "rocks/files/chunk_cache.h"
#include "topicdb/database/upload.h"

namespace topicdb::rocks {

// An object is read in chunks of this size. A read that goes on where the last one has ended takes
// twice as many of them as that one, up to this many: a request to an object store takes tens of
// milliseconds, whatever it reads.
inline constexpr std::size_t kChunkBytes = std::size_t{512} << 10;
inline constexpr std::size_t kChunksMax = 16;

// Reads one object, ahead where it is read from front to back. The file system of a database owns
// it. Thread-safe: one request at a time.
class ObjectFile {
 public:
  // `place` is where the object is, for errors and as a part of its name in the cache. `cache` must
  // outlive it.
  ObjectFile(std::shared_ptr<ObjectReader> reader, std::string place, std::string object,
             std::uint64_t bytes, ChunkCache* cache);

  std::uint64_t bytes() const { return bytes_; }
  // Reads at most `size` bytes from `offset` on into `to`, less only at the end of the object.
  // Returns how many these are, or the errors of ObjectReader::Read.
  Result<std::size_t> Read(std::uint64_t offset, std::size_t size, char* to)
      TOPICDB_EXCLUDES(mutex_);

 private:
  // Returns a chunk, and fetches it if the cache does not have it, with others behind it. The
  // caller also needs the chunks up to `last`.
  Result<Chunk> Take(std::uint64_t chunk, std::uint64_t last) TOPICDB_EXCLUDES(mutex_);
  Result<Chunk> Fetch(std::uint64_t chunk, std::uint64_t last) TOPICDB_REQUIRES(mutex_);

  const std::shared_ptr<ObjectReader> reader_;
  const std::string place_;
  const std::string object_;
  const std::uint64_t bytes_;
  ChunkCache* const cache_;
  Mutex mutex_;
  std::uint64_t next_ TOPICDB_GUARDED_BY(mutex_) = 0;  // the chunk behind the last request
  std::uint64_t run_ TOPICDB_GUARDED_BY(mutex_) = 0;   // the chunks of the last request
};

// The objects that stand for files, by the paths that these have for RocksDB.
using ObjectFiles = std::map<std::string, std::shared_ptr<ObjectFile>>;

// Returns the cache of this process.
ChunkCache& ProcessChunks();

// Returns an environment in which these files are there and can be read. All others are those of
// the machine, as for readers (file_system.h). It must outlive the RocksDBs that use it.
std::shared_ptr<rocksdb::Env> MakeObjectEnv(ObjectFiles files);

}  // namespace topicdb::rocks
