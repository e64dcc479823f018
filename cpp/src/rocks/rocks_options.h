// Every RocksDB option that matters to what is on disk or to how it behaves is set here, with the
// reason, whatever the defaults of the version in use are. A test reads them back.
#pragma once

#include <cstddef>
#include <memory>

#include <rocksdb/cache.h>
#include <rocksdb/options.h>
#include <rocksdb/write_buffer_manager.h>

namespace topicdb::rocks {

// Memory that all shards of one database share.
struct SharedResources {
  std::shared_ptr<rocksdb::Cache> block_cache;
  std::shared_ptr<rocksdb::WriteBufferManager> write_buffers;
  std::size_t write_buffer_bytes = 0;
};

SharedResources MakeSharedResources(std::size_t cache_bytes, std::size_t write_buffer_bytes);
std::size_t CacheBytesInUse(const SharedResources& resources);
rocksdb::DBOptions MakeDbOptions(const SharedResources& resources, bool read_only);
// What a column family is for.
enum class FamilyUse {
  kKeys,    // many small keys
  kBlocks,  // fresh blocks, soon removed, and small records about blocks
  kPages,   // compressed already, in the order of their keys
};
rocksdb::ColumnFamilyOptions MakeFamilyOptions(const SharedResources& resources, FamilyUse use);

}  // namespace topicdb::rocks
