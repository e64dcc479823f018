// Reads the options back from RocksDB, in a database that this test opens. So the test, and not a
// user, notices a version with other defaults, or one that changes what TopicDB asks for.

#include "rocks/rocks_options.h"

#include <gtest/gtest.h>
#include <rocksdb/advanced_cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <algorithm>

#include "rocks/rocks_compat.h"
#include "test_directory.h"

namespace topicdb::rocks {
namespace {

constexpr std::size_t kCacheBytes = 4 << 20;
constexpr std::size_t kWriteBufferBytes = 3 << 20;

// A RocksDB that is open with TopicDB's options.
struct OpenedRocks {
  explicit OpenedRocks(const std::string& path, bool read_only = false)
      : resources(MakeSharedResources(kCacheBytes, kWriteBufferBytes)) {
    const Families families{
        {rocksdb::kDefaultColumnFamilyName, FamilyOptions(resources, rocks::FamilyUse::kKeys)}};
    FamilyHandles handles;
    const rocksdb::DBOptions options = MakeDbOptions(resources, read_only);
    const rocksdb::Status status = read_only
                                       ? OpenForReadOnly(options, path, families, &handles, &db)
                                       : Open(options, path, families, &handles, &db);
    EXPECT_TRUE(status.ok()) << status.ToString();
    for (rocksdb::ColumnFamilyHandle* handle : handles) {
      EXPECT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
    }
  }

  SharedResources resources;
  std::unique_ptr<rocksdb::DB> db;
};

TEST(RocksOptions, WhatIsAcknowledgedIsThereAfterACrash) {
  const TestDirectory directory;
  const OpenedRocks opened(directory / "db");
  const rocksdb::DBOptions options = opened.db->GetDBOptions();
  EXPECT_TRUE(options.paranoid_checks);
  EXPECT_EQ(options.wal_recovery_mode, rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords);
  EXPECT_EQ(options.recycle_log_file_num, 0U);
  EXPECT_EQ(options.max_bgerror_resume_count, 0);
  EXPECT_TRUE(options.atomic_flush);
  EXPECT_EQ(options.max_open_files, -1);
}

TEST(RocksOptions, WhoReadsAsksForNoThreads) {
  const TestDirectory directory;
  {
    const OpenedRocks writer(directory / "db");
  }
  const OpenedRocks reader(directory / "db", /*read_only=*/true);
  EXPECT_STREQ(reader.db->GetEnv()->Name(), "EnvWithoutPool");
}

TEST(RocksOptions, MemoryAndFilesAreBounded) {
  const TestDirectory directory;
  const OpenedRocks opened(directory / "db");
  const rocksdb::DBOptions options = opened.db->GetDBOptions();
  EXPECT_EQ(options.write_buffer_manager, opened.resources.write_buffers);
  EXPECT_EQ(options.write_buffer_manager->buffer_size(), kWriteBufferBytes);
  EXPECT_EQ(options.max_total_wal_size, 2 * kWriteBufferBytes);
  EXPECT_EQ(options.max_background_jobs, 2);
  EXPECT_EQ(options.bytes_per_sync, 1U << 20);
  EXPECT_EQ(options.max_log_file_size, 1U << 20);
  EXPECT_EQ(options.keep_log_file_num, 2U);
  EXPECT_EQ(options.max_manifest_file_size, 16U << 20);
  EXPECT_EQ(opened.resources.block_cache->GetCapacity(), kCacheBytes);
}

TEST(RocksOptions, NoIdleThreadAndNoHostName) {
  const TestDirectory directory;
  const OpenedRocks opened(directory / "db");
  const rocksdb::DBOptions options = opened.db->GetDBOptions();
  EXPECT_EQ(options.stats_dump_period_sec, 0U);
  EXPECT_EQ(options.stats_persist_period_sec, 0U);
  EXPECT_EQ(options.info_log_level, rocksdb::InfoLogLevel::WARN_LEVEL);
  EXPECT_EQ(options.db_host_id, "");
}

TEST(RocksOptions, FamiliesAreCompressedAndChecksummed) {
  const TestDirectory directory;
  const OpenedRocks opened(directory / "db");
  const rocksdb::Options options = opened.db->GetOptions(opened.db->DefaultColumnFamily());
  EXPECT_EQ(options.write_buffer_size, kWriteBufferBytes);
  EXPECT_TRUE(options.level_compaction_dynamic_level_bytes);
  EXPECT_EQ(options.bottommost_file_compaction_delay, 24U * 60 * 60);
  EXPECT_EQ(options.compression, rocksdb::kLZ4Compression);
  EXPECT_EQ(options.bottommost_compression, rocksdb::kZSTD);

  const auto* table = options.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->block_cache, opened.resources.block_cache);
  EXPECT_EQ(table->format_version, 5U);
  EXPECT_EQ(table->checksum, rocksdb::kXXH3);
  EXPECT_EQ(table->block_size, 16U << 10);
  ASSERT_NE(table->filter_policy, nullptr);
  EXPECT_STREQ(table->filter_policy->CompatibilityName(), "rocksdb.BuiltinBloomFilter");
  EXPECT_TRUE(table->optimize_filters_for_memory);
}

TEST(RocksOptions, ReadOnlyCreatesNothing) {
  const TestDirectory directory;
  const SharedResources resources = MakeSharedResources(kCacheBytes, kWriteBufferBytes);
  const Families families{
      {rocksdb::kDefaultColumnFamilyName, FamilyOptions(resources, rocks::FamilyUse::kKeys)}};
  FamilyHandles handles;
  std::unique_ptr<rocksdb::DB> db;
  EXPECT_FALSE(
      OpenForReadOnly(MakeDbOptions(resources, true), directory / "db", families, &handles, &db)
          .ok());
  EXPECT_FALSE(std::filesystem::exists(directory / "db"));

  {
    const OpenedRocks writer(directory / "db");
  }
  const auto files = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory / "db")) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  const std::vector<std::string> before = files();
  {
    const OpenedRocks reader(directory / "db", true);
  }
  EXPECT_EQ(files(), before);
}

}  // namespace
}  // namespace topicdb::rocks
