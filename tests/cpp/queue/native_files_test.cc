// OpenNativeFiles, ReadNativeFiles and WriteNativeRecord of queue_files.h.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file/files.h"
#include "queue/queue_files.h"
#include "segment/segment_files.h"
#include "segment/slot_file.h"
#include "test_directory.h"

namespace topicdb {
namespace {

constexpr std::uint64_t kFirstCopy = 40;  // in the content of a slot
constexpr std::uint64_t kSecondCopy = 512 + 40;

class NativeFilesTest : public testing::Test {
 protected:
  NativeFilesTest() { std::filesystem::create_directory(queue_); }

  std::unique_ptr<QueueFiles> Open() const {
    auto files = OpenNativeFiles(queue_);
    EXPECT_TRUE(files.ok()) << files.status().message();
    return std::move(files).value();
  }
  std::string PathOf(const std::string& name) const { return queue_ + "/" + name; }
  // Stores cursors of which nothing is in flight.
  static void Store(QueueFiles& files, const std::string& name, std::uint64_t next) {
    EXPECT_TRUE(files.WriteConsumer(Consumer(name, next), /*sync=*/false).ok());
  }
  // Returns the names and low-water marks of the stored cursors.
  static std::vector<std::pair<std::string, std::uint64_t>> Load(QueueFiles& files,
                                                                 std::vector<LogDamage>* damage) {
    const auto consumers = files.LoadConsumers(damage);
    EXPECT_TRUE(consumers.ok()) << consumers.status().message();
    return Marks(*consumers);
  }
  static std::vector<std::pair<std::string, std::uint64_t>> Marks(
      const std::vector<std::unique_ptr<Consumer>>& consumers) {
    std::vector<std::pair<std::string, std::uint64_t>> marks;
    for (const auto& consumer : consumers) {
      marks.emplace_back(consumer->name(), consumer->low_water());
    }
    return marks;
  }

  using Cursors = std::vector<std::pair<std::string, std::uint64_t>>;

  const TestDirectory directory_;
  const std::string queue_ = directory_ / "q";
  std::vector<LogDamage> damage_;
};

void ExpectSame(const QueueRecord& record, const QueueRecord& expected) {
  EXPECT_EQ(record.id, expected.id);
  EXPECT_EQ(record.created_at, expected.created_at);
  EXPECT_EQ(record.sequence_ceiling, expected.sequence_ceiling);
  EXPECT_EQ(record.weighed, expected.weighed);
  ASSERT_EQ(record.closed_end.has_value(), expected.closed_end.has_value());
  if (!record.closed_end.has_value()) return;
  EXPECT_EQ(record.closed_end->segment, expected.closed_end->segment);
  EXPECT_EQ(record.closed_end->end.offset, expected.closed_end->end.offset);
  EXPECT_EQ(record.closed_end->end.sequence, expected.closed_end->end.sequence);
  EXPECT_EQ(record.closed_end->end.payload_bytes, expected.closed_end->end.payload_bytes);
  EXPECT_EQ(record.closed_end->end.weight, expected.closed_end->end.weight);
}

TEST_F(NativeFilesTest, ANewQueueCountsAsClosed) {
  auto files = Open();
  const QueueRecord record = files->record();
  EXPECT_NE(record.id, QueueId{});
  EXPECT_EQ(record.sequence_ceiling, 1U);
  ASSERT_TRUE(record.closed_end.has_value());
  EXPECT_EQ(record.closed_end->segment, 0U);
  EXPECT_EQ(record.closed_end->end.sequence, 1U);
  EXPECT_FALSE(files->record_damaged());
  EXPECT_TRUE(Load(*files, &damage_).empty());
  files.reset();
  ExpectSame(Open()->record(), record);
  std::filesystem::create_directory(directory_ / "other");
  EXPECT_NE(OpenNativeFiles(directory_ / "other").value()->record().id, record.id);
}

TEST_F(NativeFilesTest, KeepsTheRecordThatWasWrittenLast) {
  QueueRecord record{QueueId{1, 2, 3}, TimeAt<WallTime>(1'700'000'000'000'000), 77, std::nullopt};
  for (const int step : {0, 1, 2, 3}) {
    record.weighed = step >= 2;
    record.closed_end.reset();
    if (step == 1) record.closed_end = LogEnd{4, {1'000, 77, 500}};
    if (step == 3) record.closed_end = LogEnd{4, {1'000, 77, 500, 123'456}};
    auto files = Open();
    ASSERT_TRUE(files->WriteRecord(record).ok());
    ExpectSame(files->record(), record);
    files.reset();
    ExpectSame(Open()->record(), record);
  }
}

TEST_F(NativeFilesTest, OneCopyOfTheRecordMayBeDamaged) {
  Open();
  for (const std::uint64_t copy : {kFirstCopy, kSecondCopy}) {
    FlipBit(PathOf("QUEUE"), copy);
    EXPECT_TRUE(Open()->record_damaged()) << copy;
    FlipBit(PathOf("QUEUE"), copy);
  }
  EXPECT_FALSE(Open()->record_damaged());
  FlipBit(PathOf("QUEUE"), kFirstCopy);
  FlipBit(PathOf("QUEUE"), kSecondCopy);
  const Status status = OpenNativeFiles(queue_).status();
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find("QUEUE"), std::string::npos) << status.message();
}

TEST_F(NativeFilesTest, ARecordThatIsMalformedIsNotRead) {
  const std::string id(16, 'i');
  const std::string end(4, '\0');
  const std::string open = id + std::string("\x05\x07\x01", 3) + end;
  for (const std::string& content :
       {id, open + "x", open.substr(0, open.size() - 1), id + std::string("\x05\x00\x01", 3) + end,
        id + std::string("\x05\x07\x03", 3) + end}) {
    ASSERT_TRUE(SlotFile::Create(PathOf("QUEUE"), "TDBQUEU\n", content).ok());
    EXPECT_EQ(OpenNativeFiles(queue_).status().code(), Code::kCorruption);
  }
  ASSERT_TRUE(SlotFile::Create(PathOf("QUEUE"), "TDBQUEU\n", open).ok());
  EXPECT_EQ(Open()->record().sequence_ceiling, 7U);
}

TEST_F(NativeFilesTest, AProcessMayEndBeforeItMakesTheRecord) {
  ASSERT_TRUE(WriteFileAtomically(PathOf("QUEUE.lock"), "").ok());
  ASSERT_TRUE(WriteFileAtomically(PathOf("QUEUE.tmp"), "a part").ok());
  EXPECT_EQ(Open()->record().sequence_ceiling, 1U);
}

TEST_F(NativeFilesTest, OtherFilesWithoutTheRecordAreNotTouched) {
  ASSERT_TRUE(WriteFileAtomically(PathOf("default.cursor"), "mine").ok());
  const Status status = OpenNativeFiles(queue_).status();
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find("topicdb queue repair"), std::string::npos) << status.message();
  EXPECT_EQ(ListDirectory(queue_).value(), std::vector<std::string>{"default.cursor"});
}

TEST_F(NativeFilesTest, KeepsCursors) {
  auto files = Open();
  Store(*files, "b", 5);
  Store(*files, "a", 7);
  Store(*files, "b", 6);
  files.reset();
  files = Open();
  EXPECT_EQ(Load(*files, &damage_), (Cursors{{"a", 7}, {"b", 6}}));
  Store(*files, "a", 8);
  EXPECT_EQ(Load(*files, &damage_), (Cursors{{"a", 8}, {"b", 6}}));
  EXPECT_TRUE(damage_.empty());
}

TEST_F(NativeFilesTest, ARemovedCursorIsGone) {
  const auto files = Open();
  Store(*files, "a", 5);
  ASSERT_TRUE(files->RemoveConsumer("a").ok());
  EXPECT_TRUE(files->RemoveConsumer("a").ok()) << "there is none";
  EXPECT_TRUE(Load(*files, &damage_).empty());
  Store(*files, "a", 9);
  EXPECT_EQ(Load(*files, &damage_), (Cursors{{"a", 9}}));
}

TEST_F(NativeFilesTest, ADamagedCursorBeginsWithTheOldestItem) {
  auto files = Open();
  Store(*files, "a", 5);
  Store(*files, "b", 6);
  files.reset();
  files = Open();
  FlipBit(PathOf("a.cursor"), kFirstCopy);
  FlipBit(PathOf("a.cursor"), kSecondCopy);
  EXPECT_EQ(Load(*files, &damage_), (Cursors{{"a", 0}, {"b", 6}}));
  ASSERT_EQ(damage_.size(), 1U);
  EXPECT_EQ(damage_[0].path, PathOf("a.cursor"));
  EXPECT_FALSE(Exists(PathOf("a.cursor")));
  EXPECT_TRUE(Exists(PathOf("a.cursor.damaged")));
  ASSERT_TRUE(SlotFile::Create(PathOf("c.cursor"), "TDBCURS\n", "malformed").ok());
  EXPECT_EQ(Load(*files, &damage_), (Cursors{{"b", 6}, {"c", 0}}));
  EXPECT_EQ(damage_.size(), 2U);
}

TEST_F(NativeFilesTest, OneCopyOfACursorMayBeDamaged) {
  const auto files = Open();
  Store(*files, "a", 5);
  FlipBit(PathOf("a.cursor"), kFirstCopy);
  EXPECT_EQ(Load(*files, &damage_), (Cursors{{"a", 5}}));
  ASSERT_EQ(damage_.size(), 1U);
  EXPECT_NE(damage_[0].what.find("one of its copies"), std::string::npos) << damage_[0].what;
  EXPECT_TRUE(Exists(PathOf("a.cursor")));
}

TEST_F(NativeFilesTest, LookingChangesNothing) {
  const auto files = Open();
  Store(*files, "a", 5);
  Store(*files, "b", 6);
  QueueFilesInfo info;
  ASSERT_TRUE(ReadNativeFiles(queue_, &info).ok());
  ASSERT_TRUE(info.record.has_value());
  ExpectSame(*info.record, files->record());
  EXPECT_EQ(Marks(info.consumers), (Cursors{{"a", 5}, {"b", 6}}));
  EXPECT_TRUE(info.damage.empty());
  for (const char* name : {"QUEUE", "a.cursor"}) {
    FlipBit(PathOf(name), kFirstCopy);
    FlipBit(PathOf(name), kSecondCopy);
  }
  FlipBit(PathOf("b.cursor"), kFirstCopy);
  const auto before = ListDirectory(queue_).value();
  QueueFilesInfo damaged;
  ASSERT_TRUE(ReadNativeFiles(queue_, &damaged).ok());
  EXPECT_FALSE(damaged.record.has_value());
  EXPECT_EQ(Marks(damaged.consumers), (Cursors{{"b", 6}}));
  ASSERT_EQ(damaged.damage.size(), 3U);
  EXPECT_EQ(damaged.damage[0].path, PathOf("QUEUE"));
  EXPECT_EQ(damaged.damage[1].path, PathOf("a.cursor"));
  EXPECT_EQ(damaged.damage[2].path, PathOf("b.cursor"));
  EXPECT_EQ(ListDirectory(queue_).value(), before);
}

TEST_F(NativeFilesTest, ADamagedRecordIsRewrittenUnlessTheQueueIsOpen) {
  const QueueRecord record{QueueId{9}, TimeAt<WallTime>(5), 1'000, std::nullopt};
  {
    const auto files = Open();
    EXPECT_EQ(WriteNativeRecord(queue_, record).code(), Code::kLocked);
  }
  ASSERT_TRUE(WriteFileAtomically(PathOf("QUEUE"), "garbage").ok());
  ASSERT_TRUE(WriteNativeRecord(queue_, record).ok());
  ExpectSame(Open()->record(), record);
}

}  // namespace
}  // namespace topicdb
