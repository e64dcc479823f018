#include "store/shard/commit/commit_builder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bytes/coding.h"
#include "store/shard/shard_parts.h"

namespace topicdb {
namespace {

// Builds batches for a shard, and writes them itself.
class CommitBuilderTest : public ::testing::Test {
 protected:
  std::unique_ptr<CommitBuilder> NewBuilder(bool notes_replaced = false) {
    const MutexLock lock(shard_.state.mutex);
    return std::make_unique<CommitBuilder>(shard_.state, ids_, notes_replaced, ExpectedWrites());
  }
  Status AddCommit(CommitBuilder* builder, ShardCommit* commit) {
    const MutexLock lock(shard_.state.mutex);
    return builder->Add(commit);
  }
  // Adds a commit of these messages. Returns its serial.
  Serial Add(CommitBuilder* builder, const std::vector<MessageView>& messages,
             Durability durability = Durability::kNone, TransactionOps* ops = nullptr) {
    ShardCommit commit;
    commit.messages = messages;
    commit.durability = durability;
    commit.transaction = ops;
    EXPECT_TRUE(AddCommit(builder, &commit).ok());
    return commit.serial;
  }
  // Finishes the batch. Returns whether it has to be in the log.
  static bool IsLogged(CommitBuilder* builder) {
    bool logged = false;
    const Status finished = builder->Finish(&logged);
    EXPECT_TRUE(finished.ok()) << finished.message();
    return logged;
  }
  // Writes the batch, and makes it visible. REQUIRES: IsLogged was called
  void Write(CommitBuilder* builder) {
    const MutexLock lock(shard_.state.mutex);
    ASSERT_TRUE(shard_.state.Write({rocks::EntryKind::kCommit}, builder->batch()).ok());
    builder->Apply();
    shard_.state.commit = builder->state();
    shard_.state.Publish(shard_.state.slabs, shard_.state.deletes);
  }

  ShardParts shard_;
  AppendIds ids_;
};

TEST_F(CommitBuilderTest, GivesEachCommitASerial) {
  const auto builder = NewBuilder();
  EXPECT_TRUE(builder->empty());
  EXPECT_EQ(Add(builder.get(), {}), kNoSerial) << "it has nothing to commit";
  EXPECT_TRUE(builder->empty());
  EXPECT_EQ(Add(builder.get(), {{"a", 1, "x"}, {"b", 2, "y"}}), Serial{1});
  EXPECT_EQ(Add(builder.get(), {{"a", 3, "z"}}), Serial{2});
  EXPECT_FALSE(builder->empty());
  EXPECT_EQ(builder->state().serial, Serial{2});
  IsLogged(builder.get());
  EXPECT_EQ(shard_.Get("a", 1), std::nullopt);
  Write(builder.get());
  EXPECT_EQ(shard_.Get("a", 1), "x");
  EXPECT_EQ(shard_.Get("b", 2), "y");
  EXPECT_EQ(shard_.Get("a", 3), "z");
  EXPECT_EQ(shard_.Current().Info({}).messages, 3U);
}

TEST_F(CommitBuilderTest, AssignsTimestampsThatRise) {
  const auto builder = NewBuilder();
  Add(builder.get(),
      {{"a", kAssignTimestamp, "x"}, {"a", 7, "given"}, {"b", kAssignTimestamp, "y"}});
  Add(builder.get(), {{"a", kAssignTimestamp, "z"}});
  const std::vector<std::int64_t> assigned = builder->assigned();
  ASSERT_EQ(assigned.size(), 3U);
  EXPECT_EQ(assigned[0], TimestampAt(builder->now()));
  EXPECT_EQ(assigned[1], assigned[0] + 1);
  EXPECT_EQ(assigned[2], assigned[0] + 2);
  EXPECT_EQ(builder->state().assigned_timestamp, assigned[2]);
  IsLogged(builder.get());
  Write(builder.get());
  EXPECT_EQ(shard_.Get("b", assigned[1]), "y");
}

TEST_F(CommitBuilderTest, AssignsNoTimestampTwiceThoughTheClockIsBehind) {
  {
    const MutexLock lock(shard_.state.mutex);
    shard_.state.commit.assigned_timestamp = TimestampAt(ReadWallClock()) + 1'000'000'000'000;
  }
  const auto builder = NewBuilder();
  const std::int64_t last = builder->state().assigned_timestamp;
  Add(builder.get(), {{"a", kAssignTimestamp, "x"}});
  EXPECT_EQ(builder->assigned(), std::vector<std::int64_t>{last + 1});
}

TEST_F(CommitBuilderTest, ABatchIsLoggedIfACommitAsksForItOrItLearns) {
  auto builder = NewBuilder();
  Add(builder.get(), {{"a", 1, "x"}});
  EXPECT_TRUE(IsLogged(builder.get())) << "later commits rely on the new structure";
  Write(builder.get());
  builder = NewBuilder();
  Add(builder.get(), {{"a", 2, "x"}});
  EXPECT_FALSE(IsLogged(builder.get()));
  builder = NewBuilder();
  Add(builder.get(), {{"a", 2, "x"}});
  Add(builder.get(), {{"a", 3, "x"}}, Durability::kOs);
  Add(builder.get(), {{"a", 4, "x"}});
  EXPECT_TRUE(IsLogged(builder.get()));
  builder = NewBuilder();
  TransactionOps ops;
  ops.deletes = {{Filter::Parse("absent").value(), {}}};
  Add(builder.get(), {{"a", 5, "x"}}, Durability::kNone, &ops);
  EXPECT_TRUE(IsLogged(builder.get())) << "later deletes rely on this one";
}

TEST_F(CommitBuilderTest, KnowsTheIdsOfItsAppends) {
  const auto builder = NewBuilder();
  const std::vector<MessageView> messages{{"a", 1, "x"}};
  const AppendId id{"an id", DigestOf(messages), 1};
  ShardCommit commit;
  commit.messages = messages;
  commit.durability = Durability::kNone;
  commit.id = &id;
  EXPECT_FALSE(builder->HasId("an id"));
  ASSERT_TRUE(AddCommit(builder.get(), &commit).ok());
  EXPECT_TRUE(builder->HasId("an id"));
  EXPECT_FALSE(builder->HasId("another"));
  ASSERT_EQ(builder->ids().size(), 1U);
  EXPECT_EQ(builder->ids()[0].second, (KnownAppend{Serial{1}, 1, id.digest}));
  EXPECT_TRUE(IsLogged(builder.get()));
  Write(builder.get());
  std::string record;
  EXPECT_TRUE(shard_.state.db->Get({}, meta::AppendIdKey(Serial{1}), &record).ok());
}

TEST_F(CommitBuilderTest, ForgetsTheIdsThatAreTooMany) {
  for (std::uint64_t serial = 1; serial <= kAppendIdsMax; ++serial) {
    ids_.Add(std::to_string(serial), {Serial{serial}, 1, {}});
  }
  {
    const MutexLock lock(shard_.state.mutex);
    shard_.state.commit.serial = Serial{kAppendIdsMax};
    ASSERT_TRUE(shard_.state.db->Put({}, meta::AppendIdKey(Serial{1}), "oldest").ok());
    ASSERT_TRUE(shard_.state.db->Put({}, meta::AppendIdKey(Serial{2}), "next").ok());
  }
  const auto builder = NewBuilder();
  const AppendId id{"new", {}, 1};
  const std::vector<MessageView> messages{{"a", 1, "x"}};
  ShardCommit commit;
  commit.messages = messages;
  commit.id = &id;
  ASSERT_TRUE(AddCommit(builder.get(), &commit).ok());
  IsLogged(builder.get());
  Write(builder.get());
  std::string record;
  EXPECT_TRUE(shard_.state.db->Get({}, meta::AppendIdKey(Serial{1}), &record).IsNotFound());
  EXPECT_TRUE(shard_.state.db->Get({}, meta::AppendIdKey(Serial{2}), &record).ok());
}

TEST_F(CommitBuilderTest, AValueMayBeTheSerialOfItsCommit) {
  TransactionOps ops;
  ops.is_serial = {false, true};
  auto builder = NewBuilder();
  Add(builder.get(), {{"a", 1, "first"}});
  Add(builder.get(), {{"a", 2, "value"}, {"b", 2, "place"}}, Durability::kOs, &ops);
  IsLogged(builder.get());
  Write(builder.get());
  std::string serial;
  AppendBig<std::uint64_t>(&serial, 2);
  EXPECT_EQ(shard_.Get("a", 2), "value");
  EXPECT_EQ(shard_.Get("b", 2), serial);
}

TEST_F(CommitBuilderTest, DeletesComeBeforeTheMessagesOfTheirCommit) {
  shard_.Append({{"a", 1, "old"}, {"a", 2, "old"}});
  TransactionOps ops;
  ops.deletes = {{Filter::Parse("a").value(), {}}};
  const auto builder = NewBuilder();
  const std::vector<MessageView> messages{{"a", 2, "new"}};
  ShardCommit commit;
  commit.messages = messages;
  commit.transaction = &ops;
  ASSERT_TRUE(AddCommit(builder.get(), &commit).ok());
  EXPECT_EQ(commit.deleted, 2U);
  EXPECT_FALSE(commit.hides);
  IsLogged(builder.get());
  Write(builder.get());
  EXPECT_EQ(shard_.Get("a", 1), std::nullopt);
  EXPECT_EQ(shard_.Get("a", 2), "new");
}

TEST_F(CommitBuilderTest, ADeleteOfManyMessagesIsARecord) {
  shard_.Append(std::vector<MessageView>(15'000, {"a", 1, "x"}));
  TransactionOps ops;
  ops.deletes = {{Filter::Parse("a").value(), {}}, {Filter::Parse("b").value(), {}}};
  const auto builder = NewBuilder();
  ShardCommit commit;
  commit.transaction = &ops;
  ASSERT_TRUE(AddCommit(builder.get(), &commit).ok());
  EXPECT_TRUE(commit.hides);
  ASSERT_EQ(builder->deletes().size(), 1U) << "the other delete finds nothing";
  EXPECT_EQ(builder->deletes()[0].keys.filter.text(), "a");
  EXPECT_EQ(builder->deletes()[0].serial, commit.serial.Previous());
}

// The cache of topics may have streams of the batch that nobody knows.
TEST_F(CommitBuilderTest, IfItIsNotAppliedTheCacheOfTopicsIsCleared) {
  const auto is_known = [&](std::string_view topic) {
    const MutexLock lock(shard_.state.mutex);
    return shard_.state.topics.Find(topic, TopicCache::HashOf(topic)) != nullptr;
  };
  auto builder = NewBuilder();
  Add(builder.get(), {{"a", 1, "x"}});
  IsLogged(builder.get());
  Write(builder.get());
  builder.reset();
  EXPECT_TRUE(is_known("a"));
  builder = NewBuilder();
  Add(builder.get(), {{"new/topic", 1, "x"}});
  EXPECT_TRUE(is_known("new/topic"));
  builder.reset();
  EXPECT_FALSE(is_known("new/topic"));
  shard_.Append({{"new/topic", 1, "x"}});
  EXPECT_EQ(shard_.Get("new/topic", 1), "x");
}

TEST(CommitBuilder, InSkipstreamAMessageReplacesOlderCopiesInOtherGenerations) {
  OpenOptions options;
  options.schema.layout = LayoutKind::kSkipstream;
  ShardParts shard(options);
  shard.Append({{"a", 1, "old"}, {"a", 2, "other"}});
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false).ok());
  const AppendIds ids;
  const std::vector<MessageView> messages{{"a", 1, "new"}, {"b", 1, "new"}};
  for (const bool notes : {false, true}) {
    ShardCommit commit;
    commit.messages = messages;
    const MutexLock lock(shard.state.mutex);
    CommitBuilder builder(shard.state, ids, notes, ExpectedWrites());
    ASSERT_TRUE(builder.Add(&commit).ok());
    EXPECT_TRUE(builder.replaces_any());
    ASSERT_EQ(builder.replaced().size(), notes ? 1U : 0U);
    if (!notes) continue;
    EXPECT_EQ(builder.replaced()[0].keys.filter.text(), "a");
    EXPECT_EQ(builder.replaced()[0].keys.range, Instant(1));
  }
  shard.Append(messages);
  EXPECT_EQ(shard.Get("a", 1), "new");
  EXPECT_EQ(shard.Get("a", 2), "other");
}

}  // namespace
}  // namespace topicdb
