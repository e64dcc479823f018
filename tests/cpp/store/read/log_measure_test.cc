#include "store/read/log_measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "store/read/read_parts.h"

namespace topicdb {
namespace {

constexpr PageLimits kNoLimits{1'000'000, std::size_t{1} << 30};

// What was committed, for a count without blocks.
struct Stored {
  Serial serial;
  std::string topic;
  std::int64_t timestamp;
  std::uint64_t bytes;
};

// A shard of two classes, and a list of the messages that it has.
class LogMeasureTest : public ::testing::Test {
 protected:
  LogMeasureTest() : shard_(Options()) {}

  static OpenOptions Options() {
    OpenOptions options;
    options.schema.retention = std::vector{RetentionClass{"b/#", {}, 0, {}, 0}};
    return options;
  }
  Serial Append(const std::vector<std::pair<std::string, std::int64_t>>& messages,
                std::size_t value_bytes = 5) {
    const std::string value(value_bytes, 'v');
    std::vector<MessageView> views;
    for (const auto& [topic, timestamp] : messages) views.push_back({topic, timestamp, value});
    const Serial serial = shard_.Append(views);
    for (const auto& [topic, timestamp] : messages) {
      stored_.push_back({serial, topic, timestamp, topic.size() + value_bytes});
    }
    return serial;
  }
  void Rotate() { ASSERT_TRUE(shard_.generations.Rotate(std::nullopt, std::nullopt, false).ok()); }
  // Seals what is fresh, and makes a view that has it so.
  void Seal() {
    ASSERT_TRUE(shard_.sealing.SealAll().ok());
    Append({{"a", 1}});
  }

  CommitSpan Measure(const std::vector<Filter>& filters, const CommitRange& range,
                     const PageLimits& limits) const {
    const auto view = shard_.state.view();
    auto span = LogMeasure(*view, filters, range, limits, nullptr).Run();
    EXPECT_TRUE(span.ok()) << span.status().message();
    return span.ok() ? *span : CommitSpan{};
  }
  CommitSpan Measure(const CommitRange& range, const PageLimits& limits) const {
    return Measure({Filter::Everything()}, range, limits);
  }
  // Returns what a measurement must be, counted commit by commit.
  CommitSpan Expected(const std::vector<Filter>& filters, const CommitRange& range,
                      const PageLimits& limits) const {
    const Serial last = shard_.state.view()->serial();
    CommitSpan span{std::max(range.after, std::min(range.until.value_or(last), last)), 0, 0};
    for (auto begin = stored_.begin(); begin != stored_.end();) {
      const auto end = std::find_if(begin, stored_.end(), [&](const Stored& message) {
        return message.serial != begin->serial;
      });
      CommitSpan commit{begin->serial, 0, 0};
      for (; begin != end; ++begin) {
        const bool is_wanted = std::any_of(filters.begin(), filters.end(), [&](const Filter& one) {
          return one.Matches(begin->topic);
        });
        if (!is_wanted || !Contains(range.times, begin->timestamp)) continue;
        ++commit.messages;
        commit.bytes += begin->bytes;
      }
      if (commit.messages == 0 || commit.until <= range.after) continue;
      if (commit.until > span.until) break;
      const bool fits = span.messages + commit.messages <= limits.rows_max &&
                        span.bytes + commit.bytes <= limits.bytes_max;
      if (!fits && span.messages > 0) {
        span.until = commit.until.Previous();
        break;
      }
      span.messages += commit.messages;
      span.bytes += commit.bytes;
      if (!fits) {
        span.until = commit.until;
        break;
      }
    }
    return span;
  }

  static std::vector<std::uint64_t> Plain(const CommitSpan& span) {
    return {span.until.value(), span.messages, span.bytes};
  }

  ShardParts shard_;
  std::vector<Stored> stored_;  // in the order of commits
};

using Numbers = std::vector<std::uint64_t>;

TEST_F(LogMeasureTest, WithoutLimitsGoesToTheLastCommit) {
  EXPECT_EQ(Plain(Measure({}, kNoLimits)), (Numbers{0, 0, 0}));
  for (int i = 0; i < 4; ++i) Append({{"a", i}, {"b/1", i}});
  EXPECT_EQ(Plain(Measure({}, kNoLimits)), (Numbers{4, 8, 4 * (6 + 8)}));
  EXPECT_EQ(Plain(Measure({Serial{1}, Serial{3}, {}}, kNoLimits)), (Numbers{3, 4, 28}));
  EXPECT_EQ(Plain(Measure({Serial{1}, Serial{99}, {}}, kNoLimits)), (Numbers{4, 6, 42}));
  EXPECT_EQ(Plain(Measure({Serial{3}, Serial{2}, {}}, kNoLimits)), (Numbers{3, 0, 0}));
  EXPECT_EQ(Plain(Measure({Serial{9}, std::nullopt, {}}, kNoLimits)), (Numbers{9, 0, 0}));
}

TEST_F(LogMeasureTest, StopsBeforeTheCommitThatExceedsALimit) {
  for (int i = 0; i < 5; ++i) Append({{"a", i}, {"a", i}, {"b/1", i}});  // 20 bytes
  EXPECT_EQ(Plain(Measure({}, {10, 1'000})), (Numbers{3, 9, 60}));
  EXPECT_EQ(Plain(Measure({}, {9, 1'000})), (Numbers{3, 9, 60}));
  EXPECT_EQ(Plain(Measure({}, {1'000, 59})), (Numbers{2, 6, 40}));
  EXPECT_EQ(Plain(Measure({Serial{2}, std::nullopt, {}}, {1'000, 40})), (Numbers{4, 6, 40}));
}

TEST_F(LogMeasureTest, ACommitThatExceedsThemCountsAlone) {
  for (int i = 0; i < 3; ++i) Append({{"a", i}, {"a", i}});
  EXPECT_EQ(Plain(Measure({}, {1, 1'000})), (Numbers{1, 2, 12}));
  EXPECT_EQ(Plain(Measure({Serial{1}, std::nullopt, {}}, {1'000, 1})), (Numbers{2, 2, 12}));
}

TEST_F(LogMeasureTest, CountsOnlyWhatIsWanted) {
  for (int i = 0; i < 6; ++i) Append({{"a", i}, {i % 2 == 0 ? "b/1" : "c", i}});
  EXPECT_EQ(Plain(Measure(FiltersOf({"b/+"}), {}, kNoLimits)), (Numbers{6, 3, 24}));
  EXPECT_EQ(Plain(Measure(FiltersOf({"b/+"}), {}, {1, 1'000})), (Numbers{2, 1, 8}))
      << "the commit before the next one that is wanted";
  EXPECT_EQ(Plain(Measure(FiltersOf({"a", "b/1", "#"}), {}, kNoLimits)).at(1), 12U);
  EXPECT_EQ(Plain(Measure({Filter::Everything()}, {{}, {}, {2, 4}}, kNoLimits)).at(1), 4U);
  ASSERT_TRUE(shard_.Delete("a")->status.ok());
  EXPECT_EQ(Plain(Measure({}, kNoLimits)).at(1), 6U) << "without what was deleted";
}

TEST_F(LogMeasureTest, CountsBlocksOfSeveralSlabsAsIfCommitByCommit) {
  std::mt19937 random(3);
  const auto append = [&](int commits) {
    for (int i = 0; i < commits; ++i) {
      std::vector<std::pair<std::string, std::int64_t>> messages;
      for (std::size_t k = 1 + random() % 4; k > 0; --k) {
        const std::string first = random() % 2 == 0 ? "a" : "b/";
        messages.emplace_back(first + std::to_string(random() % 3), random() % 100);
      }
      Append(messages, random() % 30);
    }
  };
  append(20);
  Seal();
  append(5);
  Rotate();
  append(15);
  Seal();
  append(8);
  const std::vector<std::vector<Filter>> wanted{
      {Filter::Everything()}, FiltersOf({"a1"}), FiltersOf({"b/#", "a2"}), FiltersOf({"d"})};
  for (const std::vector<Filter>& filters : wanted) {
    for (std::uint64_t after = 0; after < 52; after += 3) {
      for (const PageLimits limits : {kNoLimits, PageLimits{1, 1'000}, PageLimits{7, 1'000},
                                      PageLimits{40, 10'000}, PageLimits{1'000, 300}}) {
        CommitRange range;
        range.after = Serial{after};
        EXPECT_EQ(Plain(Measure(filters, range, limits)), Plain(Expected(filters, range, limits)))
            << filters.front().text() << " after " << after << ", " << limits.rows_max;
        range.until = Serial{after + 9};
        range.times = {20, 80};
        EXPECT_EQ(Plain(Measure(filters, range, limits)), Plain(Expected(filters, range, limits)))
            << filters.front().text() << " at some times after " << after;
      }
    }
  }
}

TEST_F(LogMeasureTest, MayEndWhereABlockEndsOnceItHasHalfOfTheBytes) {
  for (int i = 0; i < 10; ++i) Append({{"a", i}}, 99);
  ASSERT_TRUE(shard_.sealing.SealAll().ok());
  Rotate();
  for (int i = 0; i < 10; ++i) Append({{"a", i}}, 99);
  ASSERT_TRUE(shard_.sealing.SealAll().ok());
  const Serial last = Append({{"a", 1}}, 99);
  CommitRange range;
  EXPECT_EQ(Measure(range, {1'000, 1'500}).messages, 15U);
  range.whole_blocks = true;
  const CommitSpan whole = Measure(range, {1'000, 1'500});
  EXPECT_EQ(whole.messages, 10U);
  EXPECT_EQ(whole.bytes, 1'000U);
  EXPECT_GE(whole.until, Serial{10});
  EXPECT_EQ(Measure(range, {1'000, 700}).messages, 7U) << "the first block does not fit";
  const CommitSpan both = Measure(range, {1'000, 2'050});
  EXPECT_EQ(both.messages, 20U) << "both blocks fit, and the last does not";
  EXPECT_EQ(both.until, last.Previous());
}

TEST_F(LogMeasureTest, ALayoutWithoutALogHasNothingToCount) {
  OpenOptions options;
  options.schema.layout = LayoutKind::kSkipstream;
  ShardParts shard(options);
  const Serial serial = shard.Append({{"a", 1, "x"}});
  const auto view = shard.state.view();
  const std::vector<Filter> filters{Filter::Everything()};
  const auto span = LogMeasure(*view, filters, {}, kNoLimits, nullptr).Run();
  EXPECT_EQ(Plain(span.value()), (Numbers{serial.value(), 0, 0}));
}

TEST_F(LogMeasureTest, StopsWhenItIsInterrupted) {
  Append({{"a", 1}, {"c", 1}});
  const auto view = shard_.state.view();
  const std::vector<Filter> filters = FiltersOf({"a"});
  const InterruptCheck interrupted = [] { return true; };
  const auto span = LogMeasure(*view, filters, {}, kNoLimits, interrupted).Run();
  EXPECT_EQ(span.status().code(), Code::kInterrupted);
}

TEST_F(LogMeasureTest, OfADamagedSlabFailsAndNamesIt) {
  Append({{"a", 1}});
  DamageFirstBlock(&shard_, *shard_.state.view()->slabs().back().slab);
  Append({{"a", 2}});
  const auto view = shard_.state.view();
  const std::vector<Filter> filters = FiltersOf({"a"});
  const auto status = LogMeasure(*view, filters, {}, kNoLimits, nullptr).Run().status();
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find("class '#', generation 1"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace topicdb
