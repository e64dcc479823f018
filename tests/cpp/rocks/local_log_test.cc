#include "rocks/local_log.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "rocks/log/commit_link.h"
#include "rocks/log/log_reader.h"
#include "rocks/rocks_compat.h"
#include "test_directory.h"

namespace topicdb::rocks {
namespace {

// A RocksDB with a second family, and a log that writes to it.
class Written {
 public:
  Written() { OpenDatabase(); }
  ~Written() { CloseDatabase(); }

  void OpenDatabase() {
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.avoid_flush_during_shutdown = true;
    const Families families = {{rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions()},
                               {"other", rocksdb::ColumnFamilyOptions()}};
    ASSERT_TRUE(Open(options, directory_ / "db", families, &handles_, &db_).ok());
    log_ = std::make_unique<LocalLog>(db_.get(), "shard 0 of a.db");
  }

  void CloseDatabase() {
    log_.reset();
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
      EXPECT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
    }
    handles_.clear();
    db_.reset();
  }

  Status Put(const ShardEntry& entry, const std::string& key, bool in_other = false) {
    rocksdb::WriteBatch batch;
    EXPECT_TRUE(batch.Put(handles_[0], key, "value").ok());
    if (in_other) {
      EXPECT_TRUE(batch.Put(handles_[1], key, "value").ok());
    }
    return log_->Write(entry, &batch);
  }

  bool Has(const std::string& key) {
    std::string value;
    return db_->Get({}, handles_[0], key, &value).ok();
  }

  // The links in the logs, the oldest first.
  std::vector<CommitLink> Links() {
    std::vector<CommitLink> links;
    for (const auto& file : std::filesystem::directory_iterator(directory_ / "db")) {
      if (file.path().extension() != ".log") continue;
      LogReader reader(file.path());
      while (reader.Next() == LogStep::kRecord) {
        if (const auto link = LinkOf(reader.record())) links.push_back(*link);
      }
    }
    return links;
  }

  rocksdb::DB& db() { return *db_; }
  rocksdb::ColumnFamilyHandle* other() { return handles_[1]; }
  LocalLog& log() { return *log_; }

 private:
  const TestDirectory directory_;
  FamilyHandles handles_;
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<LocalLog> log_;
};

TEST(CommitLink, IsDecodedAsItWasEncoded) {
  const std::string record = std::string("a batch\x03\x10") + Encode({7, 99});
  const auto link = LinkOf(record);
  ASSERT_TRUE(link.has_value());
  EXPECT_EQ(link->number, 7U);
  EXPECT_EQ(link->session, 99U);
  EXPECT_FALSE(LinkOf("a batch").has_value());
  EXPECT_FALSE(LinkOf(record.substr(0, record.size() - 1)).has_value());
}

TEST(LocalLog, NumbersWhatIsInTheLog) {
  Written written;
  ASSERT_TRUE(written.Put({}, "a").ok());
  ASSERT_TRUE(written.Put({EntryKind::kCommit, EntryDurability::kMemory}, "b").ok());
  ASSERT_TRUE(written.Put({EntryKind::kNumbers, EntryDurability::kDisk}, "c").ok());
  const std::vector<CommitLink> links = written.Links();
  ASSERT_EQ(links.size(), 2U);
  EXPECT_EQ(links[0].number, 0U);
  EXPECT_EQ(links[1].number, 1U);
  EXPECT_EQ(links[0].session, links[1].session);
}

TEST(LocalLog, KeepsOutOfTheLogWhatIsForMemory) {
  Written written;
  ASSERT_TRUE(written.Put({EntryKind::kCommit, EntryDurability::kMemory}, "memory").ok());
  ASSERT_TRUE(written.Put({EntryKind::kCommit, EntryDurability::kLog}, "log").ok());
  EXPECT_TRUE(written.Has("memory"));
  EXPECT_GT(written.log().bytes(), 2 * std::string("memory").size());
  written.CloseDatabase();
  written.OpenDatabase();
  EXPECT_FALSE(written.Has("memory"));
  EXPECT_TRUE(written.Has("log"));
}

TEST(LocalLog, LeavesOutDataForAFamilyThatIsGone) {
  Written written;
  ASSERT_TRUE(written.db().DropColumnFamily(written.other()).ok());
  ASSERT_TRUE(written.Put({EntryKind::kData}, "data", /*in_other=*/true).ok());
  EXPECT_TRUE(written.Has("data"));
  // For what readers see that would be a loss.
  const Status status = written.Put({EntryKind::kCommit}, "commit", /*in_other=*/true);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("writing shard 0 of a.db"), std::string::npos);
}

TEST(LocalLog, SyncsAndMayWrite) {
  Written written;
  EXPECT_TRUE(written.log().MayWrite().ok());
  ASSERT_TRUE(written.Put({}, "a").ok());
  EXPECT_TRUE(written.log().Sync().ok());
}

}  // namespace
}  // namespace topicdb::rocks
