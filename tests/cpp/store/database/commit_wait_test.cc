#include "store/database/commit_wait.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "test_directory.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

class CommitWaitTest : public ::testing::Test {
 protected:
  ~CommitWaitTest() override { EXPECT_TRUE(database_->Close().ok()); }

  std::shared_ptr<DatabaseImpl> Open(bool read_only) const {
    OpenOptions options;
    options.read_only = read_only;
    auto database = DatabaseImpl::Open(directory_ / "db", options);
    EXPECT_TRUE(database.ok()) << database.status().message();
    return database.value();
  }
  static Status Append(DatabaseImpl& database, std::int64_t timestamp) {
    TOPICDB_ENTER(&database);
    const std::vector<MessageView> messages{{"a", timestamp, "x"}};
    ShardCommit commit;
    commit.messages = messages;
    database.shards().All()[0]->Commit(&commit);
    return commit.status;
  }
  static Result<Serial> LastSerial(DatabaseImpl& database) {
    TOPICDB_ENTER(&database);
    return database.shards().All()[0]->view()->serial();
  }

  const TestDirectory directory_;
  const std::shared_ptr<DatabaseImpl> database_ = Open(/*read_only=*/false);
};

TEST_F(CommitWaitTest, WhatIsThereIsFoundAtOnce) {
  int looks = 0;
  const auto look = [&]() -> Result<bool> { return ++looks == 1; };
  EXPECT_TRUE(LookUntil(database_, std::nullopt, {}, look).ok());
  EXPECT_EQ(looks, 1);
}

TEST_F(CommitWaitTest, WithoutPatienceItLooksOnce) {
  int looks = 0;
  const auto look = [&]() -> Result<bool> { return ++looks > 100; };
  EXPECT_TRUE(LookUntil(database_, 0us, {}, look).ok());
  EXPECT_EQ(looks, 1);
}

TEST_F(CommitWaitTest, AfterTheTimeoutItIsOkAlthoughNothingWasFound) {
  int looks = 0;
  const auto look = [&]() -> Result<bool> { return ++looks < 0; };
  EXPECT_TRUE(LookUntil(database_, 1ms, {}, look).ok());
  EXPECT_GE(looks, 1);
}

TEST_F(CommitWaitTest, AnErrorEndsIt) {
  const auto look = []() -> Result<bool> { return StorageFault("a test"); };
  EXPECT_EQ(LookUntil(database_, std::nullopt, {}, look).code(), Code::kStorage);
}

TEST_F(CommitWaitTest, LooksAgainAfterCommits) {
  std::thread writer([&] {
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(Append(*database_, i).ok());
  });
  Serial last;
  const auto look = [&]() -> Result<bool> {
    TOPICDB_ASSIGN_OR_RETURN(last, LastSerial(*database_));
    return last >= Serial{5};
  };
  EXPECT_TRUE(LookUntil(database_, std::nullopt, {}, look).ok());
  EXPECT_EQ(last, Serial{5});
  writer.join();
}

TEST_F(CommitWaitTest, ItMayBeInterrupted) {
  int looks = 0;
  const auto look = [&]() -> Result<bool> { return ++looks < 0; };
  EXPECT_EQ(
      LookUntil(database_, std::nullopt, [] { return true; }, look).code(), Code::kInterrupted);
  EXPECT_EQ(looks, 1) << "what is there is found all the same";
}

TEST_F(CommitWaitTest, AReaderIsRefreshed) {
  const auto reader = Open(/*read_only=*/true);
  bool was_empty = false;
  const auto look = [&]() -> Result<bool> {
    TOPICDB_ASSIGN_OR_RETURN(const Serial last, LastSerial(*reader));
    if (last > kNoSerial) return true;
    was_empty = true;
    TOPICDB_RETURN_IF_ERROR(Append(*database_, 1));
    return false;
  };
  EXPECT_TRUE(LookUntil(reader, std::nullopt, {}, look).ok());
  EXPECT_TRUE(was_empty);
  EXPECT_TRUE(reader->Close().ok());
}

// A handle may be closed while somebody waits, who then holds no lock.
TEST_F(CommitWaitTest, AReaderThatIsClosedSaysSo) {
  const auto reader = Open(/*read_only=*/true);
  std::thread closer;
  const auto look = [&]() -> Result<bool> {
    if (!closer.joinable()) closer = std::thread([&] { EXPECT_TRUE(reader->Close().ok()); });
    return false;
  };
  EXPECT_EQ(LookUntil(reader, std::nullopt, {}, look).code(), Code::kClosed);
  closer.join();
}

}  // namespace
}  // namespace topicdb
