#include "layout/skipstream/skipstream_layout.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "layout/skipstream/skipstream_slab.h"

namespace topicdb::skipstream {
namespace {

// A message has one key, and one index key for each of its two words.
constexpr std::size_t kKeysOfMessage = 3;

PlacedMessage Place(std::string_view topic, std::span<const std::string_view> words,
                    std::int64_t time) {
  return {SkipstreamSlab::kStream, topic, words, time, kNoSerial, 0, {}};
}

std::string Get(SkipstreamSlab& slab, std::int64_t time, const std::vector<RowMask>& masks = {}) {
  const std::vector<std::string_view> words{"a", "b"};
  const auto found = slab.layout().Get(slab.source(), Place("a/b", words, time), masks);
  EXPECT_TRUE(found.ok()) << found.status().message();
  return found.ok() && found->has_value() ? (*found)->value : "none";
}

TEST(SkipstreamLayout, ALaterMessageOfATopicAndTimeTakesThePlaceOfAnEarlierOne) {
  SkipstreamSlab slab;
  slab.Put("a", "b", 5, 1, "first");
  slab.Put("a", "b", 5, 2, "second");
  slab.Put("a", "b", 6, 3, "another");
  EXPECT_EQ(Get(slab, 5), "second");
  EXPECT_EQ(Get(slab, 6), "another");
  EXPECT_EQ(Get(slab, 7), "none");
  EXPECT_EQ(slab.CountKeys(), 2 * kKeysOfMessage);
}

TEST(SkipstreamLayout, GetLooksAtMasksAndNoticesDamage) {
  SkipstreamSlab slab;
  slab.Put("a", "b", 5, 3, "value");
  EXPECT_EQ(Get(slab, 5, {{Filter::Parse("a/b").value(), {}, Serial{2}}}), "value")
      << "deleted before it";
  EXPECT_EQ(Get(slab, 5, {{Filter::Parse("a/+").value(), {}, Serial{3}}}), "none");
  ASSERT_TRUE(slab.db().Put({}, slab.Key("a", "b", 5), "\x09").ok());
  const std::vector<std::string_view> words{"a", "b"};
  EXPECT_EQ(slab.layout().Get(slab.source(), Place("a/b", words, 5), {}).status().code(),
            Code::kCorruption);
}

TEST(SkipstreamLayout, ARemoverTakesMessagesWithTheirIndexEntriesAsFarAsItMay) {
  SkipstreamSlab slab;
  for (int time = 0; time < 10; ++time) slab.Put("a", "b", time, 1, "x");
  slab.Put("c", "b", 3, 1, "stays");
  std::size_t removed = 0;
  const auto remove = [&](std::size_t rows_max) {
    rocksdb::WriteBatch batch;
    const auto remover = slab.layout().NewRemover(slab.source(), &batch);
    const auto all = remover->Remove(SkipstreamSlab::Request("a/#", {2, 8}), rows_max, &removed);
    EXPECT_TRUE(all.ok() && remover->Finish().ok());
    EXPECT_TRUE(slab.db().Write({}, &batch).ok());
    return *all;
  };
  EXPECT_FALSE(remove(4));
  EXPECT_EQ(removed, 4U);
  EXPECT_EQ(slab.CountKeys(), 7 * kKeysOfMessage);
  EXPECT_TRUE(remove(4));
  EXPECT_EQ(removed, 6U);
  EXPECT_EQ(slab.CountKeys(), 5 * kKeysOfMessage);
  EXPECT_EQ(Get(slab, 1), "x");
  EXPECT_EQ(Get(slab, 2), "none");
  EXPECT_EQ(Get(slab, 8), "x");
}

TEST(SkipstreamLayout, AStepOfADeleteGoesOnWhereTheOneBeforeHasEnded) {
  SkipstreamSlab slab;
  constexpr int kMessages = 2'500;
  for (int time = 0; time < kMessages; ++time) slab.Put("a", "b", time, 1, "x");
  RemovalProgress progress;
  std::size_t removed = 0;
  const auto step = [&](RemovalProgress* from) -> Result<bool> {
    rocksdb::WriteBatch batch;
    const auto remover = slab.layout().NewRemover(slab.source(), &batch);
    remover->GoOnFrom(from);
    TOPICDB_ASSIGN_OR_RETURN(const bool complete,
                             remover->Remove(SkipstreamSlab::Request("#"), 1'200, &removed));
    EXPECT_TRUE(slab.db().Write({}, &batch).ok());
    return complete;
  };
  auto complete = step(&progress);
  ASSERT_TRUE(complete.ok() && !*complete);
  EXPECT_EQ(removed, 1'200U);
  // Only a step that begins anew comes to this message, which is damaged.
  ASSERT_TRUE(slab.db().Put({}, slab.Key("a", "b", 500), "\x09").ok());
  EXPECT_EQ(step(nullptr).status().code(), Code::kCorruption);
  EXPECT_EQ(progress.positions.at(SkipstreamSlab::kStream).timestamp, 999);
  complete = step(&progress);
  ASSERT_TRUE(complete.ok()) << complete.status().message();
  EXPECT_FALSE(*complete);
  EXPECT_EQ(removed, 2'400U);
  complete = step(&progress);
  ASSERT_TRUE(complete.ok() && *complete);
  EXPECT_EQ(removed, static_cast<std::size_t>(kMessages));
}

TEST(SkipstreamLayout, APointIsRemovedUnlessItIsHiddenOrLater) {
  SkipstreamSlab slab;
  slab.Put("a", "b", 5, 3, "value");
  const std::vector<std::string_view> words{"a", "b"};
  const auto remove = [&](const std::vector<RowMask>& masks, Serial serial_max) {
    std::size_t removed = 0;
    rocksdb::WriteBatch batch;
    const auto remover = slab.layout().NewRemover(slab.source(), &batch);
    EXPECT_TRUE(remover->RemovePoint(Place("a/b", words, 5), masks, serial_max, &removed).ok());
    EXPECT_TRUE(slab.db().Write({}, &batch).ok());
    return removed;
  };
  EXPECT_EQ(remove({}, Serial{2}), 0U) << "it was written after the delete";
  EXPECT_EQ(remove({{Filter::Parse("#").value(), {}, Serial{3}}}, Serial{3}), 0U)
      << "another delete has it";
  EXPECT_EQ(slab.CountKeys(), kKeysOfMessage);
  EXPECT_EQ(remove({}, Serial{3}), 1U);
  EXPECT_EQ(slab.CountKeys(), 0U);
  EXPECT_EQ(remove({}, Serial{3}), 0U);
}

TEST(SkipstreamLayout, SmallStreamsAreCountedAndShareTheBytes) {
  SkipstreamSlab slab;
  for (int time = 0; time < 30; ++time) slab.Put("a", "b", time, 1, "value");
  const auto sizes = slab.layout().SizesByStream(
      slab.source(), {SkipstreamSlab::kStream, StreamId{8}}, {40, 4'000}, {});
  ASSERT_TRUE(sizes.ok()) << sizes.status().message();
  ASSERT_EQ(sizes->size(), 1U) << "a stream without messages is left out";
  EXPECT_EQ(sizes->at(SkipstreamSlab::kStream).messages, 30U);
  EXPECT_EQ(sizes->at(SkipstreamSlab::kStream).bytes, 3'000U);
  EXPECT_EQ(
      slab.layout()
          .SizesByStream(slab.source(), {SkipstreamSlab::kStream}, {30, 300}, [] { return true; })
          .status()
          .code(),
      Code::kInterrupted);
}

}  // namespace
}  // namespace topicdb::skipstream
