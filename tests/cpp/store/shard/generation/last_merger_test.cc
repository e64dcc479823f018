// Tests what keep_last keeps while others write, delete and read. Runs under ThreadSanitizer, too.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "test_directory.h"
#include "topicdb/database.h"
#include "topicdb/verify.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

class MergeLast : public testing::TestWithParam<LayoutKind> {
 protected:
  std::unique_ptr<Database> Open(std::uint32_t keep_last) {
    OpenOptions options;
    options.schema.layout = GetParam();
    options.schema.retention = {{"#", 0us, 0, 1us, keep_last}};
    options.maintenance_interval = std::chrono::microseconds(0);
    auto database = Database::Open(directory_ / "db", options);
    EXPECT_TRUE(database.ok()) << database.status().message();
    return std::move(database).value();
  }

  static Result<Receipt> Append(Database& database, const std::vector<MessageView>& messages) {
    return database.Append(messages);
  }

  static std::multimap<std::string, std::int64_t> Times(const Database& database) {
    std::multimap<std::string, std::int64_t> times;
    auto scan = database.NewScan(Filter::Parse("#").value(), {});
    EXPECT_TRUE(scan.ok());
    while (true) {
      auto batch = scan.value()->Next({1'000, 1 << 20});
      EXPECT_TRUE(batch.ok()) << batch.status().message();
      if (!batch.ok() || *batch == nullptr) return times;
      for (std::size_t row = 0; row < (*batch)->size(); ++row) {
        times.emplace((*batch)->topic(row), (*batch)->timestamp(row));
      }
    }
  }

  // Runs maintenance, each time a day later.
  Result<Maintenance> Maintain(Database& database) {
    now_ += 24h;
    return database.upkeep().Maintain(now_);
  }

  const TestDirectory directory_;
  WallTime now_{4'000'000'000s};
};

TEST_P(MergeLast, OfEachTopicTheLastAreKept) {
  auto database = Open(2);
  for (std::int64_t round = 1; round <= 4; ++round) {
    ASSERT_TRUE(Append(*database, {{"a", round * 10, "x"}, {"a", round * 10 + 1, "y"}}).ok());
    if (round == 1) {
      ASSERT_TRUE(Append(*database, {{"b", 5, "z"}}).ok());
    }
    const auto done = Maintain(*database);
    ASSERT_TRUE(done.ok()) << done.status().message();
    EXPECT_EQ(done->rotated, 1U);
    EXPECT_EQ(done->dropped.size(), 1U);
    EXPECT_EQ(done->kept, 3U);
    EXPECT_EQ(Times(*database), (std::multimap<std::string, std::int64_t>{
                                    {"a", round * 10}, {"a", round * 10 + 1}, {"b", 5}}));
  }
  EXPECT_EQ(Maintain(*database)->dropped.size(), 0U);  // no message is new
  database.reset();
  EXPECT_EQ(Times(*Open(2)).size(), 3U);
}

TEST_P(MergeLast, WhatIsDeletedMeanwhileDoesNotComeBack) {
  const auto database = Open(1);
  constexpr int kTopics = 40;
  std::atomic<bool> done = false;
  std::atomic<std::uint64_t> merged = 0;
  std::thread janitor([&] {
    while (!done) {
      const auto maintained = Maintain(*database);
      EXPECT_TRUE(maintained.ok()) << maintained.status().message();
      if (maintained.ok()) merged += maintained->dropped.size();
    }
  });
  std::thread reader([&] {
    while (!done) Times(*database);
  });
  // Each topic in turn gets a message, and every third time a topic loses all of its messages. This
  // goes on until the janitor has merged something meanwhile.
  std::set<std::string> left;
  for (int i = 0; i < 400 || merged == 0; ++i) {
    const std::string topic = "t/" + std::to_string(i % kTopics);
    EXPECT_TRUE(Append(*database, {{topic, i, "value"}}).ok());
    left.insert(topic);
    if (i % 3 != 0) continue;
    const std::string gone = "t/" + std::to_string((i * 7) % kTopics);
    EXPECT_TRUE(database->Delete(Filter::Parse(gone).value(), {}).ok());
    left.erase(gone);
  }
  done = true;
  janitor.join();
  reader.join();
  ASSERT_TRUE(Maintain(*database).ok());
  ASSERT_TRUE(Maintain(*database).ok());
  std::set<std::string> found;
  const auto times = Times(*database);
  for (const auto& [topic, time] : times) found.insert(topic);
  EXPECT_EQ(found, left);
  EXPECT_EQ(times.size(), left.size());  // one message of each topic
}

TEST_P(MergeLast, ClosingMeanwhileLeavesTheOnesOrTheOther) {
  auto database = Open(1);
  for (int i = 0; i < 40; ++i) {
    std::vector<MessageView> messages;
    std::vector<std::string> topics;
    for (int k = 0; k < 1'000; ++k) topics.push_back("t/" + std::to_string(k));
    for (const std::string& topic : topics) messages.push_back({topic, i, "value"});
    ASSERT_TRUE(database->Append(messages).ok());
  }
  std::thread janitor([&] {
    const auto done = Maintain(*database);
    EXPECT_TRUE(done.ok() || done.status().code() == Code::kInterrupted ||
                done.status().code() == Code::kClosed)
        << done.status().message();
  });
  EXPECT_TRUE(database->Close().ok());
  janitor.join();
  const auto times = Times(*Open(1));
  EXPECT_TRUE(times.size() == 40'000U || times.size() == 1'000U) << times.size();
}

// Generations of both layouts in turn, from either one on.
TEST_P(MergeLast, OfGenerationsOfBothLayoutsALogIsMade) {
  auto database = Open(2);
  const LayoutKind other =
      GetParam() == LayoutKind::kColumnar ? LayoutKind::kSkipstream : LayoutKind::kColumnar;
  std::vector<std::string> topics;
  for (int i = 0; i < 300; ++i) topics.push_back("t/" + std::to_string(i));
  for (std::int64_t round = 1; round <= 4; ++round) {
    // Commits come in another order than topics.
    for (int part = 2; part >= 0; --part) {
      std::vector<MessageView> messages;
      for (std::size_t i = static_cast<std::size_t>(part); i < topics.size(); i += 3) {
        messages.push_back({topics[i], 10 * round, "value"});
      }
      ASSERT_TRUE(Append(*database, messages).ok());
    }
    const auto done = Maintain(*database);
    ASSERT_TRUE(done.ok()) << done.status().message();
    EXPECT_EQ(done->kept, round == 1 ? 300U : 600U);
    const auto slabs = database->upkeep().Slabs().value();
    const bool has_log = round > 1 || GetParam() == LayoutKind::kColumnar;
    EXPECT_EQ(slabs.front().keep_last, 2U);
    EXPECT_EQ(slabs.front().layout, has_log ? LayoutKind::kColumnar : LayoutKind::kSkipstream);
    const LayoutKind next = round % 2 == 1 ? other : GetParam();
    ASSERT_TRUE(database->upkeep().Rotate(std::nullopt, false, next).ok());
  }
  const auto times = Times(*database);
  EXPECT_EQ(times.size(), 600U);
  for (const auto& [topic, time] : times) EXPECT_TRUE(time == 30 || time == 40) << topic;
  database.reset();
  EXPECT_EQ(Times(*Open(2)).size(), 600U);
  EXPECT_TRUE(VerifyDatabase(directory_ / "db", {})->problems.empty());
}

// In a log each of them is kept, whatever generations came later.
TEST_P(MergeLast, MessagesOfOneTopicAndTimeStayApartIfALogHadThem) {
  const auto database = Open(3);
  ASSERT_TRUE(database->upkeep().Rotate(std::nullopt, false, LayoutKind::kColumnar).ok());
  ASSERT_TRUE(Append(*database, {{"a", 1, "x"}, {"a", 1, "y"}}).ok());
  ASSERT_TRUE(database->upkeep().Rotate(std::nullopt, false, LayoutKind::kSkipstream).ok());
  ASSERT_TRUE(Append(*database, {{"a", 1, "replaced"}, {"a", 1, "z"}}).ok());
  EXPECT_EQ(Times(*database).size(), 3U);
  ASSERT_TRUE(Maintain(*database).ok());
  EXPECT_EQ(Times(*database).size(), 3U);
  ASSERT_TRUE(Append(*database, {{"a", 1, "later"}}).ok());
  EXPECT_EQ(Times(*database).size(), 4U) << "what was merged into a log is not replaced";
  ASSERT_TRUE(Maintain(*database).ok());
  EXPECT_EQ(Times(*database).size(), 3U) << "the last three";
}

INSTANTIATE_TEST_SUITE_P(Layouts, MergeLast,
                         testing::Values(LayoutKind::kSkipstream, LayoutKind::kColumnar),
                         [](const auto& layout) { return std::string(NameOf(layout.param)); });

}  // namespace
}  // namespace topicdb
