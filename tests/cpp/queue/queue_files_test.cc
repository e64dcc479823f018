// What both formats share: the names of cursors, and which format a directory has.
#include "queue/queue_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file/files.h"
#include "test_directory.h"

namespace topicdb {
namespace {

using Names = std::vector<std::string>;

class QueueFilesTest : public testing::Test {
 protected:
  Result<std::unique_ptr<QueueFiles>> Open(std::optional<QueueFormat> format = std::nullopt,
                                           QueueMode mode = QueueMode::kDisk) const {
    return QueueFiles::Open(queue_, format, mode);
  }
  // Makes a directory with one file.
  void MakeFile(const std::string& name, std::string_view content) const {
    std::filesystem::create_directory(queue_);
    ASSERT_TRUE(WriteFileAtomically(queue_ + "/" + name, content).ok());
  }
  Names Listed() const { return ListDirectory(queue_).value(); }

  const TestDirectory directory_;
  const std::string queue_ = directory_ / "q";
};

TEST(CursorNames, AreOfCharactersThatFileNamesMayHave) {
  for (const std::string& name :
       {std::string("default"), std::string("A-1_b.c"), std::string(64, 'x')}) {
    EXPECT_TRUE(CheckCursorName(name).ok()) << name;
    EXPECT_EQ(CursorOfFile(name + ".cursor"), name);
  }
  for (const std::string& name :
       {std::string(), std::string(".a"), std::string("a/b"), std::string("a b"),
        std::string("\xc3\xa4"), std::string(1, '\0'), std::string(65, 'x')}) {
    const Status status = CheckCursorName(name);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name;
    EXPECT_NE(status.message().find("'" + name + "'"), std::string::npos) << status.message();
    EXPECT_EQ(CursorOfFile(name + ".cursor"), std::nullopt) << name;
  }
}

TEST(CursorNames, AreNotThoseOfOtherFiles) {
  for (const char* name : {"", "default", "QUEUE", "default.cursor.damaged", "default.cursor.tmp",
                           "0000000000000001.segment"}) {
    EXPECT_EQ(CursorOfFile(name), std::nullopt) << name;
  }
  EXPECT_EQ(CursorOfFile("a.cursor.cursor"), "a.cursor");
}

TEST_F(QueueFilesTest, ANewQueueHasTheFormatThatIsAskedFor) {
  EXPECT_EQ(Open().value()->format(), QueueFormat::kTopicdb);
  EXPECT_EQ(Listed(), (Names{"QUEUE", "QUEUE.lock"}));
  ASSERT_TRUE(RemoveTree(queue_).ok());
  const auto replayq = Open(QueueFormat::kReplayq).value();
  EXPECT_EQ(replayq->format(), QueueFormat::kReplayq);
  EXPECT_EQ(&replayq->segment_format(), &ReplayqSegmentFormat());
  EXPECT_EQ(Listed(), (Names{"topicdb.lock"}));
}

TEST_F(QueueFilesTest, AQueueKeepsItsFormat) {
  for (const QueueFormat format : {QueueFormat::kTopicdb, QueueFormat::kReplayq}) {
    const bool native = format == QueueFormat::kTopicdb;
    ASSERT_TRUE(Open(format).ok());
    EXPECT_EQ(Open().value()->format(), format);
    const Names before = Listed();
    const auto other = Open(native ? QueueFormat::kReplayq : QueueFormat::kTopicdb);
    EXPECT_EQ(other.status().code(), Code::kInvalidArgument);
    EXPECT_NE(other.status().message().find(queue_), std::string::npos) << other.status().message();
    EXPECT_EQ(Listed(), before);
    ASSERT_TRUE(RemoveTree(queue_).ok());
  }
}

TEST_F(QueueFilesTest, ReplayqIsForTheDiskOnly) {
  MakeFile("0000000001.replaylog", "");
  for (const QueueMode mode : {QueueMode::kOffload, QueueMode::kVolatile}) {
    EXPECT_EQ(Open(std::nullopt, mode).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(Open(QueueFormat::kReplayq, mode).status().code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(Listed(), (Names{"0000000001.replaylog"}));
}

TEST_F(QueueFilesTest, ReplayqIsRecognizedByItsSegmentsOrByCommit) {
  MakeFile("0000000001.replaylog", "");
  EXPECT_EQ(Open().value()->format(), QueueFormat::kReplayq);
  ASSERT_TRUE(RemoveTree(queue_).ok());
  MakeFile("COMMIT", "#{id => 1,segno => 1}.\n");
  EXPECT_EQ(Open().value()->format(), QueueFormat::kReplayq);
}

TEST_F(QueueFilesTest, QueueWeighsMoreThanTheNamesOfReplayq) {
  ASSERT_TRUE(Open().ok());
  MakeFile("0000000001.replaylog", "");
  EXPECT_EQ(Open().value()->format(), QueueFormat::kTopicdb);
  EXPECT_EQ(ReadQueueFiles(queue_)->format, QueueFormat::kTopicdb);
}

TEST_F(QueueFilesTest, ADirectoryOfOtherThingsIsNoQueue) {
  MakeFile("notes", "mine");
  EXPECT_EQ(Open().status().code(), Code::kCorruption);
  EXPECT_EQ(ReadQueueFiles(queue_).status().code(), Code::kCorruption);
  EXPECT_EQ(Listed(), (Names{"notes"}));
}

TEST_F(QueueFilesTest, OnlyOneMayHaveAQueueOpen) {
  for (const QueueFormat format : {QueueFormat::kTopicdb, QueueFormat::kReplayq}) {
    {
      const auto files = Open(format).value();
      EXPECT_EQ(Open(format).status().code(), Code::kLocked);
      EXPECT_EQ(ReadQueueFiles(queue_)->format, format) << "looking needs no lock";
    }
    EXPECT_TRUE(Open(format).ok());
    ASSERT_TRUE(RemoveTree(queue_).ok());
  }
}

TEST_F(QueueFilesTest, ParentsAreNotMade) {
  const auto files = QueueFiles::Open(queue_ + "/q", std::nullopt, QueueMode::kDisk);
  EXPECT_EQ(files.status().code(), Code::kStorage);
  EXPECT_FALSE(Exists(queue_));
}

TEST_F(QueueFilesTest, LookingForADirectoryThatIsMissingMakesNone) {
  const Status status = ReadQueueFiles(queue_).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find(queue_), std::string::npos) << status.message();
  EXPECT_FALSE(Exists(queue_));
}

TEST_F(QueueFilesTest, SegmentsWithoutQueueAreAQueueThatIsDamaged) {
  MakeFile("0000000000000001.segment", "");
  EXPECT_EQ(Open().status().code(), Code::kCorruption);
  const QueueFilesInfo info = ReadQueueFiles(queue_).value();
  EXPECT_EQ(info.format, QueueFormat::kTopicdb);
  EXPECT_FALSE(info.record.has_value());
  ASSERT_EQ(info.damage.size(), 1U);
  EXPECT_EQ(info.damage[0].path, queue_ + "/QUEUE");
}

}  // namespace
}  // namespace topicdb
