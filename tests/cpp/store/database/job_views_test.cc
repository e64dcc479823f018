#include "store/database/job_views.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "store/database/database_parts.h"
#include "test_directory.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;
using Ranges = std::vector<SerialRange>;

constexpr WallTime kNow{1'800'000'000s};

meta::JobSpan Span(std::uint64_t number, std::uint64_t first, std::uint64_t last,
                   std::vector<std::uint32_t> shards, WallTime committed_at = kNow) {
  return {number, Serial{first}, Serial{last}, committed_at, std::move(shards)};
}

meta::JobRecord Record(meta::JobSpan last, std::vector<meta::JobSpan> earlier = {}) {
  meta::JobRecord record;
  record.last = std::move(last);
  record.earlier = std::move(earlier);
  return record;
}

// A database of three shards, whose views tests make themselves.
class JobViewsTest : public ::testing::Test {
 protected:
  // Returns a moment at which the shard has applied these jobs.
  ShardMoment At(std::uint32_t shard, meta::JobRecords jobs = {}) const {
    return {database_.shard(shard),
            std::make_shared<const ShardView>(
                database_.environment, nullptr, nullptr, SlabLists(), DeleteRecords(),
                std::make_shared<const meta::JobRecords>(std::move(jobs)), Serial{100}, 0, 0)};
  }

  const TestDirectory directory_;
  const DatabaseParts database_{directory_ / "db", WithShards(3)};
};

TEST_F(JobViewsTest, AJobThatAllItsShardsHaveIsFinished) {
  const std::vector<ShardMoment> moments{At(0, {{"j", Record(Span(0, 5, 6, {0, 2}))}}), At(1),
                                         At(2, {{"j", Record(Span(0, 9, 9, {0, 2}))}})};
  for (const Ranges& unfinished : UnfinishedJobs(moments, kNow)) EXPECT_TRUE(unfinished.empty());
}

TEST_F(JobViewsTest, AJobThatAnotherShardLacksIsNot) {
  const std::vector<ShardMoment> moments{At(0, {{"j", Record(Span(0, 5, 6, {0, 1, 2}))}}), At(1),
                                         At(2, {{"j", Record(Span(0, 9, 9, {0, 1, 2}))}})};
  const auto unfinished = UnfinishedJobs(moments, kNow);
  ASSERT_EQ(unfinished.size(), 3U);
  EXPECT_EQ(unfinished[0], (Ranges{{Serial{5}, Serial{6}}}));
  EXPECT_TRUE(unfinished[1].empty());
  EXPECT_EQ(unfinished[2], (Ranges{{Serial{9}, Serial{9}}}));
}

TEST_F(JobViewsTest, ALaterJobOfTheSequenceStandsForEarlierOnes) {
  const auto in_shard = [&](std::uint32_t shard, std::uint64_t last) {
    return At(shard, {{"query", Record(Span(last, last, last, {0, 1}))}});
  };
  EXPECT_TRUE(UnfinishedJobs({in_shard(0, 7), in_shard(1, 8)}, kNow)[0].empty());
  EXPECT_EQ(UnfinishedJobs({in_shard(0, 7), in_shard(1, 6)}, kNow)[0],
            (Ranges{{Serial{7}, Serial{7}}}));
}

TEST_F(JobViewsTest, EarlierJobsAreUnfinishedTooIfAShardIsSoFarBehind) {
  const std::vector<meta::JobSpan> earlier{Span(3, 10, 11, {0, 1}), Span(4, 20, 20, {0, 1}),
                                           Span(5, 30, 31, {0})};
  const ShardMoment ahead = At(0, {{"query", Record(Span(6, 40, 41, {0, 1}), earlier)},
                                   {"alone", Record(Span(0, 15, 15, {0, 1}))}});
  const ShardMoment behind = At(1, {{"query", Record(Span(3, 1, 1, {0, 1}))}});
  EXPECT_EQ(UnfinishedJobs({ahead, behind}, kNow)[0],
            (Ranges{{Serial{15}, Serial{15}}, {Serial{20}, Serial{20}}, {Serial{40}, Serial{41}}}))
      << "in the order of serials; job 5 has nothing for the other shard";
}

TEST_F(JobViewsTest, ShardsThatAreNotOpenHereDoNotCount) {
  const ShardMoment only = At(0, {{"j", Record(Span(0, 5, 6, {0, 1}))}});
  EXPECT_TRUE(UnfinishedJobs({only, At(2)}, kNow)[0].empty());
  EXPECT_FALSE(UnfinishedJobs({only, At(1)}, kNow)[0].empty());
}

TEST_F(JobViewsTest, AJobIsHiddenForDaysAndNotForEver) {
  const auto unfinished = [&](WallTime committed_at) {
    const ShardMoment one = At(0, {{"j", Record(Span(0, 5, 6, {0, 1}, committed_at))}});
    return UnfinishedJobs({one, At(1)}, kNow)[0].size();
  };
  EXPECT_EQ(unfinished(kNow - meta::kJobHiddenMax), 1U);
  EXPECT_EQ(unfinished(kNow - meta::kJobHiddenMax - 1us), 0U);
}

TEST_F(JobViewsTest, ShardsAreFarApartIfOneHasForgottenWhatAnotherLacks) {
  std::vector<meta::JobSpan> earlier;
  for (std::uint64_t number = 10; number < 10 + meta::kJobSpansMin; ++number) {
    earlier.push_back(Span(number, number, number, {0, 1}));
  }
  const std::uint64_t last = 10 + meta::kJobSpansMin;
  const ShardMoment ahead = At(0, {{"query", Record(Span(last, 90, 90, {0, 1}), earlier)}});
  const auto at = [&](std::uint64_t number) {
    return At(1, {{"query", Record(Span(number, 1, 1, {0, 1}))}});
  };
  EXPECT_FALSE(AreFarApart({ahead, at(9)}));
  EXPECT_TRUE(AreFarApart({ahead, at(8)})) << "it lacks job 9, which the other does not know now";
  EXPECT_TRUE(AreFarApart({ahead, At(1)}));
  earlier.pop_back();
  EXPECT_FALSE(
      AreFarApart({At(0, {{"query", Record(Span(last, 90, 90, {0, 1}), earlier)}}), At(1)}))
      << "it has forgotten nothing yet";
}

TEST_F(JobViewsTest, ACurtainHidesWhatIsUnfinishedAndNothingElse) {
  const WallTime now = database_.shard(0)->clock().Look().believed_time;
  std::vector<ShardMoment> moments{At(0, {{"j", Record(Span(0, 5, 6, {0, 1}, now))}}), At(1)};
  const std::vector<ShardMoment> before = moments;
  JobCurtain curtain;
  curtain.Hide(&moments);
  EXPECT_EQ(moments[0].view->hidden(), (Ranges{{Serial{5}, Serial{6}}}));
  EXPECT_EQ(moments[0].view->serial(), before[0].view->serial());
  EXPECT_EQ(moments[1].view, before[1].view);
}

TEST_F(JobViewsTest, OfOneShardACurtainHidesNothing) {
  const WallTime now = database_.shard(0)->clock().Look().believed_time;
  std::vector<ShardMoment> moments{At(0, {{"j", Record(Span(0, 5, 6, {0, 1}, now))}})};
  const auto view = moments[0].view;
  JobCurtain().Hide(&moments);
  EXPECT_EQ(moments[0].view, view);
}

// A curtain remembers at which views everything was finished.
TEST_F(JobViewsTest, ACurtainLooksAgainWhenTheJobsHaveChanged) {
  const WallTime now = database_.shard(0)->clock().Look().believed_time;
  const auto job = Record(Span(0, 5, 6, {0, 1}, now));
  JobCurtain curtain;
  std::vector<ShardMoment> moments{At(0, {{"j", job}}), At(1, {{"j", job}})};
  const std::vector<ShardMoment> finished = moments;
  for (int i = 0; i < 2; ++i) {
    curtain.Hide(&moments);
    EXPECT_EQ(moments[0].view, finished[0].view);
    EXPECT_EQ(moments[1].view, finished[1].view);
  }
  moments = {finished[0], At(1, {{"j", job}, {"k", job}})};
  curtain.Hide(&moments);
  EXPECT_TRUE(moments[0].view->hidden().empty());
  EXPECT_EQ(moments[1].view->hidden(), (Ranges{{Serial{5}, Serial{6}}}));
  moments = {finished[0], finished[1], At(2)};
  curtain.Hide(&moments);
  EXPECT_EQ(moments[0].view, finished[0].view);
}

}  // namespace
}  // namespace topicdb
