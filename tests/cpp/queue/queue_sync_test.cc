// What a queue does besides its calls: fsyncs, and freeing segments.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/file/files.h"
#include "fsyncs.h"
#include "queue/queue_calls.h"
#include "test_directory.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

TEST(QueueSync, DurableAppendsOfManyThreads) {
  const TestDirectory directory;
  QueueOptions options;
  options.durability = Durability::kDisk;
  {
    const auto queue = OpenQueue(directory / "q", options);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < 25; ++i) {
          EXPECT_EQ(Append(*queue, {"item"}).durability, Durability::kDisk);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const auto queue = OpenQueue(directory / "q", options);
  EXPECT_EQ(Main(*queue)->GetStats()->waiting, 100U);
}

TEST(QueueSync, AfterAFailedFsyncItTakesNothingMoreUntilItIsOpenedAgain) {
  const TestDirectory directory;
  const std::vector<std::string_view> items{"item"};
  {
    const auto queue = OpenQueue(directory / "q", {});
    Append(*queue, {"first"});
    fsync_fails = true;
    const Status failed = queue->Append(items, Durability::kDisk).status();
    fsync_fails = false;
    EXPECT_EQ(failed.code(), Code::kStorage);
    EXPECT_NE(failed.message().find("is perhaps not safe"), std::string::npos) << failed.message();
    for (const Durability durability : {Durability::kNone, Durability::kOs, Durability::kDisk}) {
      EXPECT_EQ(queue->Append(items, durability).status().code(), Code::kStorage);
    }
    EXPECT_EQ(queue->Flush().code(), Code::kStorage);
    EXPECT_EQ(Main(*queue)->Pop({}, 0ms)->items, (std::vector<std::string_view>{"first", "item"}))
        << "what is there may still be popped";
    EXPECT_EQ(queue->Close().code(), Code::kStorage);
  }
  const auto queue = OpenQueue(directory / "q", {});
  EXPECT_EQ(Main(*queue)->GetStats()->waiting, 2U) << "no power was lost";
  EXPECT_TRUE(queue->Append(items, Durability::kDisk).ok());
}

TEST(QueueSync, FlushFsyncsItemsAndCursors) {
  const TestDirectory directory;
  QueueOptions options;
  options.durability = Durability::kNone;
  options.flush_interval = 1h;  // nobody but this thread writes
  const auto queue = OpenQueue(directory / "q", options);
  Append(*queue, {"a", "b"});
  const auto cursor = Main(*queue);
  ASSERT_TRUE(cursor->Ack(cursor->Pop({1}, 0ms)->ranges).ok());
  std::vector<std::string> fsynced;
  {
    const FsyncHook hook([&](const std::string& path) {
      fsynced.push_back(std::filesystem::path(path).filename().string());
    });
    ASSERT_TRUE(queue->Flush().ok());
  }
  ASSERT_FALSE(fsynced.empty());
  EXPECT_EQ(fsynced.front(), "0000000000000001.segment");
  EXPECT_NE(fsynced.back().find("default.cursor"), std::string::npos) << fsynced.back();
}

// Each sealed segment stays open until it is fsynced. The descriptors of a process are few.
TEST(QueueSync, AnAppendFsyncsWhenManySegmentsAreOpen) {
  const TestDirectory directory;
  QueueOptions options;
  options.segment_bytes = 256;
  options.flush_interval = 1h;
  const auto queue = OpenQueue(directory / "q", options);
  std::size_t fsynced = 0;
  {
    const FsyncHook hook([&](const std::string& path) { fsynced += path.ends_with(".segment"); });
    int appends = 0;
    for (; fsynced == 0 && appends < 1'000; ++appends) Append(*queue, {std::string(200, 'x')});
    EXPECT_GT(appends, 200);
    EXPECT_LT(appends, 300);
  }
  EXPECT_GT(fsynced, 200U) << "all that were open";
  EXPECT_EQ(Append(*queue, {"next"}).durability, Durability::kOs);
}

TEST(QueueSync, IfThatFsyncFailsTheAppendIsStoredAndTheNextOneIsRefused) {
  const TestDirectory directory;
  QueueOptions options;
  options.segment_bytes = 256;
  options.flush_interval = 1h;
  const std::vector<std::string_view> items{"item"};
  std::uint64_t stored = 1;
  {
    const auto queue = OpenQueue(directory / "q", options);
    Append(*queue, {"first"});  // it reserves numbers, which takes an fsync
    fsync_fails = true;
    const std::string large(200, 'x');
    const std::vector<std::string_view> filling{large};
    Result<QueueReceipt> receipt = queue->Append(filling);
    for (; receipt.ok() && stored < 1'000; receipt = queue->Append(filling)) ++stored;
    fsync_fails = false;
    EXPECT_EQ(receipt.status().code(), Code::kStorage);
    EXPECT_EQ(queue->Append(items).status().code(), Code::kStorage);
    EXPECT_EQ(queue->Close().code(), Code::kStorage);
  }
  const auto queue = OpenQueue(directory / "q", options);
  EXPECT_EQ(Main(*queue)->GetStats()->waiting, stored) << "no power was lost";
}

// If the process ended between the two, the cursor would ask for items that are gone.
TEST(QueueSync, FlushSavesTheCursorsBeforeItFreesSegments) {
  const TestDirectory directory;
  QueueOptions options;
  options.segment_bytes = 4'096;
  options.flush_interval = 1h;
  const auto queue = OpenQueue(directory / "q", options);
  for (int i = 0; i < 3; ++i) Append(*queue, {std::string(3'000, 'x')});
  const auto cursor = Main(*queue);
  ASSERT_TRUE(cursor->Ack(cursor->Pop({2}, 0ms)->ranges).ok());
  const std::string segment = directory / "q/0000000000000001.segment";
  bool saved = false;
  {
    const FsyncHook hook([&](const std::string& path) {
      if (path.find("default.cursor") == std::string::npos) return;
      saved = true;
      EXPECT_TRUE(Exists(segment));
    });
    ASSERT_TRUE(queue->Flush().ok());
  }
  EXPECT_TRUE(saved);
  EXPECT_FALSE(Exists(segment)) << "all of it is acknowledged";
  EXPECT_TRUE(Exists(directory / "q/0000000000000002.segment"));
}

// A queue whose directory is moved away while it is open.
class MovedQueueTest : public ::testing::Test {
 protected:
  MovedQueueTest() {
    QueueOptions options;
    options.segment_bytes = 4'096;
    options.flush_interval = 1h;  // nobody but this thread writes
    queue_ = OpenQueue(path_, options);
    Append(*queue_, {"first", "second"});
  }

  void Move() const { std::filesystem::rename(path_, path_ + ".moved"); }
  void ExpectGone(const Status& status) const {
    EXPECT_EQ(status.code(), Code::kStorage);
    EXPECT_NE(status.message().find("removed or replaced while it was open"), std::string::npos)
        << status.message();
  }
  Status AppendItem(const std::string& item, Durability durability) const {
    const std::vector<std::string_view> items{item};
    return queue_->Append(items, durability).status();
  }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "q";
  std::unique_ptr<Queue> queue_;
};

TEST_F(MovedQueueTest, ADurableAppendIsNotAcknowledged) {
  EXPECT_TRUE(AppendItem("third", Durability::kDisk).ok());
  Move();
  EXPECT_TRUE(AppendItem("fourth", Durability::kOs).ok()) << "nobody looks";
  ExpectGone(AppendItem("fifth", Durability::kDisk));
  EXPECT_EQ(AppendItem("sixth", Durability::kOs).code(), Code::kStorage) << "it is poisoned";
  EXPECT_EQ(queue_->Close().code(), Code::kStorage);
}

TEST_F(MovedQueueTest, ASegmentThatIsGoneIsNoticedToo) {
  std::filesystem::remove(path_ + "/0000000000000001.segment");
  const Status gone = AppendItem("third", Durability::kDisk);
  EXPECT_EQ(gone.code(), Code::kStorage);
  EXPECT_NE(gone.message().find("0000000000000001.segment is gone"), std::string::npos);
}

TEST_F(MovedQueueTest, AcknowledgementsAreNotFlushed) {
  ASSERT_TRUE(queue_->Flush().ok());
  const auto cursor = Main(*queue_);
  ASSERT_TRUE(cursor->Ack(cursor->Pop({1}, 0ms)->ranges).ok());
  Move();
  ExpectGone(queue_->Flush());
}

TEST_F(MovedQueueTest, ClosingTellsOfIt) {
  Move();
  ExpectGone(queue_->Close());
}

TEST_F(MovedQueueTest, AQueueThatHasItsPathNowIsLeftAlone) {
  const auto cursor = Main(*queue_);
  const std::string large(5'000, 'x');  // more than a segment has
  Append(*queue_, {large});
  Move();
  {
    const auto other = OpenQueue(path_, {});
    Append(*other, {"other"});
  }
  const auto files = [&] {
    std::set<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(path_)) {
      names.insert(file.path().filename().string());
    }
    return names;
  };
  const std::set<std::string> before = files();
  ASSERT_TRUE(cursor->Ack(cursor->Pop({}, 0ms)->ranges).ok());
  EXPECT_FALSE(queue_->Flush().ok()) << "it would free the segments of the other one";
  EXPECT_EQ(AppendItem(large, Durability::kOs).code(), Code::kStorage);
  EXPECT_FALSE(queue_->RemoveCursor("none").ok());
  EXPECT_FALSE(queue_->Close().ok());
  EXPECT_EQ(files(), before);
  EXPECT_EQ(Main(*OpenQueue(path_, {}))->Peek().value(), "other");
}

}  // namespace
}  // namespace topicdb
