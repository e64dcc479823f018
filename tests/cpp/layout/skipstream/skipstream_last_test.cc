#include "layout/skipstream/skipstream_last.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>

#include "layout/skipstream/skipstream_slab.h"

namespace topicdb::skipstream {
namespace {

using Values = std::map<std::string, std::string>;  // by topic
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// What one reader has found, what it has counted, and how many steps it took.
struct Found {
  Values values;
  ReadCounters counters;
  int steps = 0;
};

Found Find(SkipstreamSlab& slab, const ReadRequest& request, std::size_t examined_max = kNoLimit,
           std::uint32_t timestamp_bytes = 8) {
  LastMessages last;
  SkipstreamLast reader(slab.source(), request, timestamp_bytes, &last);
  Found found;
  ReadOutcome outcome = ReadOutcome::kMore;
  while (outcome == ReadOutcome::kMore) {
    const auto read = reader.Read(examined_max);
    EXPECT_TRUE(read.ok()) << read.status().message();
    outcome = read.ok() ? *read : ReadOutcome::kExhausted;
    ++found.steps;
  }
  for (const LastMessages::Number number : last.ByTopic()) {
    found.values.emplace(last.entry(number).topic, last.entry(number).value);
  }
  found.counters = reader.counters();
  return found;
}

void Fill(SkipstreamSlab* slab) {
  for (int time = 0; time < 60; ++time) {
    slab->Put("d" + std::to_string(time % 3), time % 2 == 0 ? "x" : "y", time, 1,
              std::to_string(time));
  }
}

TEST(SkipstreamLast, FindsTheNewestOfEachTopic) {
  SkipstreamSlab slab;
  Fill(&slab);
  const Values expected{{"d0/x", "54"}, {"d0/y", "57"}, {"d1/x", "58"},
                        {"d1/y", "55"}, {"d2/x", "56"}, {"d2/y", "59"}};
  for (const std::size_t examined_max : {std::size_t{1}, std::size_t{7}, kNoLimit}) {
    EXPECT_EQ(Find(slab, SkipstreamSlab::Request("#"), examined_max).values, expected);
  }
  EXPECT_EQ(Find(slab, SkipstreamSlab::Request("#", {{}, 57})).values, (Values{{"d0/x", "54"},
                                                                               {"d0/y", "51"},
                                                                               {"d1/x", "52"},
                                                                               {"d1/y", "55"},
                                                                               {"d2/x", "56"},
                                                                               {"d2/y", "53"}}));
}

TEST(SkipstreamLast, OfOneTopicItGoesBackFromTheNewestKey) {
  SkipstreamSlab slab;
  Fill(&slab);
  const Found found = Find(slab, SkipstreamSlab::Request("d1/y"));
  EXPECT_EQ(found.values, (Values{{"d1/y", "55"}}));
  EXPECT_LE(found.counters.rows_examined, 3U) << "of 20 with the first word, and 30 with the other";
  EXPECT_EQ(found.counters.rows_matched, 1U);
  EXPECT_EQ(Find(slab, SkipstreamSlab::Request("d1/y", {{}, 50})).values, (Values{{"d1/y", "49"}}));
  EXPECT_EQ(Find(slab, SkipstreamSlab::Request("d1/z")).values, Values());
  EXPECT_EQ(Find(slab, SkipstreamSlab::Request("none/y")).values, Values());
}

TEST(SkipstreamLast, GoesFurtherBackPastWhatIsHidden) {
  SkipstreamSlab slab;
  for (int time = 1; time <= 9; ++time) {
    slab.Put("a", "b", time, static_cast<std::uint64_t>(time), std::to_string(time));
  }
  ReadRequest request = SkipstreamSlab::Request("a/b");
  request.serial_max = Serial{7};
  request.masks = {{Filter::Parse("a/#").value(), {}, Serial{7}, Serial{5}}};
  const Found found = Find(slab, request);
  EXPECT_EQ(found.values, (Values{{"a/b", "4"}}));
  EXPECT_EQ(found.counters.rows_examined, 6U);
  const Found in_steps = Find(slab, request, /*examined_max=*/0);
  EXPECT_EQ(in_steps.values, found.values);
  EXPECT_EQ(in_steps.steps, 6);
}

TEST(SkipstreamLast, WithoutTimestampsEachTopicHasOneMessage) {
  SkipstreamSlab slab(/*timestamp_bytes=*/0);
  slab.Put("a", "b", 0, 1, "old");
  slab.Put("a", "b", 0, 2, "new");
  slab.Put("a", "c", 0, 3, "other");
  EXPECT_EQ(Find(slab, SkipstreamSlab::Request("#"), kNoLimit, 0).values,
            (Values{{"a/b", "new"}, {"a/c", "other"}}));
  EXPECT_EQ(Find(slab, SkipstreamSlab::Request("a/b"), kNoLimit, 0).values,
            (Values{{"a/b", "new"}}));
  EXPECT_EQ(Find(slab, SkipstreamSlab::Request("#", {1, {}}), kNoLimit, 0).values, Values());
}

TEST(SkipstreamLast, DamageIsCorruption) {
  SkipstreamSlab slab;
  slab.Put("a", "b", 1, 1, "older");
  slab.Put("a", "b", 2, 1, "newer");
  const auto code = [&](const std::string& filter) {
    LastMessages last;
    SkipstreamLast reader(slab.source(), SkipstreamSlab::Request(filter), 8, &last);
    return reader.Read(kNoLimit).status().code();
  };
  ASSERT_TRUE(slab.db().Put({}, slab.Key("a", "b", 2), "\x09").ok());
  EXPECT_EQ(code("a/b"), Code::kCorruption);
  EXPECT_EQ(code("#"), Code::kCorruption);
  ASSERT_TRUE(slab.db().Delete({}, slab.Key("a", "b", 2)).ok());
  EXPECT_EQ(code("a/b"), Code::kCorruption) << "an index entry without its message";
  EXPECT_EQ(code("#"), Code::kOk);
}

}  // namespace
}  // namespace topicdb::skipstream
