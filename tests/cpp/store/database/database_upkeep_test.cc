#include "store/database/database_upkeep.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "store/database/database_parts.h"
#include "test_directory.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

// A database of two shards, in which "a/#" is kept for eight hours, and begins a generation each
// hour. Other topics are kept for ever.
class DatabaseUpkeepTest : public ::testing::Test {
 protected:
  DatabaseUpkeepTest() { const DatabaseParts made(path_, Options()); }

  static OpenOptions Options() {
    OpenOptions options = WithShards(2);
    options.schema.retention = {{"a/#", 8h}};
    return options;
  }
  // Appends a message of "a/#" and another one to each shard.
  static void AppendToAll(DatabaseParts* database, std::int64_t timestamp) {
    for (const std::uint32_t shard : {0, 1}) {
      for (int i = 0;; ++i) {
        const std::string topic = "a/" + std::to_string(i);
        if (ShardOfTopic(topic, 2) != shard) continue;
        database->Append({{topic, timestamp, "x"}, {TopicIn(shard, 2), timestamp, "x"}});
        break;
      }
    }
  }
  static std::size_t CountReadOnly(const DatabaseParts& database) {
    std::size_t count = 0;
    for (const SlabInfo& slab : database.upkeep.Slabs()) count += slab.read_only ? 1 : 0;
    return count;
  }
  // The time so long from now, as the clock of the shards has it.
  static WallTime Later(std::chrono::microseconds time) { return ReadWallClock() + time; }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "db";
};

TEST_F(DatabaseUpkeepTest, RotatesAClassOrAllInAllShards) {
  DatabaseParts database(path_);
  EXPECT_EQ(database.upkeep.Slabs().size(), 4U);
  ASSERT_TRUE(database.upkeep.Rotate("a/#", false).ok());
  EXPECT_EQ(database.upkeep.Slabs().size(), 6U);
  ASSERT_TRUE(database.upkeep.Rotate(std::nullopt, false).ok());
  const std::vector<SlabInfo> slabs = database.upkeep.Slabs();
  ASSERT_EQ(slabs.size(), 10U);
  EXPECT_EQ(CountReadOnly(database), 6U);
  for (const SlabInfo& slab : slabs) {
    EXPECT_EQ(slab.read_only, slab.sealed_at.has_value());
    EXPECT_EQ(slab.layout, LayoutKind::kColumnar);
  }
}

TEST_F(DatabaseUpkeepTest, WhatCannotBeRotatedIsNamed) {
  DatabaseParts database(path_);
  const Status unknown = database.upkeep.Rotate("b/#", false);
  EXPECT_EQ(unknown.code(), Code::kNotFound);
  EXPECT_NE(unknown.message().find("b/#"), std::string::npos) << unknown.message();
  EXPECT_EQ(database.upkeep.Rotate("a/#", /*resets_clock=*/true).code(), Code::kInvalidArgument);
  EXPECT_EQ(database.upkeep.Slabs().size(), 4U);
  EXPECT_TRUE(database.upkeep.Rotate(std::nullopt, /*resets_clock=*/true).ok());
}

TEST_F(DatabaseUpkeepTest, ARotationMayBeginAnotherLayout) {
  {
    DatabaseParts database(path_);
    AppendToAll(&database, 1);
    ASSERT_TRUE(database.upkeep.Rotate("a/#", false, LayoutKind::kSkipstream).ok());
    AppendToAll(&database, 1);
  }
  DatabaseParts database(path_);
  const std::vector<SlabInfo> slabs = database.upkeep.Slabs();
  EXPECT_EQ(slabs.size(), 6U);
  for (const SlabInfo& slab : slabs) {
    const bool is_state = slab.retention_class == "a/#" && !slab.read_only;
    EXPECT_EQ(slab.layout, is_state ? LayoutKind::kSkipstream : LayoutKind::kColumnar);
    EXPECT_EQ(slab.messages, slab.retention_class == "a/#" ? 1U : 2U);
  }
}

TEST_F(DatabaseUpkeepTest, AClassWithALayoutBeginsAGenerationOfIt) {
  DatabaseParts database(path_);
  const auto layouts = [&] {
    std::vector<LayoutKind> current;
    for (const SlabInfo& slab : database.upkeep.Slabs()) {
      if (slab.retention_class == "a/#" && !slab.read_only) current.push_back(slab.layout);
    }
    return current;
  };
  const std::vector<LayoutKind> states(2, LayoutKind::kSkipstream);
  const std::vector<LayoutKind> logs(2, LayoutKind::kColumnar);
  RetentionClass rule{"a/#", 8h};
  rule.layout = LayoutKind::kSkipstream;
  ASSERT_TRUE(database.upkeep.SetRetention({rule}, /*dry_run=*/true).ok());
  EXPECT_EQ(layouts(), logs) << "it was only tried";
  ASSERT_TRUE(database.upkeep.SetRetention({rule}, false).ok());
  EXPECT_EQ(layouts(), states);
  const std::size_t count = database.upkeep.Slabs().size();
  ASSERT_TRUE(database.upkeep.SetRetention({rule}, false).ok());
  EXPECT_EQ(database.upkeep.Slabs().size(), count) << "they have it";
  ASSERT_TRUE(database.upkeep.Rotate("a/#", false, LayoutKind::kColumnar).ok());
  EXPECT_EQ(layouts(), logs) << "it was said for this generation";
  ASSERT_TRUE(database.upkeep.Rotate("a/#", false).ok());
  EXPECT_EQ(layouts(), states) << "the class says it again";
  ASSERT_TRUE(database.upkeep.SetRetention({{"a/#", 8h}}, false).ok());
  ASSERT_TRUE(database.upkeep.Rotate("a/#", false).ok());
  EXPECT_EQ(layouts(), states) << "it goes on as it was";
}

// Each message of a map of topics replaces the one before, which blocks cannot do.
TEST(DatabaseUpkeep, AMapOfTopicsHasOneLayout) {
  const TestDirectory directory;
  OpenOptions options;
  options.schema.layout = LayoutKind::kSkipstream;
  options.schema.timestamp_bytes = 0;
  DatabaseParts database(directory / "db", options);
  const Status rotated = database.upkeep.Rotate(std::nullopt, false, LayoutKind::kColumnar);
  EXPECT_EQ(rotated.code(), Code::kSchema);
  RetentionClass rule{"a/#"};
  rule.layout = LayoutKind::kColumnar;
  const Status set = database.upkeep.SetRetention({rule}, false).status();
  EXPECT_EQ(set.code(), Code::kSchema);
  EXPECT_NE(set.message().find("'a/#'"), std::string::npos) << set.message();
  EXPECT_EQ(database.upkeep.Slabs().size(), 1U);
  EXPECT_EQ(database.environment->rules()->version(), 0U);
  EXPECT_TRUE(database.upkeep.Rotate(std::nullopt, false, LayoutKind::kSkipstream).ok());
}

TEST_F(DatabaseUpkeepTest, DropsASlabByItsClassAndGeneration) {
  DatabaseParts database(path_);
  ASSERT_TRUE(database.upkeep.Rotate("a/#", false).ok());
  EXPECT_EQ(database.upkeep.DropSlab(0, "b/#", Generation{1}).code(), Code::kNotFound);
  EXPECT_EQ(database.upkeep.DropSlab(7, "a/#", Generation{1}).code(), Code::kReadOnly);
  EXPECT_EQ(database.upkeep.DropSlab(0, "a/#", Generation{2}).code(), Code::kInvalidArgument);
  EXPECT_EQ(database.upkeep.Slabs().size(), 6U);
  ASSERT_TRUE(database.upkeep.DropSlab(0, "a/#", Generation{1}).ok());
  EXPECT_EQ(database.upkeep.Slabs().size(), 5U);
}

TEST_F(DatabaseUpkeepTest, NewClassesHoldForAllShardsAndAfterAnOpening) {
  {
    DatabaseParts database(path_);
    const auto foreseen = database.upkeep.SetRetention({{"a/#", 8h}, {"b/#", 5h}}, true);
    ASSERT_TRUE(foreseen.ok()) << foreseen.status().message();
    EXPECT_EQ(database.environment->rules()->version(), 0U) << "it was only tried";
    EXPECT_FALSE(std::filesystem::exists(path_ + "/retention"));
    ASSERT_TRUE(database.upkeep.SetRetention({{"a/#", 8h}, {"b/#", 5h}}, false).ok());
    EXPECT_EQ(database.environment->rules()->classes().size(), 2U);
    EXPECT_EQ(database.upkeep.Slabs().size(), 6U) << "both shards have adopted them";
    database.Append({{"b/1", 5, "x"}});
  }
  DatabaseParts database(path_);
  EXPECT_EQ(database.environment->rules()->classes()[1].filter, "b/#");
  std::uint64_t messages = 0;
  for (const SlabInfo& slab : database.upkeep.Slabs()) {
    if (slab.retention_class == "b/#") messages += slab.messages;
  }
  EXPECT_EQ(messages, 1U);
}

TEST_F(DatabaseUpkeepTest, ClassesThatCannotBeChangeNothing) {
  DatabaseParts database(path_);
  EXPECT_EQ(database.upkeep.SetRetention({{"b/#"}, {"b/#"}}, false).status().code(), Code::kSchema);
  EXPECT_EQ(database.environment->rules()->version(), 0U);
  EXPECT_FALSE(std::filesystem::exists(path_ + "/retention"));
}

TEST_F(DatabaseUpkeepTest, WithSomeShardsNobodyChangesClasses) {
  OpenOptions options;
  options.only_shards = {1};
  DatabaseParts database(path_, options);
  const Status refused = database.upkeep.SetRetention({{"b/#"}}, false).status();
  EXPECT_EQ(refused.code(), Code::kReadOnly);
  EXPECT_TRUE(refused.message().starts_with("set_retention")) << refused.message();
}

TEST_F(DatabaseUpkeepTest, ChecksTheQuotaOfTheOpenShards) {
  OpenOptions options;
  options.quota_bytes = 100'000;
  DatabaseParts database(path_, options);
  EXPECT_TRUE(database.upkeep.CheckQuota().ok());
  database.Append(
      {{TopicIn(0, 2), 1, std::string(60'000, 'x')}, {TopicIn(1, 2), 1, std::string(60'000, 'x')}});
  const Status full = database.upkeep.CheckQuota();
  EXPECT_EQ(full.code(), Code::kQuota);
  EXPECT_NE(full.message().find("its quota is 100000"), std::string::npos) << full.message();
  options.quota_bytes = 0;
  EXPECT_TRUE(DatabaseUpkeep(database.environment, database.shards, database.closing, options)
                  .CheckQuota()
                  .ok());
}

TEST_F(DatabaseUpkeepTest, TheQuotaCanBeReplaced) {
  DatabaseParts database(path_);
  database.Append({{TopicIn(0, 2), 1, std::string(60'000, 'x')}});
  ASSERT_TRUE(database.upkeep.Rotate(std::nullopt, false).ok());
  database.Append({{TopicIn(1, 2), 1, std::string(60'000, 'x')}});
  EXPECT_EQ(database.upkeep.Quota().quota_bytes, 0U);
  const double trim = database.upkeep.Quota().quota_trim;
  const auto tried = database.upkeep.SetQuota(100'000, std::nullopt, /*dry_run=*/true);
  ASSERT_TRUE(tried.ok()) << tried.status().message();
  EXPECT_FALSE(tried->empty());
  for (const DroppedSlab& slab : *tried) EXPECT_EQ(slab.reason, SlabDropReason::kQuota);
  EXPECT_EQ(database.upkeep.Quota().quota_bytes, 0U);
  EXPECT_TRUE(database.upkeep.CheckQuota().ok());
  ASSERT_TRUE(database.upkeep.SetQuota(100'000, std::nullopt, /*dry_run=*/false).ok());
  EXPECT_EQ(database.upkeep.Quota().quota_bytes, 100'000U);
  EXPECT_EQ(database.upkeep.Quota().quota_trim, trim);
  EXPECT_GE(database.upkeep.Quota().disk_bytes, 120'000U);
  EXPECT_EQ(database.upkeep.CheckQuota().code(), Code::kQuota);
  const auto kept = database.upkeep.SetQuota(std::nullopt, 0, /*dry_run=*/false);
  ASSERT_TRUE(kept.ok());
  EXPECT_TRUE(kept->empty()) << "nothing is dropped for it any more";
  EXPECT_EQ(database.upkeep.Quota().quota_bytes, 100'000U);
  EXPECT_EQ(database.upkeep.CheckQuota().code(), Code::kQuota);
  ASSERT_TRUE(database.upkeep.SetQuota(0, std::nullopt, /*dry_run=*/false).ok());
  EXPECT_TRUE(database.upkeep.CheckQuota().ok());
}

TEST_F(DatabaseUpkeepTest, AQuotaThatCannotBeChangesNothing) {
  DatabaseParts database(path_);
  for (const double part : {-0.1, 1.1, std::nan("")}) {
    EXPECT_EQ(database.upkeep.SetQuota(1, part, false).status().code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(database.upkeep.Quota().quota_bytes, 0U);
}

TEST_F(DatabaseUpkeepTest, UsageIsThatOfEachSlab) {
  DatabaseParts database(path_);
  AppendToAll(&database, 5);
  const auto usage = database.upkeep.Usage();
  ASSERT_TRUE(usage.ok()) << usage.status().message();
  ASSERT_EQ(usage->size(), 4U);
  for (const SlabUsage& slab : *usage) {
    EXPECT_EQ(slab.slab.messages, 1U);
    EXPECT_GT(slab.disk_bytes, 0U);
  }
}

TEST_F(DatabaseUpkeepTest, ExpireDropsWhatIsTooOldAndRotatesNothing) {
  DatabaseParts database(path_);
  AppendToAll(&database, 5);
  ASSERT_TRUE(database.upkeep.Rotate(std::nullopt, false).ok());
  EXPECT_TRUE(database.upkeep.Expire(Later(7h), {}).value().empty());
  const auto expired = database.upkeep.Expire(Later(9h), {});
  ASSERT_TRUE(expired.ok()) << expired.status().message();
  ASSERT_EQ(expired->size(), 2U) << "one in each shard";
  for (const SlabInfo& slab : *expired) {
    EXPECT_EQ(slab.retention_class, "a/#");
    EXPECT_EQ(slab.messages, 1U);
  }
  EXPECT_EQ(database.upkeep.Slabs().size(), 6U);
  EXPECT_TRUE(database.upkeep.Expire(Later(9h), {}).value().empty());
}

TEST_F(DatabaseUpkeepTest, MaintainRotatesWhatIsDueAndDropsWhatIsTooOld) {
  DatabaseParts database(path_);
  AppendToAll(&database, 5);
  EXPECT_EQ(database.upkeep.Maintain(Later(30min), {})->rotated, 0U);
  const auto rotated = database.upkeep.Maintain(Later(2h), {});
  ASSERT_TRUE(rotated.ok()) << rotated.status().message();
  EXPECT_EQ(rotated->rotated, 2U) << "those of a/#";
  EXPECT_TRUE(rotated->dropped.empty());
  EXPECT_EQ(CountReadOnly(database), 2U);
  const auto dropped = database.upkeep.Maintain(Later(11h), {});
  ASSERT_TRUE(dropped.ok()) << dropped.status().message();
  EXPECT_EQ(dropped->dropped.size(), 2U);
  for (const DroppedSlab& slab : dropped->dropped) EXPECT_EQ(slab.reason, SlabDropReason::kAge);
  EXPECT_EQ(CountReadOnly(database), 0U);
}

TEST_F(DatabaseUpkeepTest, MaintainMayBeInterrupted) {
  DatabaseParts database(path_);
  EXPECT_EQ(database.upkeep.Maintain(std::nullopt, [] { return true; }).status().code(),
            Code::kInterrupted);
}

TEST_F(DatabaseUpkeepTest, ItsThreadNotesWhatItDoes) {
  DatabaseParts database(path_);
  database.upkeep.Start(0us);
  EXPECT_EQ(database.upkeep.stats().runs, 0U) << "there is none";
  const WallTime before = ReadWallClock();
  database.upkeep.Start(1us);
  while (database.upkeep.stats().runs < 2) std::this_thread::yield();
  const MaintenanceStats stats = database.upkeep.stats();
  EXPECT_EQ(stats.error, "");
  EXPECT_EQ(stats.rotated, 0U);
  EXPECT_GE(stats.last_run.value(), before);
  database.upkeep.Stop();
}

}  // namespace
}  // namespace topicdb
