#include "store/view/shard_environment.h"

#include <gtest/gtest.h>
#include <rocksdb/advanced_cache.h>

#include <chrono>
#include <string>
#include <vector>

namespace topicdb {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<ShardEnvironment> MakeOk(const OpenOptions& options = {},
                                         LayoutKind layout = LayoutKind::kColumnar) {
  Schema schema;
  schema.layout = layout;
  schema.timestamp_bytes = 8;
  schema.thresholds = {7, 3};
  schema.retention = {{"a/#", 5us}};
  const FoundDatabase found{{{1, 2, 3}, {}, schema},
                            RetentionRules::Make(schema.retention).value()};
  return MakeShardEnvironment("fleet.db", found, options);
}

SlabId SlabOf(RetentionClassId retention_class) { return {0, retention_class, Generation{4}}; }

TEST(ShardEnvironment, HasWhatTheDatabaseAndTheHandleSay) {
  OpenOptions options;
  options.read_only = true;
  options.adaptive_structures = false;
  options.streams_max = 99;
  options.commit.pending_max = 17;
  options.cache_bytes = 1 << 20;
  options.write_buffer_bytes = 2 << 20;
  const auto environment = MakeOk(options);
  EXPECT_EQ(environment->database_path, "fleet.db");
  EXPECT_EQ(environment->database, (DatabaseId{1, 2, 3}));
  EXPECT_TRUE(environment->read_only);
  EXPECT_EQ(environment->learning.thresholds, (std::vector<std::uint32_t>{7, 3}));
  EXPECT_FALSE(environment->learning.adaptive);
  EXPECT_EQ(environment->learning.streams_max, 99U);
  EXPECT_EQ(environment->commit.pending_max, 17U);
  EXPECT_EQ(environment->resources.block_cache->GetCapacity(), std::size_t{1} << 20);
  EXPECT_EQ(environment->resources.write_buffer_bytes, std::size_t{2} << 20);
  EXPECT_EQ(environment->rules()->FilterOf(RetentionClassId{0}), "a/#");
  environment->sealer->Stop();
}

TEST(ShardEnvironment, RulesAreThoseOfNow) {
  const auto environment = MakeOk();
  const auto before = environment->rules();
  environment->retention->Set(before->With({{"b/#", 5us}}).value());
  EXPECT_NE(environment->rules()->version(), before->version());
  EXPECT_EQ(environment->schema.retention.front().filter, "a/#") << "as it was opened";
}

TEST(ShardEnvironment, SlabsOfReservedTopicsAreAState) {
  const auto environment = MakeOk();
  const SlabId reserved = SlabOf(environment->rules()->reserved());
  const SlabId other = SlabOf(RetentionClassId{0});
  EXPECT_TRUE(environment->IsReserved(reserved));
  EXPECT_FALSE(environment->IsReserved(other));
  EXPECT_EQ(environment->LayoutOfNew(reserved), LayoutKind::kSkipstream);
  EXPECT_EQ(environment->LayoutOfNew(reserved, LayoutKind::kColumnar), LayoutKind::kSkipstream);
  EXPECT_EQ(environment->LayoutOfNew(other), LayoutKind::kColumnar);
}

TEST(ShardEnvironment, ALayoutIsThatOfTheRulesOrTheOneBeforeOrTheSchema) {
  const auto environment = MakeOk({}, LayoutKind::kSkipstream);
  const SlabId named = SlabOf(RetentionClassId{0});
  const SlabId other = SlabOf(RetentionClassId{1});
  const auto rules =
      environment->rules()->With({{"a/#", 5us, 0, {}, 0, LayoutKind::kSkipstream}}).value();
  environment->retention->Set(rules);
  EXPECT_EQ(environment->LayoutOfNew(named, LayoutKind::kColumnar), LayoutKind::kSkipstream);
  EXPECT_EQ(environment->LayoutOfNew(other, LayoutKind::kColumnar), LayoutKind::kColumnar);
  EXPECT_EQ(environment->LayoutOfNew(other), LayoutKind::kSkipstream) << "that of the schema";
  environment->retention->Set(rules.With({{"a/#", 5us, 0, {}, 0, LayoutKind::kColumnar}}).value());
  EXPECT_EQ(environment->LayoutOfNew(named, LayoutKind::kSkipstream), LayoutKind::kColumnar);
}

TEST(ShardEnvironment, NewSlabsBeginEmptyAndCurrent) {
  const auto environment = MakeOk();
  const NotedTime now = TimeAt<NotedTime>(1'000);
  const meta::SlabRecord record =
      environment->NewSlabRecord(SlabOf(RetentionClassId{0}), LayoutKind::kColumnar, now);
  EXPECT_EQ(record.state, meta::SlabState::kCurrent);
  EXPECT_EQ(record.layout, LayoutKind::kColumnar);
  EXPECT_EQ(record.timestamp_bytes, 8U);
  EXPECT_EQ(record.created_at, now);
  EXPECT_EQ(record.sealed_at, NotedTime());
  EXPECT_EQ(record.keep_last, 0U);
  EXPECT_EQ(record.begun_at, kNoSerial);
  const meta::SlabRecord of_maps = environment->NewSlabRecord(
      SlabOf(environment->rules()->reserved()), LayoutKind::kSkipstream, now);
  EXPECT_EQ(of_maps.layout, LayoutKind::kSkipstream);
  EXPECT_EQ(of_maps.timestamp_bytes, 0U);
}

TEST(ShardEnvironment, LimitsOfSealingFollowFromTheFreshBytes) {
  const auto limits_of = [](std::size_t seal_bytes) {
    OpenOptions options;
    options.seal_bytes = seal_bytes;
    return MakeOk(options)->seal_limits;
  };
  SealLimits limits = limits_of(std::size_t{1} << 20);
  EXPECT_EQ(limits.fresh_bytes_max, std::size_t{1} << 20);
  EXPECT_EQ(limits.fresh_blocks_max, 1'024U);
  EXPECT_EQ(limits.block_bytes_max, std::size_t{1} << 20);
  EXPECT_EQ(limits.page_bytes_max, std::size_t{4} << 10);
  limits = limits_of(1);
  EXPECT_EQ(limits.fresh_bytes_max, 1U);
  EXPECT_EQ(limits.block_bytes_max, std::size_t{64} << 10);
  EXPECT_EQ(limits.page_bytes_max, 64U);
  limits = limits_of(std::size_t{1} << 30);
  EXPECT_EQ(limits.fresh_bytes_max, std::size_t{1} << 30);
  EXPECT_EQ(limits.block_bytes_max, SealLimits::kBlockBytesMax);
  EXPECT_EQ(limits.page_bytes_max, SealLimits::kPageBytesMax);
}

}  // namespace
}  // namespace topicdb
