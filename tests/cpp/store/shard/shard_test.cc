// Tests what a shard does when the file system fails it, and what it clears away at the next open.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "rocks/rocks_compat.h"
#include "rocks/rocks_options.h"
#include "store/catalog/family_names.h"
#include "store/catalog/meta.h"
#include "store/shard/shard.h"
#include "test_directory.h"
#include "topicdb/database.h"

namespace topicdb {
namespace {

// While this lives, no file of the process grows beyond `bytes`: writes behind that fail, as on a
// full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : previous_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() {
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, previous_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*previous_handler_)(int);
};

std::unique_ptr<Database> OpenOk(const std::string& path) {
  auto database = Database::Open(path, {});
  EXPECT_TRUE(database.ok()) << database.status().message();
  return std::move(database).value();
}

Status AppendOne(Database& database, std::string_view topic, std::string_view value) {
  const std::vector<MessageView> messages{{topic, 1, value}};
  return database.Append(messages).status();
}

std::vector<std::string> Topics(const Database& database) {
  std::vector<std::string> topics;
  const auto scan = database.NewScan(Filter::Parse("#").value(), {}).value();
  while (const auto batch = scan->Next({}).value()) {
    for (std::size_t row = 0; row < batch->size(); ++row) topics.emplace_back(batch->topic(row));
  }
  return topics;
}

TEST(ShardFailure, AFailedWriteStopsWritingUntilTheDatabaseIsOpenedAgain) {
  const TestDirectory directory;
  {
    const auto database = OpenOk(directory / "db");
    ASSERT_TRUE(AppendOne(*database, "before", "x").ok());
    {
      const FileSizeLimit limit(64 << 10);
      const Status failed = AppendOne(*database, "failed", std::string(1 << 20, 'x'));
      EXPECT_EQ(failed.code(), Code::kStorage) << failed.message();
      EXPECT_NE(failed.message().find("shard 0"), std::string::npos) << failed.message();
    }
    const Status refused = AppendOne(*database, "refused", "x");  // there is room again
    EXPECT_EQ(refused.code(), Code::kStorage);
    EXPECT_NE(refused.message().find("close and reopen"), std::string::npos) << refused.message();
    EXPECT_EQ(database->upkeep().Rotate(std::nullopt).code(), Code::kStorage);
    EXPECT_EQ(Topics(*database), std::vector<std::string>{"before"});
  }
  const auto database = OpenOk(directory / "db");
  EXPECT_EQ(Topics(*database), std::vector<std::string>{"before"});
  EXPECT_TRUE(AppendOne(*database, "after", "x").ok());
  EXPECT_EQ(Topics(*database).size(), 2U);
}

// The RocksDB of shard 0, opened without TopicDB.
class BareShard {
 public:
  explicit BareShard(const std::string& database_path)
      : path_(database_path + "/shards/0000"),
        resources_(rocks::MakeSharedResources(1 << 20, 1 << 20)) {
    rocks::Families families;
    for (const std::string& name : FamilyNames(database_path)) {
      families.emplace_back(name, rocks::FamilyOptions(resources_, FamilyUseOf(name)));
    }
    const auto options = rocks::MakeDbOptions(resources_, false);
    EXPECT_TRUE(rocks::Open(options, path_, families, &handles_, &db_).ok());
  }
  ~BareShard() {
    for (auto* handle : handles_) EXPECT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
    EXPECT_TRUE(db_->Close().ok());
  }
  BareShard(const BareShard&) = delete;
  BareShard& operator=(const BareShard&) = delete;

  static std::vector<std::string> FamilyNames(const std::string& database_path) {
    std::vector<std::string> names;
    EXPECT_TRUE(rocksdb::DB::ListColumnFamilies({}, database_path + "/shards/0000", &names).ok());
    return names;
  }

  void CreateFamily(const std::string& name) {
    rocksdb::ColumnFamilyHandle* handle = nullptr;
    ASSERT_TRUE(
        db_->CreateColumnFamily(rocks::FamilyOptions(resources_, FamilyUseOf(name)), name, &handle)
            .ok());
    handles_.push_back(handle);
    ASSERT_TRUE(db_->Put({}, handle, "key", "value").ok());
  }

  bool HasRecord(const SlabId& slab) {
    std::string bytes;
    return db_->Get({}, meta::SlabKey(slab), &bytes).ok();
  }

  // Stores the record of a large delete, as if a crash had cut the delete short.
  void PutDelete(const meta::DeleteRecord& record) {
    ASSERT_TRUE(
        db_->Put({}, meta::DeleteKey(record.serial, record.index), meta::Encode(record)).ok());
  }

  bool HasDelete(const meta::DeleteRecord& record) {
    std::string bytes;
    return db_->Get({}, meta::DeleteKey(record.serial, record.index), &bytes).ok();
  }

  int CountKeys() {
    int count = 0;
    for (auto* handle : handles_) {
      const std::unique_ptr<rocksdb::Iterator> keys(db_->NewIterator({}, handle));
      for (keys->SeekToFirst(); keys->Valid(); keys->Next()) ++count;
    }
    return count;
  }

  void MarkAsDropping(const SlabId& slab) {
    std::string bytes;
    meta::SlabRecord record;
    ASSERT_TRUE(db_->Get({}, meta::SlabKey(slab), &bytes).ok());
    ASSERT_TRUE(meta::Decode(bytes, &record));
    record.state = meta::SlabState::kDropping;
    ASSERT_TRUE(db_->Put({}, meta::SlabKey(slab), meta::Encode(record)).ok());
  }

 private:
  const std::string path_;
  rocks::SharedResources resources_;
  rocks::FamilyHandles handles_;
  std::unique_ptr<rocksdb::DB> db_;
};

TEST(ShardOpen, WhatARotationLeftThatWasCutShortIsDropped) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  ASSERT_TRUE(AppendOne(*OpenOk(path), "a", "x").ok());
  {
    BareShard(path).CreateFamily(BlocksFamilyName({0, RetentionClassId{0}, Generation{2}}));
  }
  EXPECT_EQ(BareShard::FamilyNames(path).size(), 4U);
  {
    const auto database = OpenOk(path);
    EXPECT_EQ(Topics(*database), std::vector<std::string>{"a"});
    EXPECT_TRUE(database->upkeep().Rotate(std::nullopt).ok());  // the name is free again
  }
  EXPECT_EQ(BareShard::FamilyNames(path).size(), 5U) << "the default one, and two a generation";
  EXPECT_EQ(Topics(*OpenOk(path)), std::vector<std::string>{"a"});
}

TEST(ShardOpen, ADeleteThatWasCutShortHidesItsMessagesAndIsFinished) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  OpenOptions options;
  options.schema.structures = {{"a/+"}};
  options.schema.layout = LayoutKind::kSkipstream;  // in which messages are keys
  {
    const auto database = Database::Open(path, options).value();
    ASSERT_TRUE(AppendOne(*database, "a/1", "x").ok());  // serial 1
    ASSERT_TRUE(AppendOne(*database, "b", "x").ok());
    ASSERT_TRUE(AppendOne(*database, "a/2", "later").ok());  // serial 3, later than the delete
  }
  const meta::DeleteRecord record{
      Serial{2}, 0, {Filter::Parse("a/#").value(), {0, std::nullopt}}, meta::kEveryGeneration};
  int keys = 0;
  {
    BareShard shard(path);
    shard.PutDelete(record);
    keys = shard.CountKeys();
  }
  const std::vector<std::string> left{"a/2", "b"};
  {
    OpenOptions reading;
    reading.read_only = true;
    const auto reader = Database::Open(path, reading).value();
    EXPECT_EQ(Topics(*reader), left) << "hidden, though it is stored";
  }
  EXPECT_EQ(BareShard(path).CountKeys(), keys);
  EXPECT_EQ(Topics(*OpenOk(path)), left);
  BareShard shard(path);
  EXPECT_FALSE(shard.HasDelete(record));
  EXPECT_EQ(shard.CountKeys(), keys - 3) << "the record, the message, its index entry";
}

TEST(ShardOpen, ADropThatWasCutShortIsFinished) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  {
    const auto database = OpenOk(path);
    ASSERT_TRUE(AppendOne(*database, "a", "x").ok());
    ASSERT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
    ASSERT_TRUE(AppendOne(*database, "b", "x").ok());
  }
  {
    BareShard(path).MarkAsDropping({0, RetentionClassId{0}, Generation{1}});
  }
  EXPECT_EQ(Topics(*OpenOk(path)), std::vector<std::string>{"b"});
  EXPECT_EQ(BareShard::FamilyNames(path).size(), 3U);
  EXPECT_FALSE(BareShard(path).HasRecord({0, RetentionClassId{0}, Generation{1}}));
  EXPECT_TRUE(BareShard(path).HasRecord({0, RetentionClassId{0}, Generation{2}}));
}

}  // namespace
}  // namespace topicdb
