// A RocksDB with two families, into which a LocalLog writes, for tests of logs.
#pragma once

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <memory>
#include <string>

#include "rocks/local_log.h"
#include "rocks/rocks_compat.h"
#include "test_directory.h"

namespace topicdb::rocks {

// Opens the database when it is made. Tests may close and open it again, which loses what is only
// in memory.
class LoggedDatabase {
 public:
  LoggedDatabase() { OpenDatabase(); }
  ~LoggedDatabase() { CloseDatabase(); }
  LoggedDatabase(const LoggedDatabase&) = delete;
  LoggedDatabase& operator=(const LoggedDatabase&) = delete;

  void OpenDatabase() {
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
    options.avoid_flush_during_shutdown = true;
    const Families families = {{rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions()},
                               {"other", rocksdb::ColumnFamilyOptions()}};
    ASSERT_TRUE(Open(options, path(), families, &handles_, &db_).ok());
    log_ = std::make_unique<LocalLog>(db_.get(), "shard 0 of a.db");
  }

  void CloseDatabase() {
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
      EXPECT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
    }
    handles_.clear();
    log_.reset();
    db_.reset();
  }

  std::string path() const { return directory_ / ""; }
  rocksdb::DB& db() { return *db_; }
  rocksdb::ColumnFamilyHandle* main() { return handles_[0]; }
  rocksdb::ColumnFamilyHandle* other() { return handles_[1]; }
  LocalLog& log() { return *log_; }

 private:
  const TestDirectory directory_;
  FamilyHandles handles_;
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<LocalLog> log_;
};

}  // namespace topicdb::rocks
