// What a queue does besides its calls: fsyncs, and freeing segments.
#include <gtest/gtest.h>

#include <filesystem>
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
  std::uint64_t stored = 0;
  {
    const auto queue = OpenQueue(directory / "q", options);
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

}  // namespace
}  // namespace topicdb
