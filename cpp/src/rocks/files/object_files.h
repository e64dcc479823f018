// Lets RocksDB read table files that are objects of an object store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include "base/thread/mutex.h"
#include "rocks/files/chunk_cache.h"
#include "rocks/files/chunk_fetch.h"
#include "rocks/files/read_ahead.h"
#include "topicdb/database/upload.h"

namespace topicdb::rocks {

// An object is read in chunks of this size, and a request asks for at most this many of them: a
// request to an object store takes tens of milliseconds, whatever it reads.
inline constexpr std::size_t kChunkBytes = std::size_t{512} << 10;
inline constexpr std::size_t kChunksMax = 8;

// Reads one object. Where it is read from front to back, fetches what comes next before a reader
// asks for it. The file system of an upload owns it. Thread-safe: several requests may be under
// way, and readers that need the same chunk wait for one request.
class ObjectFile {
 public:
  // `place` is where the object is, for errors and as a part of its name in the cache. `cache` and
  // `ahead` must outlive the reads, and `ahead` must end before the file does. Without `ahead`, it
  // fetches only what a reader waits for.
  ObjectFile(std::shared_ptr<ObjectReader> reader, const std::string& place, StoredObject object,
             ChunkCache* cache, ReadAhead* ahead);

  std::uint64_t bytes() const { return object_.bytes; }
  // Says which file a reader goes on with that comes to the end of this one, or null. It must
  // outlive the reads.
  void SetNext(ObjectFile* next) TOPICDB_EXCLUDES(mutex_);
  // Fetches the ends of the file ahead: a reader will soon read it from front to back. The end says
  // where its parts are.
  void Announce() TOPICDB_EXCLUDES(mutex_);
  // Reads at most `size` bytes from `offset` on into `to`, less only at the end of the object.
  // Returns how many these are, or the errors of ObjectReader::Read.
  Result<std::size_t> Read(std::uint64_t offset, std::size_t size, char* to)
      TOPICDB_EXCLUDES(mutex_);

 private:
  // A part of the object that is read from front to back.
  struct Run {
    std::uint64_t begin = 0;
    std::uint64_t next = 0;      // the chunk behind what was read or asked for
    std::uint64_t chunks = 0;    // of the last request
    bool is_sequential = false;  // whether a reader went on where a request had ended
  };

  // Returns a chunk, and fetches it if the cache does not have it, with others behind it. The
  // caller also needs the chunks up to `last`.
  Result<Chunk> Take(std::uint64_t chunk, std::uint64_t last) TOPICDB_EXCLUDES(mutex_);
  Chunk FindKept(std::uint64_t chunk) const { return cache_->Find({name_, chunk}); }
  // Returns the request under way that brings the chunk, or null.
  std::shared_ptr<ChunkFetch> FindFetch(std::uint64_t chunk) const TOPICDB_REQUIRES(mutex_);
  // Returns the run in which or behind which the chunk is, or null. The last used one is the first.
  Run* FindRun(std::uint64_t chunk) TOPICDB_REQUIRES(mutex_);
  // Returns a new request for a chunk that a reader waits for.
  std::shared_ptr<ChunkFetch> Plan(std::uint64_t chunk, std::uint64_t last)
      TOPICDB_REQUIRES(mutex_);
  // Returns a new request for `count` chunks at the end of a run, or fewer: none that is there.
  std::shared_ptr<ChunkFetch> Extend(Run* run, std::uint64_t count) TOPICDB_REQUIRES(mutex_);
  // Notes that a reader is at this chunk, and asks for what comes next in its run. Returns whether
  // the run has come to the end of the file.
  bool FetchAhead(std::uint64_t chunk) TOPICDB_REQUIRES(mutex_);
  // Extends a run in the background. Returns false if it cannot, and changes nothing.
  bool ExtendAhead(Run* run, std::uint64_t count) TOPICDB_REQUIRES(mutex_);
  bool IsHere(std::uint64_t chunk) const TOPICDB_REQUIRES(mutex_) {
    return FindFetch(chunk) != nullptr || FindKept(chunk) != nullptr;
  }
  // Adds a run that begins with this chunk, in place of the one that was not used for longest.
  Run* AddRun(std::uint64_t begin) TOPICDB_REQUIRES(mutex_);
  // Asks the store, and gives the answer to those who wait.
  void Fetch(const std::shared_ptr<ChunkFetch>& fetch) TOPICDB_EXCLUDES(mutex_);
  Result<std::vector<Chunk>> Ask(std::uint64_t chunk, std::uint64_t count) const;

  const std::shared_ptr<ObjectReader> reader_;
  const std::string place_;
  const StoredObject object_;
  const std::string name_;  // in the cache
  const std::uint64_t chunks_;
  ChunkCache* const cache_;
  ReadAhead* const ahead_;
  Mutex mutex_;
  ObjectFile* next_ TOPICDB_GUARDED_BY(mutex_) = nullptr;
  std::vector<Run> runs_ TOPICDB_GUARDED_BY(mutex_);  // the last used first
  std::vector<std::shared_ptr<ChunkFetch>> fetches_ TOPICDB_GUARDED_BY(mutex_);  // under way
};

// The objects that stand for files, by the paths that these have for RocksDB.
using ObjectFiles = std::map<std::string, std::shared_ptr<ObjectFile>>;

// Returns the cache of this process.
ChunkCache& ProcessChunks();

// Returns an environment in which these files are there and can be read. All others are those of
// the machine, as for readers (file_system.h). It owns what the files read ahead with, and must
// outlive the RocksDBs that use it.
std::shared_ptr<rocksdb::Env> MakeObjectEnv(ObjectFiles files, std::unique_ptr<ReadAhead> ahead);

// Tells the files of such an environment in which order readers come to them: by the keys of their
// families. Does nothing for a database in another environment.
void OrderObjects(rocksdb::DB* db, const std::vector<rocksdb::ColumnFamilyHandle*>& families);

}  // namespace topicdb::rocks
