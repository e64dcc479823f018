#include "store/shard/commit/delete_finisher.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "store/shard/shard_parts.h"

namespace topicdb {
namespace {

// More messages than a commit removes by itself, and more than one step removes.
constexpr std::size_t kMany = 25'000;

void AppendMany(ShardParts* shard, const std::string& topic) {
  std::vector<MessageView> messages;
  for (std::size_t i = 0; i < kMany; ++i) {
    messages.push_back({topic, static_cast<std::int64_t>(i), "x"});
  }
  shard->Append(messages);
}

TEST(DeleteFinisher, RemovesInStepsWhatALargeDeleteHides) {
  OpenOptions options;
  options.schema.layout = LayoutKind::kSkipstream;  // in which each message is a key
  ShardParts shard(options);
  AppendMany(&shard, "a");
  shard.Append({{"b", 1, "stays"}});
  const auto deleted = shard.Delete("a");
  ASSERT_TRUE(deleted->status.ok()) << deleted->status.message();
  EXPECT_TRUE(deleted->hides);
  EXPECT_EQ(shard.Get("a", 24'999), std::nullopt) << "hidden at once";
  ASSERT_EQ(shard.state.view()->deletes().size(), 1U);

  const Serial later = shard.Append({{"a", 20'000, "later"}});
  EXPECT_GT(later, deleted->serial);
  ASSERT_TRUE(shard.deletes.Finish().ok());
  EXPECT_TRUE(shard.state.view()->deletes().empty()) << "nothing is hidden any more";
  EXPECT_EQ(shard.Get("a", 7), std::nullopt);
  EXPECT_EQ(shard.Get("a", 24'999), std::nullopt);
  EXPECT_EQ(shard.Get("a", 20'000), "later");
  EXPECT_EQ(shard.Get("b", 1), "stays");
  EXPECT_EQ(deleted->deleted + shard.deletes.TakeRemoved(deleted->serial), kMany - 1)
      << "all but the one that was written anew";
  EXPECT_EQ(shard.deletes.TakeRemoved(deleted->serial), 0U) << "it forgets the number";
}

TEST(DeleteFinisher, WithNothingToRemoveItWritesNothing) {
  ShardParts shard;
  shard.Append({{"a", 1, "x"}});
  const std::uint64_t written = shard.state.log()->bytes();
  EXPECT_TRUE(shard.deletes.Finish().ok());
  EXPECT_EQ(shard.state.log()->bytes(), written);
  EXPECT_EQ(shard.deletes.TakeRemoved(Serial{1}), 0U);
}

TEST(DeleteFinisher, TheSealersStepsRemoveTheSame) {
  OpenOptions options;
  options.schema.layout = LayoutKind::kSkipstream;
  ShardParts shard(options, /*keeps_sealer=*/true);
  AppendMany(&shard, "a");
  const auto deleted = shard.Delete("a");
  ASSERT_TRUE(deleted->hides);
  shard.deletes.FinishSoon(deleted->serial);
  while (!shard.state.view()->deletes().empty()) std::this_thread::yield();
  shard.deletes.Forget();
  EXPECT_EQ(shard.Get("a", 24'999), std::nullopt);
  EXPECT_FALSE(shard.deletes.SealDue().value()) << "nothing is left to do";
  EXPECT_EQ(shard.deletes.TakeRemoved(deleted->serial), 0U) << "nobody has asked for the number";
}

TEST(DeleteFinisher, FindsItsRecordGoneFromTheDisk) {
  ShardParts shard;
  AppendMany(&shard, "a");
  const auto deleted = shard.Delete("a");
  const meta::DeleteRecord record = shard.state.view()->deletes().at(0);
  const std::string key = meta::DeleteKey(record.serial, record.index);
  std::string bytes;
  EXPECT_TRUE(shard.state.db->Get({}, key, &bytes).ok()) << "a crash would not bring them back";
  ASSERT_TRUE(shard.deletes.Finish().ok());
  EXPECT_TRUE(shard.state.db->Get({}, key, &bytes).IsNotFound());
}

}  // namespace
}  // namespace topicdb
