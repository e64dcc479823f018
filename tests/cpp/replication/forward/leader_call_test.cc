#include "replication/forward/leader_call.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "replication/hashed_bytes.h"

namespace topicdb::replication {
namespace {

using std::chrono::milliseconds;

// Encodes what is there, and requires that nothing shorter, longer or changed is taken.
template <typename Decode>
void RefuseDamage(std::string bytes, Decode decode) {
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(decode(bytes.substr(0, size)).status().code(), Code::kCorruption) << size;
  }
  EXPECT_EQ(decode(bytes + "x").status().code(), Code::kCorruption);
  for (char& byte : bytes) {
    byte = static_cast<char>(byte ^ 4);
    EXPECT_FALSE(decode(bytes).ok());
    byte = static_cast<char>(byte ^ 4);
  }
  EXPECT_TRUE(decode(bytes).ok());
}

class CommitCallTest : public testing::Test {
 protected:
  CommitCallTest() {
    append_.messages = messages_;
    append_.id = &id_;
    ops_.start_serial = Serial{42};
    ops_.begun = std::chrono::steady_clock::now() - milliseconds(500);
    ops_.generation = Generation{3};
    ops_.reads.push_back({Filter::Everything(), {}});
    ops_.reads.push_back({Filter::Parse("a/+").value(), {5, std::nullopt}});
    ops_.deletes.push_back({Filter::Parse("b/#").value(), {std::nullopt, 9}});
    ops_.requirements = {
        {"c", 1, "value", false}, {"d", 2, std::nullopt, true}, {"e", 3, {}, false}};
    ops_.is_serial = {false, true};
    transaction_.messages = std::span(messages_).first(2);
    transaction_.transaction = &ops_;
  }

  const std::vector<MessageView> messages_{
      {"a", 1, "one"}, {"b/c", kAssignTimestamp, "12345678"}, {"d", 0, ""}};
  const AppendId id_{"the id", AppendDigest{1, 2, 3}, 99};
  TransactionOps ops_;
  ShardCommit append_;
  ShardCommit transaction_;
};

TEST_F(CommitCallTest, CommitsArriveAsTheyWere) {
  ShardCommit empty;
  ShardCommit* const all[] = {&append_, &transaction_, &empty};
  std::size_t count = 0;
  const std::string bytes = EncodeCommits(all, 1 << 20, &count);
  EXPECT_EQ(count, 3U);
  EXPECT_TRUE(IsLeaderCall(bytes));
  const auto call = DecodeLeaderCall(bytes);
  ASSERT_TRUE(call.ok()) << call.status().message();
  ASSERT_EQ(call->commits.size(), 3U);

  const SentCommit& append = call->commits[0];
  ASSERT_EQ(append.messages.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(append.messages[i].topic, messages_[i].topic);
    EXPECT_EQ(append.messages[i].timestamp, messages_[i].timestamp);
    EXPECT_EQ(append.messages[i].value, messages_[i].value);
  }
  EXPECT_GT(append.bytes, 0U);
  EXPECT_EQ(append.id->id, id_.id);
  EXPECT_EQ(append.id->digest, id_.digest);
  EXPECT_EQ(append.id->messages, id_.messages);
  EXPECT_FALSE(append.transaction.has_value());

  const SentCommit& other = call->commits[1];
  EXPECT_FALSE(other.id.has_value());
  const TransactionOps& ops = other.transaction.value();
  EXPECT_EQ(ops.start_serial, ops_.start_serial);
  EXPECT_GE(std::chrono::steady_clock::now() - ops.begun, milliseconds(500));
  EXPECT_EQ(ops.generation, ops_.generation);
  ASSERT_EQ(ops.reads.size(), 2U);
  EXPECT_TRUE(ops.reads[0].filter.Matches("$x/y"));
  EXPECT_EQ(ops.reads[1].filter.text(), "a/+");
  EXPECT_EQ(ops.reads[1].range, ops_.reads[1].range);
  ASSERT_EQ(ops.deletes.size(), 1U);
  EXPECT_EQ(ops.deletes[0].range, ops_.deletes[0].range);
  ASSERT_EQ(ops.requirements.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(ops.requirements[i].topic, ops_.requirements[i].topic);
    EXPECT_EQ(ops.requirements[i].timestamp, ops_.requirements[i].timestamp);
    EXPECT_EQ(ops.requirements[i].value, ops_.requirements[i].value);
    EXPECT_EQ(ops.requirements[i].any_value, ops_.requirements[i].any_value);
  }
  EXPECT_EQ(ops.is_serial, ops_.is_serial);
  EXPECT_TRUE(call->commits[2].messages.empty());
}

TEST_F(CommitCallTest, ACallHasWhatFits) {
  ShardCommit* const all[] = {&append_, &append_, &append_};
  std::size_t count = 0;
  const std::string one = EncodeCommits(all, 1, &count);
  EXPECT_EQ(count, 1U) << "a commit that is too large goes alone";
  EXPECT_EQ(DecodeLeaderCall(one)->commits.size(), 1U);
  const std::string two = EncodeCommits(all, 2 * one.size(), &count);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(DecodeLeaderCall(two)->commits.size(), 2U);
}

TEST_F(CommitCallTest, DamageIsFound) {
  ShardCommit* const all[] = {&append_, &transaction_};
  std::size_t count = 0;
  RefuseDamage(EncodeCommits(all, 1 << 20, &count),
               [](const std::string& bytes) { return DecodeLeaderCall(bytes); });
}

TEST(LeaderCallTest, OtherCallsArriveAsTheyWere) {
  LeaderCall find;
  find.kind = LeaderCallKind::kFindAppend;
  find.id = "an id";
  EXPECT_EQ(DecodeLeaderCall(Encode(find))->id, "an id");

  LeaderCall rotate;
  rotate.kind = LeaderCallKind::kRotate;
  rotate.rotate = {RetentionClassId{4}, WallTime(std::chrono::microseconds(77)), true,
                   LayoutKind::kColumnar};
  const RotateOptions found = DecodeLeaderCall(Encode(rotate))->rotate;
  EXPECT_EQ(found.retention_class, rotate.rotate.retention_class);
  EXPECT_EQ(found.as_if, rotate.rotate.as_if);
  EXPECT_TRUE(found.resets_clock);
  EXPECT_EQ(found.layout, LayoutKind::kColumnar);
  rotate.rotate = {};
  const RotateOptions none = DecodeLeaderCall(Encode(rotate))->rotate;
  EXPECT_FALSE(none.retention_class || none.as_if || none.resets_clock || none.layout);

  LeaderCall drop;
  drop.kind = LeaderCallKind::kDropSlab;
  drop.retention_class = RetentionClassId{2};
  drop.generation = Generation{9};
  EXPECT_EQ(DecodeLeaderCall(Encode(drop))->retention_class, drop.retention_class);
  EXPECT_EQ(DecodeLeaderCall(Encode(drop))->generation, drop.generation);

  for (const auto kind : {LeaderCallKind::kStored, LeaderCallKind::kPart}) {
    LeaderCall stored;
    stored.kind = kind;
    stored.stored = {1, 2, 3, 4};
    const auto call = DecodeLeaderCall(Encode(stored));
    EXPECT_EQ(call->kind, kind);
    EXPECT_EQ(call->stored.replica, 1U);
    EXPECT_EQ(call->stored.number, 2U);
    EXPECT_EQ(call->stored.bytes, 3U);
    EXPECT_EQ(call->stored.offset, 4U);
  }
}

TEST(LeaderCallTest, ACallThatIsNotKnownIsNotTakenForDamage) {
  std::string bytes = Encode(LeaderCall{});
  bytes.resize(bytes.size() - 8);
  bytes[2] = 77;
  AppendHash(&bytes);
  const Status refused = DecodeLeaderCall(bytes).status();
  EXPECT_EQ(refused.code(), Code::kSchema);
  EXPECT_NE(refused.message().find("upgrade TopicDB on this site"), std::string::npos);
}

TEST(LeaderCallTest, StepsOfStagingArriveAsTheyWere) {
  LeaderCall call;
  call.kind = LeaderCallKind::kStage;
  call.stage.job = "job-1";
  call.stage.records = {{"rest", "value"}, {std::string(1, '\0'), ""}};
  const StagingStep put = DecodeLeaderCall(Encode(call))->stage;
  EXPECT_EQ(put.kind, StagingStep::Kind::kPut);
  EXPECT_EQ(put.job, "job-1");
  EXPECT_EQ(put.records, call.stage.records);

  call.stage.kind = StagingStep::Kind::kChoose;
  call.stage.commit = {1, 2};
  call.stage.choice = {9, {"x.staged", "y.staged"}};
  const StagingStep choose = DecodeLeaderCall(Encode(call))->stage;
  EXPECT_EQ(choose.commit, call.stage.commit);
  EXPECT_EQ(choose.choice.epoch, 9U);
  EXPECT_EQ(choose.choice.files, call.stage.choice.files);
  RefuseDamage(Encode(call), [](const std::string& bytes) { return DecodeLeaderCall(bytes); });

  call.stage.kind = StagingStep::Kind::kRemove;
  call.stage.epoch = 7;
  EXPECT_EQ(DecodeLeaderCall(Encode(call))->stage.epoch, 7U);
  // It would be another key than that of a job.
  call.stage.job = "../x";
  EXPECT_EQ(DecodeLeaderCall(Encode(call)).status().code(), Code::kCorruption);
}

// Sites of the first version understand all calls but this one and the next.
TEST(LeaderCallTest, OnlyStepsOfStagingHaveTheSecondVersion) {
  EXPECT_EQ(Encode(LeaderCall{})[1], 1);
  LeaderCall call;
  call.kind = LeaderCallKind::kStage;
  call.stage.job = "job";
  EXPECT_EQ(Encode(call)[1], 2);
}

TEST(LeaderCallTest, OnlySealingHasTheThirdVersion) {
  LeaderCall call;
  call.kind = LeaderCallKind::kSealAll;
  std::string bytes = Encode(call);
  EXPECT_EQ(bytes[1], 3);
  EXPECT_EQ(DecodeLeaderCall(bytes)->kind, LeaderCallKind::kSealAll);
  bytes.resize(bytes.size() - 8);
  bytes[1] = 2;  // which had no such call
  AppendHash(&bytes);
  EXPECT_EQ(DecodeLeaderCall(bytes).status().code(), Code::kCorruption);
}

TEST(LeaderCallTest, ALaterVersionIsNamed) {
  std::string bytes = Encode(LeaderCall{});
  bytes.resize(bytes.size() - 8);
  bytes[1] = 4;
  AppendHash(&bytes);
  EXPECT_EQ(DecodeLeaderCall(bytes).status().code(), Code::kSchema);
}

TEST(LeaderAnswerTest, AnswersArriveAsTheyWere) {
  LeaderAnswer answer;
  answer.status = NotLeader("another one leads");
  LeaderAnswer::Outcome good;
  good.serial = Serial{5};
  good.deleted = 7;
  good.repeated = true;
  LeaderAnswer::Outcome bad;
  bad.status = Conflict("it was changed");
  bad.fault.conflicts.push_back({"a/#", {1, 2}, Serial{9}});
  bad.fault.preconditions.push_back({"t", 3, std::nullopt, "found", true});
  answer.outcomes = {good, bad};
  answer.index = 11;
  answer.known = KnownAppend{Serial{1}, 2, AppendDigest{3}};
  const std::string bytes = Encode(answer);
  const auto found = DecodeLeaderAnswer(bytes);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->status.code(), Code::kNotLeader);
  EXPECT_EQ(found->status.message(), "another one leads");
  ASSERT_EQ(found->outcomes.size(), 2U);
  EXPECT_EQ(found->outcomes[0].serial, good.serial);
  EXPECT_EQ(found->outcomes[0].deleted, 7U);
  EXPECT_TRUE(found->outcomes[0].repeated);
  EXPECT_EQ(found->outcomes[1].status.code(), Code::kConflict);
  const CommitFault& fault = found->outcomes[1].fault;
  EXPECT_EQ(fault.conflicts.at(0).filter, "a/#");
  EXPECT_EQ(fault.conflicts.at(0).range, (TimeRange{1, 2}));
  EXPECT_EQ(fault.conflicts.at(0).serial, Serial{9});
  EXPECT_EQ(fault.preconditions.at(0).topic, "t");
  EXPECT_FALSE(fault.preconditions.at(0).expected.has_value());
  EXPECT_EQ(fault.preconditions.at(0).found, "found");
  EXPECT_TRUE(fault.preconditions.at(0).expects_any);
  EXPECT_EQ(found->index, 11U);
  EXPECT_EQ(found->known, answer.known);
  RefuseDamage(bytes, [](const std::string& damaged) { return DecodeLeaderAnswer(damaged); });
}

}  // namespace
}  // namespace topicdb::replication
