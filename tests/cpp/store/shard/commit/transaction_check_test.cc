#include "store/shard/commit/transaction_check.h"

#include <gtest/gtest.h>

#include <string>

#include "store/shard/shard_parts.h"

namespace topicdb {
namespace {

KeyRange Keys(const std::string& filter, const TimeRange& range = {}) {
  return {Filter::Parse(filter).value(), range};
}

// A transaction that begins when the object is made, and ends with it.
class Begun {
 public:
  explicit Begun(ShardParts* shard) : shard_(*shard) {
    ops.start_serial = shard_.state.BeginTransaction()->serial();
    ops.begun = std::chrono::steady_clock::now();
  }
  ~Begun() { shard_.state.EndTransaction(); }
  Begun(const Begun&) = delete;
  Begun& operator=(const Begun&) = delete;

  std::unique_ptr<ShardCommit> Commit() { return shard_.Commit({{"result", 1, "x"}}, &ops); }

  TransactionOps ops;

 private:
  ShardParts& shard_;
};

TEST(TransactionCheck, WhatWasReadAndChangedSinceIsAConflict) {
  ShardParts shard;
  shard.Append({{"a/1", 5, "before"}});
  Begun begun(&shard);
  begun.ops.reads = {Keys("a/+"), Keys("b/#")};
  const Serial changed = shard.Append({{"a/2", 7, "since"}});
  const auto commit = begun.Commit();
  EXPECT_EQ(commit->status.code(), Code::kConflict);
  ASSERT_EQ(commit->fault.conflicts.size(), 1U);
  EXPECT_EQ(commit->fault.conflicts[0].filter, "a/+");
  EXPECT_EQ(commit->fault.conflicts[0].serial, changed);
  EXPECT_EQ(shard.Get("result", 1), std::nullopt) << "nothing was applied";
}

TEST(TransactionCheck, ChangesElsewhereOrBeforeAreNone) {
  ShardParts shard;
  shard.Append({{"a/1", 5, "before"}});
  Begun begun(&shard);
  begun.ops.reads = {Keys("a/+", {0, 6})};
  shard.Append({{"a/1", 6, "at another time"}, {"b", 5, "of another topic"}});
  const auto commit = begun.Commit();
  EXPECT_TRUE(commit->status.ok()) << commit->status.message();
  EXPECT_EQ(shard.Get("result", 1), "x");
}

TEST(TransactionCheck, ADeleteConflictsWithWhoReadWhatItRemoved) {
  ShardParts shard;
  shard.Append({{"a", 5, "value"}});
  Begun reader(&shard);
  reader.ops.reads = {Keys("a")};
  Begun other(&shard);
  other.ops.reads = {Keys("b")};
  EXPECT_EQ(shard.Delete("a")->deleted, 1U);
  EXPECT_EQ(reader.Commit()->status.code(), Code::kConflict);
  EXPECT_TRUE(other.Commit()->status.ok());
}

TEST(TransactionCheck, WhatOnlyReadsIsInOrder) {
  ShardParts shard;
  Begun begun(&shard);
  begun.ops.reads = {Keys("#")};
  shard.Append({{"a", 1, "since"}});
  EXPECT_TRUE(shard.Commit({}, &begun.ops)->status.ok());
}

TEST(TransactionCheck, RequirementsThatAreNotMetAreAllNamed) {
  ShardParts shard;
  shard.Append({{"a", 5, "one"}, {"b", 5, "two"}});
  TransactionOps ops;
  ops.requirements = {{"a", 5, "one"}, {"b", 5, "other"}, {"b", 6, "two"}, {"a", 5, std::nullopt}};
  const auto refused = shard.Commit({{"result", 1, "x"}}, &ops);
  EXPECT_EQ(refused->status.code(), Code::kPrecondition);
  const auto& faults = refused->fault.preconditions;
  ASSERT_EQ(faults.size(), 3U);
  EXPECT_EQ(faults[0].found, "two");
  EXPECT_EQ(faults[1].found, std::nullopt);
  EXPECT_EQ(faults[2].found, "one");
  EXPECT_EQ(shard.Get("result", 1), std::nullopt);
  ops.requirements = {{"a", 5, "one"}, {"c", 5, std::nullopt}};
  EXPECT_TRUE(shard.Commit({{"result", 1, "x"}}, &ops)->status.ok());
}

TEST(TransactionCheck, AnyValueMeetsARequirementOfPresence) {
  ShardParts shard;
  shard.Append({{"a", 5, "one"}, {"empty", 5, ""}});
  TransactionOps ops;
  ops.requirements = {{"a", 5, std::nullopt, true}, {"empty", 5, std::nullopt, true}};
  EXPECT_TRUE(shard.Commit({{"result", 1, "x"}}, &ops)->status.ok());
  ops.requirements = {{"a", 5, std::nullopt, true}, {"a", 6, std::nullopt, true}};
  const auto refused = shard.Commit({{"result", 2, "x"}}, &ops);
  EXPECT_EQ(refused->status.code(), Code::kPrecondition);
  EXPECT_NE(refused->status.message().find("'a' at 6: expected a message, found none"),
            std::string::npos)
      << refused->status.message();
  const auto& faults = refused->fault.preconditions;
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].timestamp, 6);
  EXPECT_TRUE(faults[0].expects_any);
  EXPECT_EQ(faults[0].found, std::nullopt);
  EXPECT_EQ(shard.Get("result", 2), std::nullopt);
}

TEST(TransactionCheck, ARequirementOfPresenceConflictsWithWhatChangedSince) {
  ShardParts shard;
  shard.Append({{"a", 5, "one"}});
  Begun begun(&shard);
  begun.ops.requirements = {{"a", 5, std::nullopt, true}};
  const Serial changed = shard.Append({{"a", 5, "two"}});
  const auto commit = begun.Commit();
  EXPECT_EQ(commit->status.code(), Code::kConflict);
  ASSERT_EQ(commit->fault.conflicts.size(), 1U);
  EXPECT_EQ(commit->fault.conflicts[0].serial, changed);
}

TEST(TransactionCheck, AGenerationThatHasEndedTakesNoMessages) {
  ShardParts shard;
  TransactionOps ops;
  ops.generation = Generation{1};
  EXPECT_TRUE(shard.Commit({{"a", 1, "x"}}, &ops)->status.ok());
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false).ok());
  const auto refused = shard.Commit({{"a", 2, "x"}}, &ops);
  EXPECT_EQ(refused->status.code(), Code::kReadOnly);
  EXPECT_NE(refused->status.message().find("the current one is 2"), std::string::npos)
      << refused->status.message();
  ops.generation = Generation{2};
  EXPECT_TRUE(shard.Commit({{"a", 2, "x"}}, &ops)->status.ok());
}

TEST(TransactionCheck, WhatBeganBeforeADropIsRefused) {
  ShardParts shard;
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false).ok());
  Begun begun(&shard);
  begun.ops.reads = {Keys("nothing")};
  ASSERT_TRUE(shard.dropper.Drop(RetentionClassId{0}, Generation{1}).ok());
  const auto commit = begun.Commit();
  EXPECT_EQ(commit->status.code(), Code::kConflict);
  EXPECT_NE(commit->status.message().find("no longer known"), std::string::npos);
  Begun later(&shard);
  later.ops.reads = {Keys("nothing")};
  EXPECT_TRUE(later.Commit()->status.ok());
}

}  // namespace
}  // namespace topicdb
