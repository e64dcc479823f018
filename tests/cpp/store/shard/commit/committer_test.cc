#include "store/shard/commit/committer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/thread/mutex.h"
#include "store/shard/shard_parts.h"

namespace topicdb {
namespace {

AppendId IdOf(const std::string& id, const std::vector<MessageView>& messages) {
  return {id, DigestOf(messages), messages.size()};
}

// Commits messages as an append with an id.
std::unique_ptr<ShardCommit> Append(ShardParts* shard, const std::string& id,
                                    const std::vector<MessageView>& messages) {
  const AppendId append = IdOf(id, messages);
  auto commit = std::make_unique<ShardCommit>();
  commit->messages = messages;
  commit->id = &append;
  shard->committer.Commit(commit.get());
  commit->messages = {};
  commit->id = nullptr;
  return commit;
}

TEST(Committer, ReadersSeeWhatIsCommittedWhenItReturns) {
  ShardParts shard;
  const auto before = shard.state.view();
  const auto commit = shard.Commit({{"a", 1, "x"}});
  ASSERT_TRUE(commit->status.ok()) << commit->status.message();
  EXPECT_TRUE(commit->written);
  EXPECT_EQ(commit->serial, Serial{1});
  EXPECT_EQ(shard.Get("a", 1), "x");
  EXPECT_EQ(shard.state.view()->serial(), Serial{1});
  EXPECT_EQ(before->serial(), kNoSerial) << "who has begun to read sees what was";
}

TEST(Committer, WithNothingToCommitNothingHappens) {
  ShardParts shard;
  const auto view = shard.state.view();
  const auto commit = shard.Commit({});
  EXPECT_TRUE(commit->status.ok()) << commit->status.message();
  EXPECT_EQ(commit->serial, kNoSerial);
  EXPECT_EQ(shard.state.view(), view);
}

TEST(Committer, AnAppendThatIsRepeatedIsStoredOnce) {
  ShardParts shard;
  const auto first = Append(&shard, "id", {{"a", 1, "x"}});
  EXPECT_FALSE(first->repeated);
  shard.Append({{"a", 2, "between"}});
  const auto again = Append(&shard, "id", {{"a", 1, "x"}});
  ASSERT_TRUE(again->status.ok()) << again->status.message();
  EXPECT_TRUE(again->repeated);
  EXPECT_EQ(again->serial, first->serial);
  EXPECT_EQ(shard.Current().Info({}).messages, 2U);
  EXPECT_EQ(shard.committer.FindAppend("id")->serial, first->serial);
  EXPECT_EQ(shard.committer.FindAppend("other"), std::nullopt);
}

TEST(Committer, AnIdThatAnotherAppendHasIsRefused) {
  ShardParts shard;
  ASSERT_TRUE(Append(&shard, "id", {{"a", 1, "x"}})->status.ok());
  const auto other = Append(&shard, "id", {{"a", 1, "y"}});
  EXPECT_EQ(other->status.code(), Code::kInvalidArgument);
  EXPECT_NE(other->status.message().find("id"), std::string::npos) << other->status.message();
  EXPECT_EQ(shard.Current().Info({}).messages, 1U);
}

TEST(Committer, ATransactionThatIsRefusedTakesNoOtherWithIt) {
  ShardParts shard;
  TransactionOps ops;
  ops.requirements = {{"a", 1, "needed"}};
  const auto refused = shard.Commit({{"b", 1, "x"}}, &ops);
  EXPECT_EQ(refused->status.code(), Code::kPrecondition);
  EXPECT_FALSE(refused->written);
  EXPECT_EQ(shard.Append({{"c", 1, "x"}}), Serial{1}) << "it had no serial";
  EXPECT_EQ(shard.Get("b", 1), std::nullopt);
}

// Gathers the outcomes of asynchronous commits, by their numbers.
class Outcomes {
 public:
  void Submit(ShardParts* shard, std::size_t number, const std::vector<MessageView>& messages,
              const AppendId* id = nullptr) {
    auto commit = std::make_unique<ShardCommit>();
    commit->messages = messages;
    commit->id = id;
    ShardCommit* const submitted = commit.get();
    shard->committer.CommitAsync(std::move(commit), [this, number, submitted] {
      EXPECT_TRUE(submitted->status.ok()) << submitted->status.message();
      const MutexLock lock(mutex_);
      serials_[number] = submitted->serial;
      changed_.NotifyAll();
    });
  }
  void WaitFor(std::size_t count) {
    const MutexLock lock(mutex_);
    while (serials_.size() < count) changed_.Wait(mutex_);
  }
  std::map<std::size_t, Serial> serials() {
    const MutexLock lock(mutex_);
    return serials_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<std::size_t, Serial> serials_ TOPICDB_GUARDED_BY(mutex_);
};

TEST(Committer, CommitsOfAGroupKeepTheirOrder) {
  ShardParts shard;
  Outcomes outcomes;
  std::vector<std::vector<MessageView>> messages;
  for (std::int64_t i = 0; i < 50; ++i) messages.push_back({{"a", i, "x"}});
  for (std::size_t i = 0; i < 50; ++i) outcomes.Submit(&shard, i, messages[i]);
  outcomes.WaitFor(50);
  for (const auto& [number, serial] : outcomes.serials()) EXPECT_EQ(serial, Serial{number + 1});
  EXPECT_EQ(shard.Get("a", 49), "x");
  EXPECT_EQ(shard.Current().Info({}).messages, 50U);
}

// One group may have an append twice.
TEST(Committer, OfAGroupWithAnAppendTwiceItIsStoredOnce) {
  ShardParts shard;
  Outcomes outcomes;
  const std::vector<MessageView> messages{{"a", 1, "x"}};
  const AppendId id = IdOf("id", messages);
  for (std::size_t i = 0; i < 10; ++i) outcomes.Submit(&shard, i, messages, &id);
  outcomes.WaitFor(10);
  for (const auto& [number, serial] : outcomes.serials()) EXPECT_EQ(serial, Serial{1});
  EXPECT_EQ(shard.Current().Info({}).messages, 1U);
}

TEST(Committer, CloseFinishesWhatWasSubmitted) {
  ShardParts shard;
  Outcomes outcomes;
  const std::vector<MessageView> messages{{"a", 1, "x"}};
  for (std::size_t i = 0; i < 20; ++i) outcomes.Submit(&shard, i, messages);
  shard.committer.Close();
  EXPECT_EQ(outcomes.serials().size(), 20U);
  shard.committer.Close();
}

// Submits messages, which must stay as they are until `outcome` is there. Returns the claim.
std::shared_ptr<CommitClaim> SubmitWithClaim(ShardParts* shard, const std::vector<MessageView>& one,
                                             std::promise<Status>* outcome) {
  auto commit = std::make_unique<ShardCommit>();
  commit->messages = one;
  auto claim = commit->claim = std::make_shared<CommitClaim>();
  ShardCommit* const submitted = commit.get();
  shard->committer.CommitAsync(std::move(commit), [=] { outcome->set_value(submitted->status); });
  return claim;
}

TEST(Committer, WhatIsWithdrawnInTimeIsNotStored) {
  OpenOptions options;
  options.commit.flush_interval = options.commit.idle_flush_interval = std::chrono::hours(1);
  ShardParts shard(options);
  const std::vector<MessageView> first{{"a", 1, "x"}};
  const std::vector<MessageView> second{{"a", 2, "x"}};
  std::promise<Status> withdrawn;
  std::promise<Status> stored;
  const auto first_claim = SubmitWithClaim(&shard, first, &withdrawn);
  const auto second_claim = SubmitWithClaim(&shard, second, &stored);
  EXPECT_EQ(first_claim->GiveUp(), CommitKnown::kNotStored);
  EXPECT_EQ(first_claim->GiveUp(), CommitKnown::kNotStored) << "may be repeated";
  EXPECT_EQ(shard.Append({{"a", 3, "x"}}), Serial{2}) << "takes along what waits";
  EXPECT_EQ(withdrawn.get_future().get().code(), Code::kClosed);
  EXPECT_TRUE(stored.get_future().get().ok());
  EXPECT_EQ(second_claim->GiveUp(), CommitKnown::kStored);
  EXPECT_EQ(shard.Get("a", 1), std::nullopt);
  EXPECT_EQ(shard.Get("a", 2), "x");
}

TEST(Committer, WhatIsBeingAppliedCannotBeWithdrawn) {
  CommitClaim claim;
  EXPECT_TRUE(claim.Take());
  EXPECT_EQ(claim.GiveUp(), CommitKnown::kUnknown);
  claim.NoteStored();
  EXPECT_EQ(claim.GiveUp(), CommitKnown::kStored);
  CommitClaim other;
  EXPECT_EQ(other.GiveUp(), CommitKnown::kNotStored);
  EXPECT_FALSE(other.Take());
}

TEST(Committer, AfterAFailedWriteNothingIsCommitted) {
  ShardParts shard;
  shard.Append({{"a", 1, "before"}});
  {
    const MutexLock lock(shard.state.mutex);
    shard.state.Poison(StorageFault("a test"));
  }
  const auto commit = shard.Commit({{"a", 2, "x"}});
  EXPECT_EQ(commit->status.code(), Code::kStorage);
  EXPECT_NE(commit->status.message().find("close and reopen"), std::string::npos)
      << commit->status.message();
  EXPECT_EQ(shard.Get("a", 1), "before");
  EXPECT_EQ(shard.Get("a", 2), std::nullopt);
}

TEST(Committer, NotesCommitsThatTheLogLacks) {
  ShardParts shard;
  shard.Append({{"a", 1, "learns"}});
  const std::vector<MessageView> messages{{"a", 2, "x"}};
  ShardCommit commit;
  commit.messages = messages;
  commit.durability = Durability::kNone;
  shard.committer.Commit(&commit);
  ASSERT_TRUE(commit.status.ok()) << commit.status.message();
  const MutexLock lock(shard.state.mutex);
  EXPECT_EQ(shard.state.unlogged_serial, commit.serial);
}

TEST(Committer, ADeleteChangesTheNumbersByWhichReadersNoticeIt) {
  ShardParts shard;
  shard.Append({{"a", 1, "x"}});
  const auto before = shard.state.view();
  EXPECT_EQ(shard.Delete("absent")->deleted, 0U);
  EXPECT_EQ(shard.state.view()->removals_version(), before->removals_version());
  EXPECT_EQ(shard.Delete("a")->deleted, 1U);
  EXPECT_NE(shard.state.view()->removals_version(), before->removals_version());
  EXPECT_GT(shard.state.view()->deletes_version(), before->deletes_version());
}

TEST(Committer, ReservesSerialsBeforeItUsesThem) {
  ShardParts shard;
  shard.Append({{"a", 1, "x"}});
  std::string bytes;
  meta::CommitState stored;
  ASSERT_TRUE(shard.state.db->Get({}, meta::CommitStateKey(), &bytes).ok());
  ASSERT_TRUE(meta::Decode(bytes, &stored));
  EXPECT_EQ(stored.serial, Serial{1});
  EXPECT_GT(stored.serial_limit, Serial{10'000});
  {
    const MutexLock lock(shard.state.mutex);
    shard.state.commit.serial = shard.state.commit.serial_limit;  // all of them are used
  }
  EXPECT_EQ(shard.Append({{"a", 2, "x"}}), stored.serial_limit.Next());
  ASSERT_TRUE(shard.state.db->Get({}, meta::CommitStateKey(), &bytes).ok());
  ASSERT_TRUE(meta::Decode(bytes, &stored));
  EXPECT_GT(stored.serial_limit, stored.serial);
}

TEST(Committer, TellsHowFarTimestampsAreAheadOfTheClock) {
  ShardParts shard;
  shard.Append({{"a", 1, "x"}});
  EXPECT_EQ(shard.committer.clock_ahead(), std::chrono::microseconds(0));
  constexpr std::chrono::hours kAhead(5);
  {
    const MutexLock lock(shard.state.mutex);
    shard.state.commit.assigned_timestamp = TimestampAt(ReadWallClock() + kAhead);
  }
  shard.Append({{"a", kAssignTimestamp, "x"}});
  EXPECT_GT(shard.committer.clock_ahead(), kAhead - std::chrono::hours(1));
  EXPECT_LE(shard.committer.clock_ahead(), kAhead + std::chrono::hours(1));
}

}  // namespace
}  // namespace topicdb
