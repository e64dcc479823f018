#include "store/shard/state/shard_loader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "store/catalog/family_names.h"
#include "store/database/database_parts.h"
#include "test_directory.h"

namespace topicdb {
namespace {

namespace fs = std::filesystem;

constexpr SlabId kFirst{0, RetentionClassId{0}, Generation{1}};
constexpr SlabId kSecond{0, RetentionClassId{0}, Generation{2}};

// A database of one shard with two generations, which tests load and change.
class ShardLoaderTest : public ::testing::Test {
 protected:
  ShardLoaderTest() {
    DatabaseParts database(path_);
    const std::vector<MessageView> messages{{"a", 1, "x"}};
    const AppendId id{"an id", DigestOf(messages), 1};
    ShardCommit commit;
    commit.messages = messages;
    commit.id = &id;
    database.shard(0)->Commit(&commit);
    EXPECT_TRUE(commit.status.ok()) << commit.status.message();
    EXPECT_TRUE(database.upkeep.Rotate(std::nullopt, false).ok());
    database.Append({{"b", 2, "y"}, {"c", 3, "z"}});
  }

  static std::shared_ptr<ShardEnvironment> Environment(const std::string& path,
                                                       bool read_only = false) {
    OpenOptions options;
    options.read_only = read_only;
    return DatabaseParts::MakeEnvironment(path, options);
  }
  static Result<LoadedShard> Load(const std::string& path, bool read_only = false) {
    return LoadShard(Environment(path, read_only), 0, ShardUse::kWrite);
  }
  // Calls change(db) for a copy of the database. Returns the path of the copy.
  template <typename Change>
  std::string Changed(Change change) {
    const std::string path = directory_ / ("copy" + std::to_string(++copies_));
    fs::copy(path_, path, fs::copy_options::recursive);
    const auto loaded = Load(path);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    change(*loaded->state->db);
    return path;
  }
  // Returns the error with which a copy is loaded after `key` got another value, or was removed.
  Status AfterPut(const std::string& key, const std::string& value) {
    return Load(Changed([&](rocksdb::DB& db) { EXPECT_TRUE(db.Put({}, key, value).ok()); }))
        .status();
  }
  Status AfterDelete(const std::string& key) {
    return Load(Changed([&](rocksdb::DB& db) { EXPECT_TRUE(db.Delete({}, key).ok()); })).status();
  }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "db";
  int copies_ = 0;
};

void ExpectCorruption(const Status& status, const std::string& what) {
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("shard 0 of "), std::string::npos) << status.message();
}

TEST(ShardDirectory, HasANumberOfFourDigitsOrMore) {
  EXPECT_EQ(ShardDirectory("db", 0), "db/shards/0000");
  EXPECT_EQ(ShardDirectory("db", 12), "db/shards/0012");
  EXPECT_EQ(ShardDirectory("db", 1'023), "db/shards/1023");
  EXPECT_EQ(ShardDirectory("db", 12'345), "db/shards/12345");
}

TEST_F(ShardLoaderTest, LoadsWhatWasCommitted) {
  const auto loaded = Load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  ASSERT_EQ(loaded->slabs.size(), 2U);
  EXPECT_EQ(loaded->slabs[0].slab->id(), kFirst);
  EXPECT_TRUE(loaded->slabs[0].read_only);
  EXPECT_EQ(loaded->slabs[0].slab->Info({}).messages, 1U);
  EXPECT_EQ(loaded->slabs[1].slab->id(), kSecond);
  EXPECT_FALSE(loaded->slabs[1].read_only);
  EXPECT_EQ(loaded->slabs[1].slab->Info({}).messages, 2U);
  EXPECT_EQ(loaded->slabs[1].slab->layout_state()->fresh_blocks, 1U);
  EXPECT_EQ(loaded->writer.append_ids->Find("an id")->serial, Serial{1});
  EXPECT_TRUE(loaded->writer.dropping.empty());
  EXPECT_TRUE(loaded->writer.unnamed.empty());
  EXPECT_EQ(loaded->state->view(), nullptr) << "nothing is published yet";
  const MutexLock lock(loaded->state->mutex);
  EXPECT_EQ(loaded->state->commit.serial, Serial{2});
}

TEST_F(ShardLoaderTest, OneWriterLocksAShardAndReadersDoNot) {
  const auto writer = Load(path_);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  const auto reader = Load(path_, /*read_only=*/true);
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(reader->writer.append_ids->size(), 0U) << "a reader appends nothing";
  const Status second = Load(path_).status();
  EXPECT_EQ(second.code(), Code::kLocked);
  EXPECT_NE(second.message().find("mode='r'"), std::string::npos) << second.message();
}

TEST_F(ShardLoaderTest, CreatesAnEmptyShard) {
  const auto environment = Environment(path_);
  {
    const auto created = LoadShard(environment, 7, ShardUse::kCreate);
    ASSERT_TRUE(created.ok()) << created.status().message();
    EXPECT_TRUE(created->slabs.empty());
  }
  const auto loaded = LoadShard(environment, 7, ShardUse::kWrite);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_TRUE(loaded->slabs.empty());
  const MutexLock lock(loaded->state->mutex);
  EXPECT_EQ(loaded->state->commit.serial, kNoSerial);
}

TEST_F(ShardLoaderTest, AShardThatIsMissingIsCorruption) {
  const Status missing = LoadShard(Environment(path_), 3, ShardUse::kWrite).status();
  EXPECT_EQ(missing.code(), Code::kCorruption);
  EXPECT_NE(missing.message().find("shard 3 of "), std::string::npos) << missing.message();
  fs::remove(path_ + "/shards/0000/CURRENT");
  ExpectCorruption(Load(path_).status(), "CURRENT is missing");
}

TEST_F(ShardLoaderTest, AShardInAnotherPlaceIsCorruption) {
  fs::copy(path_ + "/shards/0000", path_ + "/shards/0001", fs::copy_options::recursive);
  const Status other = LoadShard(Environment(path_), 1, ShardUse::kWrite).status();
  EXPECT_EQ(other.code(), Code::kCorruption);
  EXPECT_NE(other.message().find("belongs to another database or shard"), std::string::npos)
      << other.message();
}

TEST_F(ShardLoaderTest, EachRecordThatIsMalformedIsNamed) {
  const std::pair<std::string, const char*> records[] = {
      {meta::IdentityKey(), "its identity is malformed"},
      {meta::CommitStateKey(), "its commit state is malformed"},
      {meta::RulesKey(), "the record of its retention rules is malformed"},
      {meta::ReplicatedRulesKey(), "the record of its retention rules is damaged"},
      {meta::ClockKey(), "its clock is malformed"},
      {meta::DeleteKey(Serial{1}, 0), "the record of a delete is malformed"},
      {meta::JobKey("j"), "the record of a job is malformed"},
      {meta::AppendIdKey(Serial{1}), "the record of an append's id is malformed"},
      {meta::SlabKey(kFirst), "the record of a generation is malformed"},
      {meta::CountersKey(kSecond), "counters of a generation are malformed"},
      {meta::NodeKey(kFirst, kRootNode), "a structure node is malformed"}};
  for (const auto& [key, what] : records) ExpectCorruption(AfterPut(key, "damaged"), what);
}

TEST_F(ShardLoaderTest, EachRecordThatIsMissingIsNamed) {
  ExpectCorruption(AfterDelete(meta::IdentityKey()), "it has no identity");
  ExpectCorruption(AfterDelete(meta::CommitStateKey()), "it has no commit state");
  ExpectCorruption(AfterDelete(meta::CountersKey(kFirst)), "it has no counters of a generation");
  ExpectCorruption(AfterDelete(meta::NodeKey(kFirst, kRootNode + 1)),
                   "a node before it is missing");
}

TEST_F(ShardLoaderTest, SerialsThatMayHaveBeenUsedAreNotUsedAgain) {
  meta::CommitState state;
  state.serial = Serial{2};
  state.serial_limit = Serial{50};
  const std::string path = Changed([&](rocksdb::DB& db) {
    EXPECT_TRUE(db.Put({}, meta::CommitStateKey(), meta::Encode(state)).ok());
  });
  const auto serial = [&](bool read_only) {
    const auto loaded = Load(path, read_only);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    const MutexLock lock(loaded->state->mutex);
    return loaded->state->commit.serial;
  };
  EXPECT_EQ(serial(/*read_only=*/true), Serial{2}) << "readers see what was committed";
  EXPECT_EQ(serial(/*read_only=*/false), Serial{50});
}

TEST_F(ShardLoaderTest, WhatACrashHasLeftIsListed) {
  const std::string path = Changed([&](rocksdb::DB& db) {
    std::string bytes;
    meta::SlabRecord record;
    ASSERT_TRUE(db.Get({}, meta::SlabKey(kFirst), &bytes).ok());
    ASSERT_TRUE(meta::Decode(bytes, &record));
    record.state = meta::SlabState::kDropping;
    ASSERT_TRUE(db.Put({}, meta::SlabKey(kFirst), meta::Encode(record)).ok());
  });
  const auto loaded = Load(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->writer.dropping, std::vector<SlabId>{kFirst});
  ASSERT_EQ(loaded->slabs.size(), 1U);
  EXPECT_EQ(loaded->slabs[0].slab->id(), kSecond);
  EXPECT_TRUE(loaded->writer.unnamed.contains(BlocksFamilyName(kFirst)));
  EXPECT_TRUE(loaded->writer.unnamed.contains(PagesFamilyName(kFirst)));
}

TEST_F(ShardLoaderTest, AReaderLearnsOfClassesThatAreNewerThanItsRules) {
  const auto reader = Environment(path_, /*read_only=*/true);
  const auto writer = Environment(path_);
  {
    DatabaseParts database(path_);
    ASSERT_TRUE(database.upkeep.SetRetention({{"new/#"}}, false).ok());
  }
  const auto loaded = LoadShard(reader, 0, ShardUse::kWrite);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->slabs.back().slab->id().retention_class,
            reader->rules()->IndexOf("new/#").value());
  ExpectCorruption(LoadShard(writer, 0, ShardUse::kWrite).status(),
                   "the record of a generation is malformed");
}

}  // namespace
}  // namespace topicdb
