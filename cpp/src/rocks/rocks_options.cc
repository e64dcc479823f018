#include "rocks/rocks_options.h"

#include <rocksdb/advanced_cache.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>

#include "rocks/files/file_system.h"

namespace topicdb::rocks {

namespace {

// Read-only handles own no directory, so they write no log.
class NullLogger : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

// Turns off RocksDB's own recovery from a full disk, which waits for the writers that wait for it
// (9.10). After a failed write, a shard must be opened again.
class NoRecovery : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }
};

rocksdb::ColumnFamilyOptions MakeFamilyOptions(const SharedResources& resources, FamilyUse use) {
  rocksdb::ColumnFamilyOptions options;
  options.write_buffer_size = resources.write_buffer_bytes;
  // When there is a second file, most of what is in the first was removed already.
  if (use == FamilyUse::kBlocks) options.level0_file_num_compaction_trigger = 2;
  options.level_compaction_dynamic_level_bytes = true;  // the default changed in 8.4
  // Each commit releases a snapshot; without a delay that makes RocksDB rewrite files of the last
  // level at once, only to leave out sequence numbers.
  options.bottommost_file_compaction_delay = 24 * 60 * 60;
  // Pages are compressed already. Fresh blocks are gone before compression would pay.
  const bool compresses = use == FamilyUse::kKeys;
  options.compression = compresses ? rocksdb::kLZ4Compression : rocksdb::kNoCompression;
  options.bottommost_compression = compresses ? rocksdb::kZSTD : rocksdb::kNoCompression;

  rocksdb::BlockBasedTableOptions table;
  table.block_cache = resources.block_cache;
  table.format_version = 5;  // read by every RocksDB since 6.6; defaults went 5, 6, 7
  table.checksum = rocksdb::kXXH3;
  table.block_size = 16 << 10;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.optimize_filters_for_memory = true;
  // A table's index has an entry for each page. Indexes must not take memory that grows with the
  // data, so they are in the cache.
  table.cache_index_and_filter_blocks = use == FamilyUse::kPages;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

// Opens files when they are first read: each takes requests to the store. Their sizes are known.
void ReadObjects(rocksdb::Env* objects, rocksdb::DBOptions* options) {
  constexpr int kOpenTablesMax = 4'096;
  options->env = objects;
  options->max_open_files = kOpenTablesMax;
  options->skip_stats_update_on_db_open = true;
}

}  // namespace

SharedResources MakeSharedResources(std::size_t cache_bytes, std::size_t write_buffer_bytes) {
  SharedResources resources;
  resources.block_cache = rocksdb::NewLRUCache(cache_bytes);
  resources.write_buffers = std::make_shared<rocksdb::WriteBufferManager>(write_buffer_bytes);
  resources.write_buffer_bytes = write_buffer_bytes;
  for (std::size_t use = 0; use < kFamilyUses; ++use) {
    resources.families[use] = MakeFamilyOptions(resources, static_cast<FamilyUse>(use));
  }
  return resources;
}

std::size_t CacheBytesInUse(const SharedResources& resources) {
  return resources.block_cache->GetUsage();
}

rocksdb::DBOptions MakeDbOptions(const SharedResources& resources, bool read_only) {
  rocksdb::DBOptions options;
  options.create_if_missing = !read_only;
  options.paranoid_checks = true;
  options.env = EnvOf(read_only ? FilesOwner::kReader : FilesOwner::kWriter);
  // All files are looked at when the shard opens, so one that is missing is noticed then, and what
  // reading needs of each stays in memory. The file system decides how many of them are open
  // (open_files.h).
  options.max_open_files = -1;
  options.fail_if_options_file_error = false;  // there is none: see file_system.h
  // RocksDB starts the threads that open files anew for each column family. With the default of 16,
  // a database of 1,000 slabs took 6 s to open instead of half a second.
  options.max_file_opening_threads = 1;
  // An incomplete record at the end of the log is a commit that nobody was told of. Damage before
  // the end is an error: the default mode would drop what follows it without a word.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // Data and structures of a commit written without the log reach files together or not at all.
  options.atomic_flush = true;
  options.write_buffer_manager = resources.write_buffers;
  options.max_total_wal_size = 2 * resources.write_buffer_bytes;
  options.max_background_jobs = 2;
  options.bytes_per_sync = 1 << 20;
  // Keeps RocksDB's own logs and statistics small, and lets no idle thread wake for them.
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  options.max_log_file_size = 1 << 20;
  options.keep_log_file_num = 2;
  options.max_manifest_file_size = 16 << 20;
  options.db_host_id.clear();  // else every table file names the machine that wrote it
  options.max_bgerror_resume_count = 0;
  options.listeners.push_back(std::make_shared<NoRecovery>());
  options.recycle_log_file_num = 0;  // a recycled log cannot tell a torn tail from an old record
  if (read_only) options.info_log = std::make_shared<NullLogger>();
  if (resources.objects != nullptr) ReadObjects(resources.objects.get(), &options);
  return options;
}

const rocksdb::ColumnFamilyOptions& FamilyOptions(const SharedResources& resources, FamilyUse use) {
  return resources.families[static_cast<std::size_t>(use)];
}

}  // namespace topicdb::rocks
