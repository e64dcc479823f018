#include "topicdb/queue_inspector.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/file/files.h"
#include "segment/segment_files.h"
#include "test_directory.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;
using NumberedItems = std::vector<std::pair<std::uint64_t, std::string>>;

class QueueInspectorTest : public testing::Test {
 protected:
  // Makes a queue: "a" is acknowledged, "b" is in flight, "c" was not popped. Returns it open.
  std::unique_ptr<Queue> MakeQueue() const {
    QueueOptions options;
    options.flush_interval = 1h;  // nobody writes beside this thread
    auto queue = Queue::Open(queue_, options).value();
    const std::vector<std::string_view> first{"a", "b"};
    const std::vector<std::string_view> second{"c"};
    EXPECT_TRUE(queue->Append(first).ok());
    EXPECT_TRUE(queue->Append(second).ok());
    const auto cursor = queue->Cursor(std::string(kDefaultCursor)).value();
    EXPECT_TRUE(cursor->Ack(cursor->Pop({1}, 0ms)->ranges).ok());
    EXPECT_EQ(cursor->Pop({1}, 0ms)->items.size(), 1U);
    return queue;
  }
  void MakeClosedQueue() const { ASSERT_TRUE(MakeQueue()->Close().ok()); }
  std::unique_ptr<QueueInspector> Inspect() const {
    auto inspector = QueueInspector::Open(queue_);
    EXPECT_TRUE(inspector.ok()) << inspector.status().message();
    return std::move(inspector).value();
  }
  static NumberedItems ReadAll(QueueInspector& inspector) {
    NumberedItems all;
    while (true) {
      const auto items = inspector.Next().value();
      if (items.empty()) return all;
      all.insert(all.end(), items.begin(), items.end());
    }
  }
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    const auto names = ListDirectory(queue_).value();
    for (const std::string& name : names) files[name] = ReadFile(PathOf(name), 1 << 20).value();
    return files;
  }
  std::string PathOf(const std::string& name) const { return queue_ + "/" + name; }
  std::string SegmentPath() const { return PathOf("0000000000000001.segment"); }

  const TestDirectory directory_;
  const std::string queue_ = directory_ / "q";
};

TEST_F(QueueInspectorTest, TellsWhatAClosedQueueHas) {
  MakeClosedQueue();
  const auto before = Files();
  const auto inspector = Inspect();
  const QueueInfo& info = inspector->info();
  EXPECT_EQ(info.format, QueueFormat::kTopicdb);
  EXPECT_TRUE(info.closed);
  EXPECT_TRUE(info.damage.empty());
  ASSERT_EQ(info.segments.size(), 1U);
  EXPECT_EQ(info.segments[0].path, SegmentPath());
  EXPECT_EQ(info.segments[0].number, 1U);
  EXPECT_EQ(info.segments[0].items, (SequenceRange{1, 3}));
  EXPECT_EQ(info.segments[0].bytes, before.at("0000000000000001.segment").size());
  EXPECT_FALSE(info.segments[0].sealed) << "the next process goes on with it";
  ASSERT_EQ(info.cursors.size(), 1U);
  EXPECT_EQ(info.cursors[0].name, kDefaultCursor);
  EXPECT_EQ(info.cursors[0].low_water, 2U);
  EXPECT_EQ(info.cursors[0].next_sequence, 3U);
  EXPECT_EQ(info.cursors[0].unacknowledged, 1U);
  EXPECT_EQ(ReadAll(*inspector), (NumberedItems{{1, "a"}, {2, "b"}, {3, "c"}}));
  EXPECT_TRUE(inspector->Next()->empty()) << "still at the end";
  EXPECT_EQ(Files(), before);
}

TEST_F(QueueInspectorTest, MayBeUsedBesideAWriter) {
  const auto queue = MakeQueue();
  const auto inspector = Inspect();
  EXPECT_FALSE(inspector->info().closed);
  EXPECT_EQ(ReadAll(*inspector).size(), 3U);
  EXPECT_TRUE(inspector->info().damage.empty());
  const std::vector<std::string_view> more{"d"};
  EXPECT_TRUE(queue->Append(more).ok());
  EXPECT_EQ(ReadAll(*Inspect()).size(), 4U);
}

TEST_F(QueueInspectorTest, DamageToItemsIsKnownOnceTheyAreRead) {
  MakeClosedQueue();
  FlipBit(SegmentPath(), 64 + 32);  // in the body of the first frame
  const auto inspector = Inspect();
  EXPECT_TRUE(inspector->info().damage.empty());
  EXPECT_EQ(ReadAll(*inspector), (NumberedItems{{3, "c"}}));
  ASSERT_EQ(inspector->info().damage.size(), 1U);
  const QueueDamage& damage = inspector->info().damage[0];
  EXPECT_EQ(damage.path, SegmentPath());
  EXPECT_EQ(damage.what, "40 bytes at offset 64 are damaged");
  EXPECT_EQ(damage.items, (SequenceRange{1, 2}));
}

TEST_F(QueueInspectorTest, ReadsTheSegmentsOfAQueueWhoseRecordIsDamaged) {
  MakeClosedQueue();
  ASSERT_TRUE(WriteFileAtomically(PathOf("QUEUE"), "garbage").ok());
  const auto inspector = Inspect();
  EXPECT_FALSE(inspector->info().closed);
  EXPECT_EQ(ReadAll(*inspector).size(), 3U);
  ASSERT_EQ(inspector->info().damage.size(), 1U);
  EXPECT_EQ(inspector->info().damage[0].path, PathOf("QUEUE"));
}

TEST_F(QueueInspectorTest, ReadsQueuesOfReplayq) {
  std::filesystem::create_directory(queue_);
  const SegmentFormat& format = ReplayqSegmentFormat();
  const std::uint64_t first = format.FirstSequence(1, 0);
  WriteSegment(PathOf("0000000001.replaylog"), format, {1, first, 0, {}}, {{"a", "b"}}, true);
  ASSERT_TRUE(WriteFileAtomically(PathOf("COMMIT"), "#{id => 1,segno => 1}.\n").ok());
  const auto inspector = Inspect();
  EXPECT_EQ(inspector->info().format, QueueFormat::kReplayq);
  EXPECT_FALSE(inspector->info().closed);
  ASSERT_EQ(inspector->info().cursors.size(), 1U);
  EXPECT_EQ(inspector->info().cursors[0].low_water, first + 1);
  EXPECT_EQ(ReadAll(*inspector), (NumberedItems{{first, "a"}, {first + 1, "b"}}));
  EXPECT_FALSE(Exists(PathOf("topicdb.lock")));
}

TEST_F(QueueInspectorTest, ADirectoryThatIsMissingIsNotFound) {
  EXPECT_EQ(QueueInspector::Open(queue_).status().code(), Code::kNotFound);
  EXPECT_EQ(RepairQueue(queue_).status().code(), Code::kNotFound);
}

TEST_F(QueueInspectorTest, ADirectoryOfOtherThingsIsNoQueue) {
  std::filesystem::create_directory(queue_);
  EXPECT_EQ(QueueInspector::Open(queue_).status().code(), Code::kCorruption);
  EXPECT_EQ(RepairQueue(queue_).status().code(), Code::kCorruption);
  EXPECT_TRUE(Files().empty());
}

TEST_F(QueueInspectorTest, RepairsAQueueWithoutItsRecord) {
  for (const bool missing : {true, false}) {
    MakeClosedQueue();
    if (missing) {
      ASSERT_TRUE(RemoveFile(PathOf("QUEUE")).ok());
    } else {
      ASSERT_TRUE(WriteFileAtomically(PathOf("QUEUE"), "garbage").ok());
    }
    ASSERT_EQ(Queue::Open(queue_, {}).status().code(), Code::kCorruption);
    const auto damage = RepairQueue(queue_).value();
    ASSERT_EQ(damage.size(), 1U);
    EXPECT_EQ(damage[0].path, PathOf("QUEUE"));
    const auto queue = Queue::Open(queue_, {}).value();
    const auto cursor = queue->Cursor(std::string(kDefaultCursor)).value();
    const Delivery popped = cursor->Pop({}, 0ms).value();
    EXPECT_EQ(popped.items, (std::vector<std::string_view>{"b", "c"}));
    const std::vector<std::string_view> items{"d"};
    EXPECT_GT(queue->Append(items)->items.first, std::uint64_t{1} << 32)
        << "numbers that were given away are not used again";
    ASSERT_TRUE(queue->Close().ok());
    ASSERT_TRUE(RemoveTree(queue_).ok());
  }
}

TEST_F(QueueInspectorTest, RepairingAWholeQueueChangesNoItem) {
  MakeClosedQueue();
  EXPECT_TRUE(RepairQueue(queue_)->empty());
  const auto inspector = Inspect();
  EXPECT_TRUE(inspector->info().closed);
  EXPECT_EQ(ReadAll(*inspector).size(), 3U);
}

TEST_F(QueueInspectorTest, AQueueThatIsOpenIsNotRepaired) {
  const auto queue = MakeQueue();
  EXPECT_EQ(RepairQueue(queue_).status().code(), Code::kLocked);
  ASSERT_TRUE(RemoveFile(PathOf("QUEUE")).ok());
  EXPECT_EQ(RepairQueue(queue_).status().code(), Code::kLocked);
}

}  // namespace
}  // namespace topicdb
