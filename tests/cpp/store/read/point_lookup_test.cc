#include "store/read/point_lookup.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "store/read/read_parts.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

// A view with the lists that a lookup refers to. Tests may change the lists.
struct Lookup {
  explicit Lookup(const ShardParts& shard)
      : view(shard.state.view()), deletes(view->deletes()), snapshot(view->snapshot()) {}

  Result<std::optional<StoredMessage>> Find(const std::string& topic, std::int64_t time) const {
    return PointLookup{view->slabs(), deletes, view->db(), snapshot, classes, generation}.Find(
        topic, time);
  }
  // Returns the value that is found, or "none".
  std::string Value(const std::string& topic, std::int64_t time) const {
    const auto found = Find(topic, time);
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() && found->has_value() ? (*found)->value : "none";
  }

  std::shared_ptr<const ShardView> view;
  std::vector<meta::DeleteRecord> deletes;
  const rocksdb::Snapshot* snapshot;
  std::vector<RetentionClassId> classes{RetentionClassId{0}};
  std::optional<Generation> generation;
};

void Rotate(ShardParts* shard) {
  ASSERT_TRUE(shard->generations.Rotate(std::nullopt, std::nullopt, false).ok());
}

TEST(PointLookup, FindsTheMessageOfATopicAndTime) {
  for (const LayoutKind layout : {LayoutKind::kColumnar, LayoutKind::kSkipstream}) {
    OpenOptions options;
    options.schema.layout = layout;
    ShardParts shard(options);
    shard.Append({{"a/b", 5, "five"}, {"a/b", 6, "six"}, {"a", 5, "other"}});
    const Lookup lookup(shard);
    EXPECT_EQ(lookup.Value("a/b", 5), "five");
    EXPECT_EQ(lookup.Value("a/b", 6), "six");
    EXPECT_EQ(lookup.Value("a", 5), "other");
    EXPECT_EQ(lookup.Value("a/b", 7), "none");
    EXPECT_EQ(lookup.Value("a/c", 5), "none");
    EXPECT_EQ((*lookup.Find("a", 5))->serial, Serial{1});
  }
}

TEST(PointLookup, TakesTheNewestGenerationUnlessOneIsNamed) {
  ShardParts shard;
  shard.Append({{"a", 5, "first"}});
  Rotate(&shard);
  shard.Append({{"a", 5, "second"}, {"a", 5, "third"}});
  Rotate(&shard);
  Lookup lookup(shard);
  EXPECT_EQ(lookup.Value("a", 5), "third") << "the last generation has none";
  lookup.generation = Generation{1};
  EXPECT_EQ(lookup.Value("a", 5), "first");
  lookup.generation = Generation{3};
  EXPECT_EQ(lookup.Value("a", 5), "none");
  lookup.generation = Generation{9};
  EXPECT_EQ(lookup.Value("a", 5), "none");
}

TEST(PointLookup, OfSeveralClassesTakesWhatWasCommittedLast) {
  OpenOptions options;
  options.schema.retention = {{"a/#", 5us}};
  ShardParts shard(options);
  shard.Append({{"a/x", 1, "before"}});
  const auto rules = shard.state.environment->rules();
  const auto changed =
      std::make_shared<const RetentionRules>(rules->With({{"a/x", 7us}, {"a/#", 5us}}).value());
  const RetentionClassId before = rules->ClassOf("a/x");
  const RetentionClassId now = changed->ClassOf("a/x");
  ASSERT_NE(before, now);
  ASSERT_TRUE(shard.generations.Adopt(changed).ok());
  shard.Append({{"a/x", 1, "now"}});
  Lookup lookup(shard);
  for (const auto& classes :
       {std::vector{before, now}, std::vector{now, before}, std::vector{now}}) {
    lookup.classes = classes;
    EXPECT_EQ(lookup.Value("a/x", 1), "now");
  }
  lookup.classes = {before};
  EXPECT_EQ(lookup.Value("a/x", 1), "before");
  lookup.classes = {};
  EXPECT_EQ(lookup.Value("a/x", 1), "none");
}

TEST(PointLookup, WhatADeleteHidesIsNotFound) {
  ShardParts shard;
  const Serial first = shard.Append({{"a", 5, "first"}});
  Rotate(&shard);
  const Serial second = shard.Append({{"a", 5, "second"}});
  Lookup lookup(shard);
  const KeyRange keys{Filter::Parse("a").value(), {5, 6}};
  lookup.deletes = {{second, 0, keys, Generation{2}}};
  EXPECT_EQ(lookup.Value("a", 5), "first") << "the delete is of another generation";
  lookup.deletes = {{second, 0, keys, meta::kEveryGeneration}};
  EXPECT_EQ(lookup.Value("a", 5), "none");
  lookup.deletes = {{first, 0, keys, meta::kEveryGeneration}};
  EXPECT_EQ(lookup.Value("a", 5), "second") << "it was committed later";
}

TEST(PointLookup, WithoutASnapshotFindsWhatIsCommittedNow) {
  ShardParts shard;
  shard.Append({{"a", 5, "old"}});
  Lookup lookup(shard);
  shard.Append({{"a", 5, "new"}});
  EXPECT_EQ(lookup.Value("a", 5), "old");
  lookup.snapshot = nullptr;
  EXPECT_EQ(lookup.Value("a", 5), "new");
}

TEST(PointLookup, WhereMessagesHaveNoTimesFindsNoneOfAnother) {
  OpenOptions options;
  options.schema.layout = LayoutKind::kSkipstream;
  options.schema.timestamp_bytes = 0;
  ShardParts shard(options);
  shard.Append({{"a", 0, "value"}});
  const Lookup lookup(shard);
  EXPECT_EQ(lookup.Value("a", 0), "value");
  EXPECT_EQ(lookup.Value("a", 1), "none");
}

TEST(PointLookup, OfADamagedSlabFails) {
  ShardParts shard;
  shard.Append({{"a", 5, "value"}});
  DamageFirstBlock(&shard, shard.Current());
  shard.Append({{"b", 5, "value"}});
  EXPECT_EQ(Lookup(shard).Find("a", 5).status().code(), Code::kCorruption);
}

}  // namespace
}  // namespace topicdb
