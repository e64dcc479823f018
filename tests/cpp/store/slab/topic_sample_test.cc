#include "store/slab/topic_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/bytes/hash.h"
#include "rocks/logged_database.h"
#include "store/catalog/meta.h"

namespace topicdb {
namespace {

constexpr SlabId kSlab{0, RetentionClassId{1}, Generation{2}};

using Topics = std::vector<std::string>;

Topics Numbered(std::size_t count) {
  Topics topics;
  for (std::size_t i = 0; i < count; ++i) topics.push_back("site/" + std::to_string(i));
  return topics;
}

Topics Sorted(Topics topics) {
  std::sort(topics.begin(), topics.end());
  return topics;
}

// Returns the topics whose hash begins with this many zero bits.
Topics Below(const Topics& topics, unsigned level) {
  Topics below;
  for (const std::string& topic : topics) {
    if (Hash64(topic) >> (64 - level) == 0) below.push_back(topic);
  }
  return below;
}

class TopicSampleTest : public ::testing::Test {
 protected:
  // Adds topics to the sample, as a commit does. Returns how many records that took.
  std::uint32_t Commit(TopicSample* sample, const Topics& topics, const SlabId& slab = kSlab) {
    TopicSample::Edit edit(*sample);
    for (const std::string& topic : topics) edit.Add(topic, Hash64(topic));
    rocksdb::WriteBatch batch;
    EXPECT_TRUE(edit.Write(slab, Serial{++serial_}, &batch).ok());
    EXPECT_TRUE(database_.db().Write({}, &batch).ok());
    sample->Apply(edit);
    return batch.Count();
  }
  Topics Read(const SlabId& slab = kSlab) {
    auto topics = TopicSample::ReadTopics(&database_.db(), slab);
    EXPECT_TRUE(topics.ok()) << topics.status().message();
    return topics.ok() ? Sorted(std::move(topics).value()) : Topics();
  }

  rocks::LoggedDatabase database_;
  std::uint64_t serial_ = 0;
};

TEST_F(TopicSampleTest, StoresEachTopicOnce) {
  TopicSample sample;
  EXPECT_EQ(Commit(&sample, {"b", "a", "b"}), 1U);
  EXPECT_EQ(Commit(&sample, {"a", "b"}), 0U) << "nothing is new";
  EXPECT_EQ(Commit(&sample, {"a", "c"}), 1U);
  EXPECT_EQ(Read(), (Topics{"a", "b", "c"}));
}

TEST_F(TopicSampleTest, LeavesOutTopicsThatAreTooLong) {
  const std::string longest(TopicSample::kTopicBytesMax, 'x');
  TopicSample sample;
  EXPECT_EQ(Commit(&sample, {longest + "x"}), 0U);
  EXPECT_EQ(Commit(&sample, {longest + "x", longest}), 1U);
  EXPECT_EQ(Read(), Topics{longest});
}

TEST_F(TopicSampleTest, WhatWasNotAppliedIsNotInIt) {
  TopicSample sample;
  TopicSample::Edit edit(sample);
  edit.Add("a", Hash64("a"));
  EXPECT_EQ(Commit(&sample, {"a"}), 1U) << "the write of the edit may have failed";
}

TEST_F(TopicSampleTest, OfTooManyTopicsKeepsThoseOfTheNextLevel) {
  const Topics all = Numbered(TopicSample::kTopicsMax + 1);
  TopicSample sample;
  const Topics most(all.begin(), all.end() - 1);
  EXPECT_EQ(Commit(&sample, most), 1U);
  EXPECT_EQ(Read(), Sorted(most)) << "as many as there may be";
  EXPECT_EQ(Commit(&sample, {all.back()}), 2U) << "the topics, and the level";
  EXPECT_EQ(Read(), Sorted(Below(all, 1)));
  const Topics left_out = {*std::find_if(
      all.begin(), all.end(), [](const std::string& topic) { return Hash64(topic) >> 63 != 0; })};
  EXPECT_EQ(Commit(&sample, left_out), 0U);
  EXPECT_EQ(Read().size(), Below(all, 1).size());
}

TEST_F(TopicSampleTest, OneCommitMayRaiseTheLevelByMoreThanOne) {
  const Topics all = Numbered(4 * TopicSample::kTopicsMax);
  TopicSample sample;
  EXPECT_EQ(Commit(&sample, all), 2U);
  unsigned level = 1;
  while (Below(all, level).size() > TopicSample::kTopicsMax) ++level;
  ASSERT_GT(level, 1U);
  EXPECT_EQ(Read(), Sorted(Below(all, level)));
}

TEST_F(TopicSampleTest, DoesNotDependOnTheOrderOfTopics) {
  Topics topics = Numbered(3 * TopicSample::kTopicsMax);
  constexpr SlabId kOther{0, RetentionClassId{1}, Generation{3}};
  TopicSample forward;
  TopicSample backward;
  const std::size_t step = topics.size() / 6;
  for (std::size_t begin = 0; begin < topics.size(); begin += step) {
    const auto from = topics.begin() + static_cast<std::ptrdiff_t>(begin);
    Commit(&forward, {from, from + static_cast<std::ptrdiff_t>(step)});
  }
  std::reverse(topics.begin(), topics.end());
  Commit(&backward, topics, kOther);
  EXPECT_EQ(Read(), Read(kOther));
  EXPECT_GT(Read().size(), TopicSample::kTopicsMax / 3);
}

TEST_F(TopicSampleTest, IsTheSameAfterItWasLoaded) {
  const Topics all = Numbered(TopicSample::kTopicsMax + 100);
  TopicSample sample;
  Commit(&sample, all);
  TopicSample loaded;
  ASSERT_TRUE(loaded.Load(&database_.db(), kSlab).ok());
  EXPECT_EQ(Commit(&loaded, all), 0U) << "it has these, or they are above its level";
  const Topics more = Numbered(2 * TopicSample::kTopicsMax);
  Commit(&loaded, more);
  unsigned level = 1;
  while (Below(more, level).size() > TopicSample::kTopicsMax) ++level;
  EXPECT_EQ(Read(), Sorted(Below(more, level))) << "it counts what it had";
}

TEST_F(TopicSampleTest, OfAnotherSlabHasNothingOfThisOne) {
  TopicSample sample;
  Commit(&sample, {"a"});
  constexpr SlabId kNext{0, RetentionClassId{1}, Generation{3}};
  EXPECT_TRUE(Read(kNext).empty());
  TopicSample next;
  ASSERT_TRUE(next.Load(&database_.db(), kNext).ok());
  EXPECT_EQ(Commit(&next, {"a"}, kNext), 1U);
  ASSERT_TRUE(
      database_.db().DeleteRange({}, meta::SampleLevelKey(kSlab), meta::SampleEnd(kSlab)).ok());
  EXPECT_TRUE(Read().empty());
  EXPECT_EQ(Read(kNext), Topics{"a"});
}

TEST_F(TopicSampleTest, RefusesRecordsThatAreMalformed) {
  TopicSample sample;
  Commit(&sample, {"a"});
  for (const std::string& key : {meta::SampleLevelKey(kSlab), meta::SampleKey(kSlab, Serial{9})}) {
    ASSERT_TRUE(database_.db().Put({}, key, "no record").ok());
    TopicSample loaded;
    EXPECT_EQ(loaded.Load(&database_.db(), kSlab).code(), Code::kCorruption);
    EXPECT_EQ(TopicSample::ReadTopics(&database_.db(), kSlab).status().code(), Code::kCorruption);
    ASSERT_TRUE(database_.db().Delete({}, key).ok());
  }
  EXPECT_EQ(Read(), Topics{"a"});
}

}  // namespace
}  // namespace topicdb
