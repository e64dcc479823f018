// Tests of writing at sites that do not lead.
#include "replication/replica/leader_link.h"

#include <gtest/gtest.h>

#include <future>
#include <set>
#include <string>
#include <vector>

#include "replication/cluster/sites.h"
#include "topicdb/transaction.h"

namespace topicdb::replication {
namespace {

constexpr const char* kSites[] = {"a", "b", "c"};

class LeaderLinkTest : public SiteTest {
 protected:
  std::unique_ptr<Transaction> BeginAt(const std::string& name) {
    auto begun = At(name).Begin({});
    EXPECT_TRUE(begun.ok()) << begun.status().message();
    return begun.ok() ? std::move(*begun) : nullptr;
  }
  // Opens sites of which no majority is up.
  void LoseMajority() {
    StartAll();
    Append("before");
    patience_ = milliseconds(300);
    for (auto& [name, here] : here_) {
      here.database.reset();
      here.site.reset();
    }
    here_.clear();
    Start("a");
    Start("b");
    OpenAt({"a", "b"});
    here_.at("b").database.reset();
    here_.at("b").site.reset();
  }
};

TEST_F(LeaderLinkTest, EverySiteTakesWhatIsWritten) {
  open_.schema.shards = 4;
  StartAll();
  std::multiset<std::string> written;
  for (int i = 0; i < 60; ++i) {
    const std::string value = std::to_string(i);
    const std::string topic = "t/" + value;
    Database& database = At(kSites[i % 3]);
    const std::vector<MessageView> messages{{topic, 1, value}};
    const auto receipt = database.Append(messages);
    ASSERT_TRUE(receipt.ok()) << receipt.status().message();
    EXPECT_EQ(receipt->durability, Durability::kQuorum);
    EXPECT_EQ(receipt->count, 1U);
    written.insert(value);
    // Whoever has written sees at once what was written.
    EXPECT_EQ(TakeAll(database, topic), std::vector<std::string>{value});
  }
  for (const char* name : kSites) {
    const auto receipt = At(name).Append(std::vector<MessageView>{{"last", 1, "x"}});
    const auto found = TakeAll(At(name), "t/#");
    EXPECT_TRUE(receipt.ok());
    EXPECT_EQ(std::multiset<std::string>(found.begin(), found.end()), written) << name;
  }
}

TEST_F(LeaderLinkTest, AppendsForWhichNobodyWaitsKeepTheirOrder) {
  StartAll();
  for (const char* name : kSites) {
    const std::string topic = std::string("of/") + name;
    std::vector<std::promise<Result<Receipt>>> outcomes(200);
    std::vector<std::string> values;
    for (std::size_t i = 0; i < outcomes.size(); ++i) values.push_back(std::to_string(i));
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const auto messages = std::make_shared<const std::vector<MessageView>>(
          1, MessageView{topic, static_cast<std::int64_t>(i), values[i]});
      const Status begun = At(name).AppendAsync(
          *messages, messages, std::nullopt,
          [&outcomes, i](auto outcome) { outcomes[i].set_value(std::move(outcome)); });
      ASSERT_TRUE(begun.ok()) << begun.message();
    }
    Serial last;
    for (auto& outcome : outcomes) {
      const auto receipt = outcome.get_future().get();
      ASSERT_TRUE(receipt.ok()) << receipt.status().message();
      EXPECT_GT(receipt->serials.front().second, last);
      last = receipt->serials.front().second;
    }
    EXPECT_EQ(TakeAll(At(name), topic), values);
  }
}

TEST_F(LeaderLinkTest, WhatIsTooLargeForAMessageArrives) {
  StartAll();
  const std::string value(20 << 20, 'v');
  for (const char* name : kSites) {
    const std::string topic = std::string("large/") + name;
    const std::vector<MessageView> large{{topic, 1, value}};
    const auto receipt = At(name).Append(large);
    ASSERT_TRUE(receipt.ok()) << receipt.status().message();
    EXPECT_EQ(TakeAll(At(name), topic), std::vector<std::string>{value});
  }
}

TEST_F(LeaderLinkTest, TransactionsBeginAndCommitAnywhere) {
  StartAll();
  for (const char* name : kSites) {
    const std::string topic = std::string("state/") + name;
    const auto transaction = BeginAt(name);
    EXPECT_TRUE(transaction->RequireAbsent(topic, 1).ok());
    EXPECT_TRUE(transaction->Write({topic, 1, name}).ok());
    EXPECT_TRUE(transaction->WriteSerial(topic + "/serial", 1).ok());
    EXPECT_TRUE(transaction->Write({"$topicdb/x", 0, name}, TopicUse::kReserved).ok());
    const auto receipt = transaction->Commit();
    ASSERT_TRUE(receipt.ok()) << receipt.status().message();
    EXPECT_EQ(receipt->durability, Durability::kQuorum);
    EXPECT_EQ(receipt->count, 3U);
    // A transaction that begins elsewhere has what was committed before.
    for (const char* other : kSites) {
      EXPECT_EQ(BeginAt(other)->Get(topic, 1).value(), name) << other;
      EXPECT_EQ(BeginAt(other)->Get("$topicdb/x", 0).value(), name) << other;
    }
  }
}

TEST_F(LeaderLinkTest, TransactionsAtTwoSitesConflict) {
  StartAll();
  AppendAt("a", "0");
  for (const char* first : kSites) {
    for (const char* second : kSites) {
      const auto one = BeginAt(first);
      const auto other = BeginAt(second);
      const auto count = [](Transaction* transaction) {
        const auto scan = transaction->NewScan(Filter::Parse("t").value(), {}).value();
        const auto batch = scan->Next(PageLimits()).value();
        return batch == nullptr ? 0 : batch->size();
      };
      EXPECT_GT(count(one.get()), 0U);
      EXPECT_GT(count(other.get()), 0U);
      EXPECT_TRUE(one->Write({"t", 1, "one"}).ok());
      EXPECT_TRUE(other->Write({"t", 1, "other"}).ok());
      const auto won = one->Commit();
      ASSERT_TRUE(won.ok()) << first << second << ": " << won.status().message();
      EXPECT_EQ(other->Commit().status().code(), Code::kConflict) << first << second;
      const CommitFault fault = other->fault();
      ASSERT_EQ(fault.conflicts.size(), 1U);
      EXPECT_EQ(fault.conflicts.front().filter, "t");
      EXPECT_EQ(fault.conflicts.front().serial, won->serials.front().second);
    }
  }
}

TEST_F(LeaderLinkTest, RequirementsAreCheckedWhereItLeads) {
  StartAll();
  AppendAt("a", "0");
  for (const char* name : kSites) {
    const auto transaction = BeginAt(name);
    EXPECT_TRUE(transaction->Require("t", 1, "another").ok());
    EXPECT_TRUE(transaction->RequirePresent("u", 2).ok());
    EXPECT_EQ(transaction->Commit().status().code(), Code::kPrecondition);
    const CommitFault fault = transaction->fault();
    ASSERT_EQ(fault.preconditions.size(), 2U) << name;
    EXPECT_EQ(fault.preconditions[0].topic, "t");
    EXPECT_EQ(fault.preconditions[0].expected, "another");
    EXPECT_EQ(fault.preconditions[0].found, "0");
    EXPECT_EQ(fault.preconditions[1].timestamp, 2);
    EXPECT_TRUE(fault.preconditions[1].expects_any);
    EXPECT_FALSE(fault.preconditions[1].found.has_value());
  }
}

TEST_F(LeaderLinkTest, DeletesReachAllShards) {
  open_.schema.shards = 4;
  StartAll();
  for (const char* name : kSites) {
    for (int i = 0; i < 40; ++i) {
      const std::string topic = "t/" + std::to_string(i);
      ASSERT_TRUE(At(name).Append(std::vector<MessageView>{{topic, 1, "x"}}).ok());
    }
    const auto receipt = At(name).Delete(Filter::Parse("t/#").value(), {});
    ASSERT_TRUE(receipt.ok()) << receipt.status().message();
    EXPECT_EQ(receipt->count, 40U) << name;
    EXPECT_EQ(receipt->serials.size(), 4U);
    EXPECT_TRUE(TakeAll(At(name), "t/#").empty());
  }
}

TEST_F(LeaderLinkTest, AnAppendIsStoredOnceWhereverItIsRepeated) {
  StartAll();
  const std::vector<MessageView> messages{{"t", 1, "once"}};
  Serial stored;
  for (const char* name : kSites) {
    const auto receipt = At(name).Append(messages, std::nullopt, "the id");
    ASSERT_TRUE(receipt.ok()) << receipt.status().message();
    if (stored == kNoSerial) stored = receipt->serials.front().second;
    EXPECT_EQ(receipt->serials.front().second, stored);
    EXPECT_EQ(receipt->repeated, name != kSites[0]) << name;
    const auto known = At(name).FindAppend("the id");
    ASSERT_TRUE(known.ok()) << known.status().message();
    EXPECT_EQ((*known)->serials.front().second, stored);
    EXPECT_EQ((*known)->count, 1U);
    EXPECT_FALSE(At(name).FindAppend("another").value().has_value());
  }
  const std::vector<MessageView> others{{"t", 2, "other"}};
  for (const char* name : kSites) {
    EXPECT_EQ(At(name).Append(others, std::nullopt, "the id").status().code(),
              Code::kInvalidArgument);
    EXPECT_EQ(TakeAll(At(name), "#"), std::vector<std::string>{"once"});
  }
}

TEST_F(LeaderLinkTest, GenerationsBeginAndEndFromAnySite) {
  open_.schema.shards = 2;
  open_.schema.retention = {{"t/#", std::chrono::hours(1)}};
  StartAll();
  std::uint32_t generation = 1;
  for (const char* name : kSites) {
    ASSERT_TRUE(At(name).Append(std::vector<MessageView>{{"t/1", 1, "x"}}).ok());
    const Status rotated = At(name).upkeep().Rotate("t/#", false, LayoutKind::kSkipstream);
    ASSERT_TRUE(rotated.ok()) << rotated.message();
    for (std::uint32_t shard = 0; shard < 2; ++shard) {
      const Status dropped = At(name).upkeep().DropSlab(shard, "t/#", Generation{generation});
      EXPECT_TRUE(dropped.ok()) << name << ": " << dropped.message();
    }
    ++generation;
    EXPECT_EQ(At(name).upkeep().DropSlab(0, "t/#", Generation{77}).code(), Code::kNotFound);
    ASSERT_TRUE(At(name).Append(std::vector<MessageView>{{"other", 1, "y"}}).ok());
  }
}

TEST_F(LeaderLinkTest, AnySiteHasEveryShardSealed) {
  open_.schema.shards = 2;
  StartAll();
  for (const char* name : kSites) {
    std::vector<std::string> topics;
    for (int i = 0; i < 20; ++i) topics.push_back("t/" + std::to_string(i));
    std::vector<MessageView> messages;
    for (const std::string& topic : topics) messages.push_back({topic, 1, "x"});
    ASSERT_TRUE(At(name).Append(messages).ok());
    const Status flushed = At(name).Flush();
    EXPECT_TRUE(flushed.ok()) << flushed.message();
    for (const char* other : kSites) {
      const auto stats = At(other).GetStats();
      ASSERT_TRUE(stats.ok()) << stats.status().message();
      for (const ShardStats& shard : stats->shards) {
        EXPECT_EQ(shard.fresh_blocks, 0U) << name << " and " << other;
      }
    }
  }
}

TEST_F(LeaderLinkTest, WithoutAMajorityNothingIsDone) {
  LoseMajority();
  const std::vector<MessageView> messages{{"t", 2, "after"}};
  const auto appended = At("a").Append(messages).status();
  EXPECT_EQ(appended.code(), Code::kNotLeader);
  EXPECT_NE(appended.message().find("a majority of the replicas must be up"), std::string::npos)
      << appended.message();
  EXPECT_EQ(At("a").Begin({}).status().code(), Code::kNotLeader);
  EXPECT_EQ(At("a").FindAppend("id").status().code(), Code::kNotLeader);
  EXPECT_EQ(At("a").upkeep().Rotate(std::nullopt, false).code(), Code::kNotLeader);
  EXPECT_TRUE(At("a").Flush().ok()) << "what is here goes to files";
  EXPECT_EQ(TakeAll(At("a"), "#"), std::vector<std::string>{"before"});
}

// So it is with a leader that is about to leave: the state of the cluster has it no more.
TEST_F(LeaderLinkTest, ALeaderWithoutAnAddressMayHaveASuccessor) {
  patience_ = milliseconds(1'000);
  StartAll();
  std::uint64_t leader = 0;
  Await([&] { return (leader = here_.at("a").site->Replicas().front().leader) != 0; });
  const std::string leads = kSites[leader - 1];
  const std::string follows = leads == "a" ? "b" : "a";
  const Site& led_by = *here_.at(leads).site;
  Site& site = *here_.at(follows).site;
  ASSERT_TRUE(site.SetAddress(leads, "").ok());
  const std::vector<MessageView> messages{{"t", 2, "after"}};
  const auto appended = At(follows).Append(messages).status();
  EXPECT_EQ(appended.code(), Code::kNotLeader) << appended.message();
  ASSERT_TRUE(site.SetAddress(leads, "127.0.0.1:" + std::to_string(led_by.port())).ok());
  Await([&] { return At(follows).Append(messages).ok(); });
}

}  // namespace
}  // namespace topicdb::replication
