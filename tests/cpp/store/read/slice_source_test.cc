#include "store/read/slice_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "store/read/read_parts.h"

namespace topicdb {
namespace {

// Returns the parts of a read of all slabs, from the commit behind `after` up to `until`.
std::vector<SlicePart> PartsOf(const ShardParts& shard, const Texts& filters,
                               Serial after = kNoSerial, Serial until = kLastSerial) {
  Slice slice;
  slice.after = after;
  slice.until = until;
  std::vector<SlicePart> parts;
  const auto view = shard.state.view();
  for (const SlabView& slab_view : view->slabs()) {
    for (SlicePart& part : PartsOf(view, slab_view.slab, FiltersOf(filters), slice, true)) {
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

Texts Sorted(Texts values) {
  std::sort(values.begin(), values.end());
  return values;
}

class SliceSourceTest : public ::testing::TestWithParam<LayoutKind> {
 protected:
  SliceSourceTest() : shard_(Options()) {
    shard_.Append({{"a/1", 1, "1"}, {"b", 2, "2"}, {"a/2", 3, "3"}});
    EXPECT_TRUE(shard_.generations.Rotate(std::nullopt, std::nullopt, false).ok());
    shard_.Append({{"a/1", 4, "4"}});
    shard_.Append({{"c", 5, "5"}});
  }
  static OpenOptions Options() {
    OpenOptions options;
    options.schema.layout = GetParam();
    options.schema.structures = Texts{"a/+"};
    return options;
  }

  ShardParts shard_;
};

TEST_P(SliceSourceTest, GivesEachMessageOfItsPartsOnce) {
  SliceSource all(PartsOf(shard_, {"#"}));
  EXPECT_EQ(Sorted(ReadValues(&all)), (Texts{"1", "2", "3", "4", "5"}));
  SliceSource overlapping(PartsOf(shard_, {"a/1", "a/#", "+/2"}));
  EXPECT_EQ(Sorted(ReadValues(&overlapping)), (Texts{"1", "3", "4"}));
  SliceSource none(PartsOf(shard_, {"d"}));
  EXPECT_TRUE(ReadValues(&none).empty());
}

TEST_P(SliceSourceTest, CountsWhatAllItsPartsHaveRead) {
  SliceSource source(PartsOf(shard_, {"#"}));
  EXPECT_EQ(source.counters().rows_matched, 0U);
  Batch batch;
  ASSERT_EQ(source.Read({2, 1 << 20, 1'000}, &batch).value(), ReadOutcome::kMore);
  EXPECT_EQ(source.counters().rows_matched, 2U);
  EXPECT_EQ(ReadValues(&source).size(), 3U);
  EXPECT_EQ(source.counters().rows_matched, 5U);
  EXPECT_GE(source.counters().rows_examined, 5U);
}

TEST_P(SliceSourceTest, OfNoPartsEndsAtOnce) {
  SliceSource source({});
  Batch batch;
  EXPECT_EQ(source.Read(kWholeRead, &batch).value(), ReadOutcome::kExhausted);
  EXPECT_TRUE(batch.empty());
}

TEST_P(SliceSourceTest, OneBatchTakesSeveralPartsUntilItIsFull) {
  SliceSource source(PartsOf(shard_, {"#"}));
  std::vector<std::size_t> sizes;
  Texts values;
  for (ReadOutcome outcome = ReadOutcome::kMore; outcome == ReadOutcome::kMore;) {
    Batch batch;
    outcome = source.Read({2, 1 << 20, 1'000}, &batch).value();
    if (!batch.empty()) sizes.push_back(batch.size());
    for (const std::string& value : ValuesOf(batch)) values.push_back(value);
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{2, 2, 1}));
  EXPECT_EQ(Sorted(values), (Texts{"1", "2", "3", "4", "5"}));
}

TEST_P(SliceSourceTest, CountsForItsSlabsWhatItHasReadToTheEnd) {
  const auto matched = [&](std::size_t slab) {
    return shard_.state.view()->slabs()[slab].slab->reads().rows_matched;
  };
  SliceSource source(PartsOf(shard_, {"a/+"}));
  EXPECT_EQ(ReadValues(&source).size(), 3U);
  EXPECT_EQ(matched(0), 2U);
  EXPECT_EQ(matched(1), 1U);
}

INSTANTIATE_TEST_SUITE_P(Layouts, SliceSourceTest,
                         testing::Values(LayoutKind::kSkipstream, LayoutKind::kColumnar),
                         [](const auto& layout) { return std::string(NameOf(layout.param)); });

// An overwritten message is of the commit that wrote it last.
TEST(SliceSource, OfAStateGivesTheCommitsOfASliceOnly) {
  OpenOptions options;
  options.schema.layout = LayoutKind::kSkipstream;
  ShardParts shard(options);
  std::vector<Serial> serials;
  for (int i = 1; i <= 6; ++i) serials.push_back(shard.Append({{"a", i, std::to_string(i)}}));
  shard.Append({{"a", 3, "later"}});
  SliceSource middle(PartsOf(shard, {"#"}, serials[1], serials[4]));
  EXPECT_EQ(Sorted(ReadValues(&middle)), (Texts{"4", "5"}));
  SliceSource rest(PartsOf(shard, {"a"}, serials[4]));
  EXPECT_EQ(Sorted(ReadValues(&rest)), (Texts{"6", "later"}));
}

TEST(SliceSource, GivesTheCommitsOfASliceOnly) {
  ShardParts shard;
  std::vector<Serial> serials;
  for (int i = 1; i <= 6; ++i) serials.push_back(shard.Append({{"a", i, std::to_string(i)}}));
  SliceSource fresh(PartsOf(shard, {"#"}, serials[1], serials[3]));
  EXPECT_EQ(Sorted(ReadValues(&fresh)), (Texts{"3", "4"}));
  ASSERT_TRUE(shard.sealing.SealAll().ok());
  shard.Append({{"a", 7, "7"}});
  SliceSource sealed(PartsOf(shard, {"a"}, serials[1], serials[3]));
  EXPECT_EQ(Sorted(ReadValues(&sealed)), (Texts{"3", "4"}));
}

TEST(SliceSource, OfADamagedSlabFailsAndNamesIt) {
  ShardParts shard;
  shard.Append({{"a", 1, "x"}});
  DamageFirstBlock(&shard, shard.Current());
  shard.Append({{"a", 2, "x"}});
  SliceSource source(PartsOf(shard, {"#"}));
  Batch batch;
  const Status status = source.Read(kWholeRead, &batch).status();
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find("generation 1 of shard 0"), std::string::npos);
}

}  // namespace
}  // namespace topicdb
