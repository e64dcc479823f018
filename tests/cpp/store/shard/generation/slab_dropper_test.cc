#include "store/shard/generation/slab_dropper.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "store/shard/shard_parts.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

// A shard with a generation of two messages, which has ended, and the next one with one message.
class SlabDropperTest : public ::testing::Test {
 protected:
  SlabDropperTest() {
    shard_.Append({{"a", 1, "x"}, {"b", 9, "x"}});
    EXPECT_TRUE(shard_.generations.Rotate(std::nullopt, std::nullopt, false).ok());
    shard_.Append({{"a", 2, "y"}});
  }
  bool HasRecord(const SlabId& id) {
    std::string bytes;
    return shard_.state.db->Get({}, meta::SlabKey(id), &bytes).ok();
  }

  ShardParts shard_;
};

TEST_F(SlabDropperTest, TakesASlabOutOfSightAndNotesWhatItHad) {
  const auto before = shard_.state.view();
  ASSERT_TRUE(shard_.dropper.Drop(RetentionClassId{0}, Generation{1}).ok());
  EXPECT_EQ(shard_.Get("a", 1), std::nullopt);
  EXPECT_EQ(shard_.Get("a", 2), "y");
  const auto after = shard_.state.view();
  EXPECT_EQ(after->slabs().size(), 1U);
  EXPECT_EQ(before->slabs().size(), 2U) << "who has begun to read has it still";
  EXPECT_EQ(after->serial(), before->serial().Next()) << "it is a commit of its own";
  EXPECT_NE(after->removals_version(), before->removals_version());

  const auto drops = shard_.dropper.DropsBehind(kNoSerial).value();
  ASSERT_EQ(drops.size(), 1U);
  EXPECT_EQ(drops[0].serial, after->serial());
  EXPECT_EQ(drops[0].generation, Generation{1});
  EXPECT_EQ(drops[0].last_timestamp, 9);
  std::uint64_t messages = 0;
  for (const auto& part : drops[0].parts) {
    for (const auto& count : part.counts) messages += count.messages;
  }
  EXPECT_EQ(messages, 2U);
  EXPECT_EQ(shard_.dropper.DropsBehind(before->serial())->size(), 1U);
  EXPECT_TRUE(shard_.dropper.DropsBehind(after->serial())->empty());
}

TEST_F(SlabDropperTest, ItsFamiliesLeaveAtTheLatestWhenItFinishes) {
  ASSERT_TRUE(shard_.dropper.Drop(RetentionClassId{0}, Generation{1}).ok());
  ASSERT_TRUE(shard_.dropper.Finish().ok());
  EXPECT_FALSE(HasRecord({0, RetentionClassId{0}, Generation{1}}));
  EXPECT_TRUE(HasRecord({0, RetentionClassId{0}, Generation{2}}));
  EXPECT_TRUE(shard_.dropper.Finish().ok()) << "nothing is left";
}

TEST_F(SlabDropperTest, RefusesTheCurrentOneAndOneThatIsNotThere) {
  const Serial serial = shard_.state.view()->serial();
  EXPECT_EQ(shard_.dropper.Drop(RetentionClassId{0}, Generation{2}).code(), Code::kInvalidArgument);
  EXPECT_EQ(shard_.dropper.Drop(RetentionClassId{0}, Generation{3}).code(), Code::kNotFound);
  ASSERT_TRUE(shard_.dropper.Drop(RetentionClassId{0}, Generation{1}).ok());
  EXPECT_EQ(shard_.dropper.Drop(RetentionClassId{0}, Generation{1}).code(), Code::kNotFound);
  EXPECT_EQ(shard_.state.view()->serial(), serial.Next());
}

TEST(SlabDropper, OfAClassThatTheShardHasNotAdoptedThereIsNone) {
  ShardParts shard;
  const auto environment = shard.state.environment;
  environment->retention->Set(environment->rules()->With({{"new/#", 7us}}).value());
  const RetentionClassId added = environment->rules()->IndexOf("new/#").value();
  const Status dropped = shard.dropper.Drop(added, Generation{1});
  EXPECT_EQ(dropped.code(), Code::kNotFound);
  EXPECT_NE(dropped.message().find("class 'new/#'"), std::string::npos) << dropped.message();
}

// Readers of the log must not go past what they could not read without a word.
TEST_F(SlabDropperTest, NotesOfAGenerationWithoutALogThatItWasDropped) {
  ASSERT_TRUE(
      shard_.generations.Rotate(std::nullopt, std::nullopt, false, LayoutKind::kSkipstream).ok());
  shard_.Append({{"a", 3, "x"}, {"b", 4, "x"}});
  const Serial last = shard_.state.view()->serial();
  ASSERT_TRUE(shard_.generations.Rotate(std::nullopt, std::nullopt, false).ok());
  ASSERT_TRUE(shard_.dropper.Drop(RetentionClassId{0}, Generation{3}).ok());
  const auto drops = shard_.dropper.DropsBehind(kNoSerial).value();
  ASSERT_EQ(drops.size(), 1U);
  EXPECT_EQ(drops[0].generation, Generation{3});
  using Parts = std::vector<meta::DropRecord::Part>;
  EXPECT_EQ(drops[0].parts, (Parts{{"a", {{last, 1}}}, {"b", {{last, 1}}}}));
}

// Scans in steps are told of it, too, and they read what has no log.
TEST(SlabDropper, NotesItWhereNoGenerationKeepsALog) {
  OpenOptions options;
  options.schema.layout = LayoutKind::kSkipstream;
  ShardParts shard(options);
  const Serial last = shard.Append({{"a", 1, "x"}});
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false).ok());
  ASSERT_TRUE(shard.dropper.Drop(RetentionClassId{0}, Generation{1}).ok());
  const auto drops = shard.dropper.DropsBehind(kNoSerial).value();
  ASSERT_EQ(drops.size(), 1U);
  using Parts = std::vector<meta::DropRecord::Part>;
  EXPECT_EQ(drops[0].parts, (Parts{{"a", {{last, 1}}}}));
}

TEST(SlabDropper, OfASlabWithoutMessagesNothingIsNoted) {
  ShardParts shard;
  ASSERT_TRUE(shard.generations.Rotate(std::nullopt, std::nullopt, false).ok());
  ASSERT_TRUE(shard.dropper.Drop(RetentionClassId{0}, Generation{1}).ok());
  EXPECT_TRUE(shard.dropper.DropsBehind(kNoSerial)->empty());
}

}  // namespace
}  // namespace topicdb
