// Sets every RocksDB option that matters for what is on disk or for how RocksDB behaves, whatever
// the defaults of the version in use are. rocks_options.cc gives the reasons, and a test reads the
// options back.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include <rocksdb/cache.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/write_buffer_manager.h>

namespace topicdb::rocks {

// What a column family is for.
enum class FamilyUse {
  kKeys,    // many small keys
  kBlocks,  // fresh blocks, soon removed, and small records about blocks
  kPages,   // pages that are compressed already, in the order of their keys
};
inline constexpr std::size_t kFamilyUses = 3;

// The memory that all shards of one database share, and the options of their column families. The
// options are shared because RocksDB makes a cache for each new set of them, only to give it up,
// and a database has thousands of families.
struct SharedResources {
  std::shared_ptr<rocksdb::Cache> block_cache;
  std::shared_ptr<rocksdb::WriteBufferManager> write_buffers;
  std::size_t write_buffer_bytes = 0;
  std::array<rocksdb::ColumnFamilyOptions, kFamilyUses> families;
  // Where the table files are objects of a store (files/object_files.h); null: all files are those
  // of the machine.
  std::shared_ptr<rocksdb::Env> objects;
};

// Returns a cache of `cache_bytes`, a limit of `write_buffer_bytes` for what is in memory and not
// in files yet, and the options of families that use both.
SharedResources MakeSharedResources(std::size_t cache_bytes, std::size_t write_buffer_bytes);
// Returns how many bytes the cache holds now.
std::size_t CacheBytesInUse(const SharedResources& resources);
// Returns the options to open a RocksDB with.
rocksdb::DBOptions MakeDbOptions(const SharedResources& resources, bool read_only);
// Returns options that live as long as `resources`.
const rocksdb::ColumnFamilyOptions& FamilyOptions(const SharedResources& resources, FamilyUse use);

}  // namespace topicdb::rocks
