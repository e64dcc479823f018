#include "store/read/summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "layout/message_groups.h"
#include "store/read/read_parts.h"

namespace topicdb {
namespace {

// What was committed and not deleted, for a count without blocks.
struct Stored {
  std::string topic;
  std::int64_t time;
};

class SummaryTest : public ::testing::TestWithParam<LayoutKind> {
 protected:
  SummaryTest() : shard_(Options()) {}

  static OpenOptions Options() {
    OpenOptions options;
    options.schema.layout = GetParam();
    options.schema.retention = std::vector{RetentionClass{"b/#", {}, 0, {}, 0}};
    return options;
  }

  void Append(const std::vector<std::pair<std::string, std::int64_t>>& messages) {
    std::vector<MessageView> views;
    for (const auto& [topic, time] : messages) {
      views.push_back({topic, time, "value"});
      const bool is_state = GetParam() == LayoutKind::kSkipstream;
      if (is_state) Forget([&](const Stored& s) { return s.topic == topic && s.time == time; });
      stored_.push_back({topic, time});
    }
    shard_.Append(views);
  }
  void Delete(const std::string& filter, const TimeRange& range) {
    ASSERT_TRUE(shard_.Delete(filter, range)->status.ok());
    const Filter parsed = Filter::Parse(filter).value();
    Forget([&](const Stored& s) { return parsed.Matches(s.topic) && Contains(range, s.time); });
  }
  void Rotate() { ASSERT_TRUE(shard_.generations.Rotate(std::nullopt, std::nullopt, false).ok()); }
  // Seals what is fresh, and makes a view that has it so.
  void Seal() {
    ASSERT_TRUE(shard_.sealing.SealAll().ok());
    Append({{"z/last", 1}});
  }

  Result<std::vector<MessageGroup>> Summarize(const Texts& filters, const TimeRange& range,
                                              const SummaryOptions& options) const {
    return SummarizeTargets(PlanOf(shard_, filters, range), range, options, nullptr);
  }
  // Returns what a summary must be, counted message by message.
  std::vector<MessageGroup> Expected(const Texts& filters, const TimeRange& range,
                                     const SummaryOptions& options) const {
    const std::vector<Filter> parsed = FiltersOf(filters);
    MessageGroups groups(options);
    for (const Stored& message : stored_) {
      const bool is_wanted = std::any_of(parsed.begin(), parsed.end(), [&](const Filter& one) {
        return one.Matches(message.topic);
      });
      if (!is_wanted || !Contains(range, message.time)) continue;
      groups.CountOf(message.topic, message.time).Add(1, message.time, message.time);
    }
    return groups.Sorted();
  }
  void ExpectRight(const Texts& filters, const TimeRange& range, const SummaryOptions& options) {
    const auto groups = Summarize(filters, range, options);
    ASSERT_TRUE(groups.ok()) << groups.status().message();
    const auto expected = Expected(filters, range, options);
    EXPECT_EQ(groups->size(), expected.size());
    EXPECT_TRUE(*groups == expected)
        << filters.front() << " from " << range.start.value_or(-1) << " to "
        << range.end.value_or(-1) << ", levels " << options.topic_levels << ", span "
        << options.span.value_or(0);
  }
  // Cuts what is stored into slices, and expects that these together have what is expected.
  void ExpectRightOfSlices(const Texts& filters, const TimeRange& range,
                           const SummaryOptions& options) const {
    const auto expected = Expected(filters, range, options);
    for (const std::uint64_t bytes_max : {std::uint64_t{1} << 40, std::uint64_t{700}}) {
      const auto groups =
          SummarizeParts(PartsOfSlices(filters, range, bytes_max), options, nullptr);
      ASSERT_TRUE(groups.ok()) << groups.status().message();
      EXPECT_TRUE(*groups == expected)
          << groups->size() << " of " << expected.size() << " groups of " << filters.front()
          << " in slices of " << bytes_max << " bytes, levels " << options.topic_levels;
    }
  }
  std::vector<SlicePart> PartsOfSlices(const Texts& filters, const TimeRange& range,
                                       std::uint64_t bytes_max, Serial after = kNoSerial,
                                       Serial until = kLastSerial) const {
    const auto view = shard_.state.view();
    std::vector<SlicePart> parts;
    for (const SlabView& slab_view : view->slabs()) {
      Slice whole;
      whole.slab = slab_view.slab->id();
      whole.range = range;
      whole.after = after;
      whole.until = until;
      const auto slices =
          CutSlab(*view, *slab_view.slab, FiltersOf(filters), whole, bytes_max).value();
      for (const Slice& slice : slices) {
        for (SlicePart& part :
             PartsOf(view, slab_view.slab, FiltersOf(filters), slice, /*with_values=*/false)) {
          parts.push_back(std::move(part));
        }
      }
    }
    return parts;
  }
  // Returns how many pages the reads of all slabs have loaded.
  std::uint64_t PagesRead() const {
    std::uint64_t pages = 0;
    for (const SlabView& view : shard_.state.view()->slabs()) {
      pages += view.slab->reads().pages_read;
    }
    return pages;
  }

  ShardParts shard_;

 private:
  template <typename Is>
  void Forget(Is is) {
    std::erase_if(stored_, is);
  }

  std::vector<Stored> stored_;
};

INSTANTIATE_TEST_SUITE_P(Layouts, SummaryTest,
                         ::testing::Values(LayoutKind::kColumnar, LayoutKind::kSkipstream),
                         [](const auto& layout) { return std::string(NameOf(layout.param)); });

SummaryOptions Grouped(std::uint32_t levels, std::optional<std::int64_t> span = {},
                       std::int64_t origin = 0) {
  SummaryOptions options;
  options.topic_levels = levels;
  options.span = span;
  options.span_origin = origin;
  return options;
}

TEST_P(SummaryTest, OfNothingHasNoGroups) {
  EXPECT_TRUE(Summarize({"#"}, {}, {})->empty());
  Append({{"a", 5}});
  EXPECT_TRUE(Summarize({"b"}, {}, {})->empty());
  EXPECT_TRUE(Summarize({"a"}, {6, {}}, {})->empty());
}

TEST_P(SummaryTest, CountsWhatIsWanted) {
  Append({{"a/1", 5}, {"a/2", 15}, {"b/1", 25}, {"$own/x", 35}});
  ExpectRight({"#"}, {}, {});
  ExpectRight({"$own/#"}, {}, {});
  ExpectRight({"a/+", "+/1"}, {}, Grouped(SummaryOptions::kAllLevels));
  ExpectRight({"#"}, {5, 25}, Grouped(1, 10));
  ExpectRightOfSlices({"#"}, {}, {});
  ExpectRightOfSlices({"a/+", "+/1"}, {5, 25}, Grouped(SummaryOptions::kAllLevels));
}

TEST_P(SummaryTest, IsThatOfAScanWhateverHappens) {
  std::mt19937 random(34);
  const auto below = [&](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
  const Texts filters{"#", "a/#", "b/+/x", "a/3/y", "c/#", "+/1/#"};
  for (int round = 0; round < 40; ++round) {
    std::vector<std::pair<std::string, std::int64_t>> messages;
    for (std::int64_t i = below(200); i >= 0; --i) {
      const char* const first[] = {"a", "b", "c", "$d"};
      const char* const last[] = {"x", "y", "x/deep/er"};
      messages.emplace_back(
          std::string(first[below(4)]) + '/' + std::to_string(below(5)) + '/' + last[below(3)],
          round * 50 + below(100));
    }
    Append(messages);
    const std::int64_t chance = below(12);
    if (chance == 0) Rotate();
    if (chance <= 3) Seal();
    if (chance == 4) Delete(filters[below(6)], {round * 40, round * 40 + below(60)});
    const std::int64_t start = below(2'000);
    const std::uint32_t levels[] = {0, 1, 2, SummaryOptions::kAllLevels};
    const std::optional<std::int64_t> spans[] = {std::nullopt, 1, 100, 1'000'000};
    for (const std::uint32_t level : levels) {
      const SummaryOptions options = Grouped(level, spans[below(4)], below(300));
      ExpectRight({"#"}, {}, options);
      const Texts wanted{filters[below(6)], filters[below(6)]};
      const TimeRange range{start, start + below(1'000)};
      ExpectRight(wanted, range, options);
      if (round % 4 != 3) continue;
      ExpectRightOfSlices({"#"}, {}, options);
      ExpectRightOfSlices(wanted, range, options);
    }
  }
}

TEST_P(SummaryTest, OfASliceHasOnlyItsCommits) {
  std::vector<Serial> serials;
  for (int i = 1; i <= 6; ++i) {
    serials.push_back(shard_.Append({{"a", i, "x"}, {"$own", i, "x"}}));
    if (i == 3) {
      ASSERT_TRUE(shard_.sealing.SealAll().ok());
    }
  }
  const auto parts = PartsOfSlices({"a"}, {}, std::uint64_t{1} << 40, serials[0], serials[3]);
  const auto groups = SummarizeParts(parts, Grouped(1), nullptr).value();
  EXPECT_EQ(groups, (std::vector<MessageGroup>{{"a", std::nullopt, 3, 2, 4}}));
  const auto interrupted = SummarizeParts(parts, {}, [] { return true; });
  EXPECT_EQ(interrupted.status().code(), Code::kInterrupted);
}

TEST_P(SummaryTest, DoesNotExceedTheMostNumberOfGroups) {
  Append({{"a", 5}, {"c", 5}, {"d", 5}});
  SummaryOptions options = Grouped(1);
  options.groups_max = 3;
  EXPECT_EQ(Summarize({"#"}, {}, options)->size(), 3U);
  options.groups_max = 2;
  const auto groups = Summarize({"#"}, {}, options);
  EXPECT_EQ(groups.status().code(), Code::kInvalidArgument);
  EXPECT_NE(groups.status().message().find("may have 2 groups"), std::string::npos);
}

TEST_P(SummaryTest, DoesNotReadMoreMessagesThanItMay) {
  Append({{"a", 5}, {"c", 5}, {"d", 5}});
  SummaryOptions options = Grouped(1);
  options.rows_max = 3;
  EXPECT_EQ(Summarize({"#"}, {}, options)->size(), 3U);
  options.rows_max = 2;
  const auto groups = Summarize({"#"}, {}, options);
  EXPECT_EQ(groups.status().code(), Code::kInvalidArgument);
  EXPECT_NE(groups.status().message().find("may read 2 messages"), std::string::npos);
}

TEST_P(SummaryTest, EndsWhenItIsInterrupted) {
  Append({{"a", 5}});
  const auto groups = SummarizeTargets(PlanOf(shard_, {"#"}), {}, {}, [] { return true; });
  EXPECT_EQ(groups.status().code(), Code::kInterrupted);
}

TEST(Summary, OptionsThatCannotBeRightAreRefused) {
  EXPECT_TRUE(CheckSummaryOptions({}).ok());
  EXPECT_TRUE(CheckSummaryOptions(Grouped(1, 1)).ok());
  EXPECT_TRUE(CheckSummaryOptions(Grouped(1, SummaryOptions::kSpanMax)).ok());
  EXPECT_EQ(CheckSummaryOptions(Grouped(1, 0)).code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckSummaryOptions(Grouped(1, SummaryOptions::kSpanMax + 1)).code(),
            Code::kInvalidArgument);
  SummaryOptions none;
  none.groups_max = 0;
  EXPECT_EQ(CheckSummaryOptions(none).code(), Code::kInvalidArgument);
}

// A summary of blocks, whose entries and directories tell most of it.
class SummaryOfBlocksTest : public SummaryTest {
 protected:
  // Seals many pages: topics a/000 to a/099, each with messages at the times 0 to 999.
  void SealPages() {
    for (int time = 0; time < 1'000; ++time) {
      std::vector<std::pair<std::string, std::int64_t>> messages;
      for (int topic = 0; topic < 100; ++topic) {
        messages.emplace_back("a/" + std::to_string(1'000 + topic), time);
      }
      Append(messages);
    }
    Seal();
  }
};

INSTANTIATE_TEST_SUITE_P(Layouts, SummaryOfBlocksTest, ::testing::Values(LayoutKind::kColumnar),
                         [](const auto& layout) { return std::string(NameOf(layout.param)); });

TEST_P(SummaryOfBlocksTest, ReadsNoPageOfBlocksThatCountAsAWhole) {
  SealPages();
  const std::uint64_t before = PagesRead();
  ExpectRight({"#"}, {}, {});
  ExpectRight({"#"}, {0, 1'000}, Grouped(0, 5'000));
  ExpectRight({"+/#"}, {}, {});
  const auto whole = PartsOfSlices({"+/#"}, {}, std::uint64_t{1} << 40);
  EXPECT_EQ(*SummarizeParts(whole, {}, nullptr), Expected({"+/#"}, {}, {}));
  SummaryOptions nothing_read;
  nothing_read.rows_max = 0;
  ExpectRight({"#"}, {}, nothing_read);
  EXPECT_EQ(PagesRead(), before + 0) << "the fresh block counts by its entry, too";
}

TEST_P(SummaryOfBlocksTest, ReadsOnlyPagesThatTheDirectoryDoesNotCount) {
  SealPages();
  const std::uint64_t before = PagesRead();
  ExpectRight({"#"}, {}, Grouped(1));
  const std::uint64_t by_level = PagesRead() - before;
  ExpectRight({"#"}, {}, Grouped(SummaryOptions::kAllLevels));
  const std::uint64_t by_topic = PagesRead() - before - by_level;
  EXPECT_LT(3 * by_level, by_topic) << "the last page of each block, and the fresh block";
}

TEST_P(SummaryOfBlocksTest, CountsMoreSpansThanItKeepsAtHand) {
  std::vector<std::pair<std::string, std::int64_t>> messages;
  for (int i = 0; i < 40'000; ++i) {
    messages.emplace_back("a/" + std::to_string(i % 2), (i / 2 % 10'000) * 7 + i % 3 * 70'000);
  }
  Append(messages);
  Seal();
  ExpectRight({"#"}, {}, Grouped(0, 7));
  ExpectRight({"a/1"}, {5'000, 150'000}, Grouped(0, 7));
}

TEST_P(SummaryOfBlocksTest, NamesTheSlabOfADamagedBlock) {
  Append({{"b/1", 1}});
  DamageFirstBlock(&shard_, shard_.Current());
  Append({{"b/1", 2}});
  const auto groups = Summarize({"#"}, {}, {});
  EXPECT_EQ(groups.status().code(), Code::kCorruption);
  EXPECT_NE(groups.status().message().find("generation"), std::string::npos)
      << groups.status().message();
}

}  // namespace
}  // namespace topicdb
