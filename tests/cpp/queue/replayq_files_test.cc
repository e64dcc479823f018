// OpenReplayqFiles, ReadReplayqFiles and IsReplayqWithoutSegments of queue_files.h.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file/files.h"
#include "fsyncs.h"
#include "queue/log_items.h"
#include "queue/memory_log.h"
#include "queue/queue_files.h"
#include "test_directory.h"

namespace topicdb {
namespace {

// Returns the number of an item, from 1, of a segment.
constexpr std::uint64_t NumberOf(std::uint64_t segment, std::uint64_t item) {
  return (segment << 32) + item;
}

class ReplayqFilesTest : public testing::Test {
 protected:
  ReplayqFilesTest() { std::filesystem::create_directory(queue_); }

  void Commit(std::string_view text) const { ASSERT_TRUE(WriteFileAtomically(commit_, text).ok()); }
  std::string Committed() const { return ReadFile(commit_, 1'000).value(); }
  std::unique_ptr<QueueFiles> Open() const { return OpenReplayqFiles(queue_).value(); }

  const TestDirectory directory_;
  const std::string queue_ = directory_ / "q";
  const std::string commit_ = queue_ + "/COMMIT";
};

TEST_F(ReplayqFilesTest, ANewQueueHasNoCursor) {
  const auto files = Open();
  std::vector<LogDamage> damage;
  EXPECT_TRUE(files->LoadConsumers(&damage)->empty());
  EXPECT_TRUE(damage.empty());
  EXPECT_EQ(files->record().sequence_ceiling, 1U);
  EXPECT_FALSE(files->record_damaged());
}

TEST_F(ReplayqFilesTest, CommitTellsWhatIsAcknowledged) {
  for (const auto& [text, low_water] : std::vector<std::pair<std::string, std::uint64_t>>{
           {"#{id => 2,segno => 1}.\n", NumberOf(1, 3)},
           {"#{segno=>7 , id=>0, more => [x]}.", NumberOf(7, 1)},
           {"#{'id2' => 9,grid => 8,id\n=>\t2,segno => 1}.", NumberOf(1, 3)},
           {"#{id => 4294967295,segno => 4294967295}.", NumberOf(4'294'967'295, 4'294'967'295)},
       }) {
    Commit(text);
    std::vector<LogDamage> damage;
    const auto consumers = Open()->LoadConsumers(&damage).value();
    EXPECT_TRUE(damage.empty()) << text;
    ASSERT_EQ(consumers.size(), 1U) << text;
    EXPECT_EQ(consumers[0]->name(), kDefaultCursor);
    EXPECT_EQ(consumers[0]->low_water(), low_water) << text;
  }
}

TEST_F(ReplayqFilesTest, ACommitThatSaysNothingIsToldAndKept) {
  for (const std::string& text :
       {std::string(), std::string("#{}."), std::string("#{id => x,segno => 1}."),
        std::string("#{id => 1}."), std::string("#{segno => 1}."),
        std::string("#{id => 1,segno => 0}."), std::string("#{id => 1,segno => 4294967296}."),
        std::string("#{id => -1,segno => 1}."), std::string("#{idx => 1,segno => 1}."),
        std::string("#{id => 1,segno => 1}.") + std::string(5'000, ' ')}) {
    Commit(text);
    std::vector<LogDamage> damage;
    EXPECT_TRUE(Open()->LoadConsumers(&damage)->empty()) << text;
    ASSERT_EQ(damage.size(), 1U) << text;
    EXPECT_EQ(damage[0].path, commit_);
    EXPECT_TRUE(Exists(commit_));
  }
}

TEST_F(ReplayqFilesTest, StoresTheLastItemThatIsAcknowledged) {
  const auto files = Open();
  ASSERT_TRUE(files->WriteConsumer(Consumer("default", NumberOf(3, 5)), /*sync=*/true).ok());
  EXPECT_EQ(Committed(), "#{id => 4,segno => 3}.\n");
  std::vector<LogDamage> damage;
  EXPECT_EQ(files->LoadConsumers(&damage).value().at(0)->low_water(), NumberOf(3, 5));
}

TEST_F(ReplayqFilesTest, BeforeTheFirstAppendNothingIsStored) {
  ASSERT_TRUE(Open()->WriteConsumer(Consumer("default", 1), /*sync=*/true).ok());
  EXPECT_FALSE(Exists(commit_));
}

TEST_F(ReplayqFilesTest, WhatIsAcknowledgedOutOfOrderIsNotStored) {
  const auto log = std::make_shared<MemoryLog>(NumberOf(1, 1));
  AppendTo(*log, {"a"});
  AppendTo(*log, {"b"});
  Consumer consumer("default", NumberOf(1, 1));
  ReadReport report;
  ASSERT_TRUE(consumer.Attach(log, /*moved=*/true, &report).ok());
  Delivery popped;
  ASSERT_TRUE(consumer.Pop({}, &popped, &report).ok());
  const auto files = Open();
  const SequenceRange second{NumberOf(1, 2), 1};
  ASSERT_TRUE(consumer.Ack({&second, 1}));
  ASSERT_TRUE(files->WriteConsumer(consumer, /*sync=*/true).ok());
  EXPECT_EQ(Committed(), "#{id => 0,segno => 1}.\n");
  ASSERT_TRUE(consumer.Ack(popped.ranges));
  ASSERT_TRUE(files->WriteConsumer(consumer, /*sync=*/true).ok());
  EXPECT_EQ(Committed(), "#{id => 2,segno => 1}.\n");
}

TEST_F(ReplayqFilesTest, WritesOnlyWhatHasChangedOrHasFailed) {
  const auto files = Open();
  const auto write = [&](std::uint64_t item) {
    return files->WriteConsumer(Consumer("default", NumberOf(1, item)), /*sync=*/false);
  };
  ASSERT_TRUE(write(2).ok());
  ASSERT_TRUE(RemoveFile(commit_).ok());
  ASSERT_TRUE(write(2).ok());
  EXPECT_FALSE(Exists(commit_));
  const std::string missing = directory_ / "missing";
  fsync_needs = missing.c_str();
  EXPECT_EQ(write(3).code(), Code::kStorage);
  fsync_needs = nullptr;
  ASSERT_TRUE(RemoveFile(commit_).ok()) << "its new name may not be safe";
  ASSERT_TRUE(write(3).ok());
  EXPECT_EQ(Committed(), "#{id => 2,segno => 1}.\n");
}

TEST_F(ReplayqFilesTest, ItsRecordIsNotStored) {
  auto files = Open();
  QueueRecord record;
  record.sequence_ceiling = 50;
  ASSERT_TRUE(files->WriteRecord(record).ok());
  EXPECT_EQ(files->record().sequence_ceiling, 50U);
  EXPECT_EQ(ListDirectory(queue_).value(), std::vector<std::string>{"topicdb.lock"});
  files.reset();
  EXPECT_EQ(Open()->record().sequence_ceiling, 1U);
}

TEST_F(ReplayqFilesTest, IsRecognizedWithoutSegments) {
  EXPECT_FALSE(IsReplayqWithoutSegments(queue_, {}));
  EXPECT_FALSE(IsReplayqWithoutSegments(queue_, {"QUEUE", "notes"}));
  EXPECT_TRUE(IsReplayqWithoutSegments(queue_, {"notes", "topicdb.lock"}));
  Commit("#{id => 1,segno => 1}.\n");
  EXPECT_TRUE(IsReplayqWithoutSegments(queue_, {"COMMIT"}));
  Commit("git commit -m 'Change nothing'\n");
  EXPECT_FALSE(IsReplayqWithoutSegments(queue_, {"COMMIT"}));
}

TEST_F(ReplayqFilesTest, LookingTakesNoLock) {
  const auto files = Open();
  Commit("#{id => 1,segno => 1}.\n");
  QueueFilesInfo info;
  ASSERT_TRUE(ReadReplayqFiles(queue_, &info).ok());
  ASSERT_EQ(info.consumers.size(), 1U);
  EXPECT_EQ(info.consumers[0]->low_water(), NumberOf(1, 2));
  EXPECT_FALSE(info.record.has_value());
  Commit("nothing");
  ASSERT_TRUE(ReadReplayqFiles(queue_, &info).ok());
  EXPECT_TRUE(info.consumers.empty());
  EXPECT_EQ(info.damage.size(), 1U);
}

}  // namespace
}  // namespace topicdb
