#include "topicdb/queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "fsyncs.h"
#include "queue/queue_calls.h"
#include "test_directory.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

std::string NameOfMode(QueueMode mode) {
  switch (mode) {
    case QueueMode::kMemory:
      return "Memory";
    case QueueMode::kDisk:
      return "Disk";
    case QueueMode::kOffload:
      return "Offload";
    case QueueMode::kVolatile:
      return "Volatile";
  }
  return "";
}

class QueueModes : public testing::TestWithParam<QueueMode> {
 protected:
  std::string Path() const { return GetParam() == QueueMode::kMemory ? "" : directory_ / "q"; }
  TestDirectory directory_;
};

// Producers append. Consumers pop, and refuse some of what they get. Another thread makes and
// removes a cursor, and asks for stats. Each item must be acknowledged, and no consumer may get it
// after that.
TEST_P(QueueModes, ManyThreads) {
  constexpr int kProducers = 3;
  constexpr int kAppends = 400;
  QueueOptions options;
  options.mode = GetParam();
  options.segment_bytes = 4'096;
  options.flush_interval = 1ms;
  const auto queue = OpenQueue(Path(), options);
  std::mutex mutex;
  std::set<std::string> acknowledged;
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int producer = 0; producer < kProducers; ++producer) {
    threads.emplace_back([&, producer] {
      for (int i = 0; i < kAppends; ++i) {
        const std::string name = std::to_string(producer) + "." + std::to_string(i);
        Append(*queue, {name + "a", name + std::string(100, 'b')});
      }
    });
  }
  const auto expected = static_cast<std::size_t>(2 * kProducers * kAppends);
  for (int consumer = 0; consumer < 3; ++consumer) {
    threads.emplace_back([&, consumer] {
      const auto cursor = Main(*queue);
      for (int round = 0; !over; ++round) {
        const Delivery popped = cursor->Pop({5}, 5ms).value();
        if (popped.empty()) continue;
        if (round % 7 == consumer) {
          EXPECT_TRUE(cursor->Nack(popped.ranges).ok());
          continue;
        }
        {
          const std::lock_guard lock(mutex);
          for (const std::string_view item : popped.items) {
            EXPECT_TRUE(acknowledged.insert(std::string(item)).second) << item;
          }
          if (acknowledged.size() == expected) over = true;
        }
        EXPECT_TRUE(cursor->Ack(popped.ranges).ok());
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; !over; ++i) {
      const auto other = queue->Cursor("other", i % 2 == 0).value();
      const Delivery popped = other->Pop({20}, 0ms).value();
      EXPECT_TRUE(other->Ack(popped.ranges).ok());
      EXPECT_TRUE(queue->GetStats().ok());
      EXPECT_TRUE(queue->RemoveCursor("other").ok());
      if (i % 10 == 0) {
        EXPECT_TRUE(queue->Flush().ok());
      }
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(acknowledged.size(), expected);
  const QueueStats stats = queue->GetStats().value();
  EXPECT_EQ(stats.bytes, 0U);
  EXPECT_TRUE(stats.damage.empty());
  EXPECT_TRUE(queue->Close().ok());
}

TEST_P(QueueModes, ClosingWaitsForNobody) {
  QueueOptions options;
  options.mode = GetParam();
  options.bytes_max = 1'000;
  options.overflow = OverflowPolicy::kBlock;
  const auto queue = OpenQueue(Path(), options);
  const auto other = queue->Cursor("other", /*from_newest=*/false).value();
  std::thread popping(
      [&] { EXPECT_EQ(other->Pop({1}, std::nullopt).status().code(), Code::kClosed); });
  std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(queue->RemoveCursor("nobody").code() == Code::kNotFound);
  EXPECT_TRUE(queue->Close().ok());
  popping.join();
}

TEST_P(QueueModes, AnAppendThatWaitsForRoomEndsWithTheQueue) {
  QueueOptions options;
  options.mode = GetParam();
  options.bytes_max = 1'000;
  options.overflow = OverflowPolicy::kBlock;
  const auto queue = OpenQueue(Path(), options);
  const std::string item(800, 'x');
  Append(*queue, {item});
  std::thread appending([&] {
    const std::vector<std::string_view> views{item};
    EXPECT_EQ(queue->Append(views).status().code(), Code::kClosed);
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(queue->Close().ok());
  appending.join();
}

TEST_P(QueueModes, WeightsCountForTheLimits) {
  QueueOptions options;
  options.mode = GetParam();
  options.weighed = true;
  options.bytes_max = 100;
  options.segment_bytes = 256;
  const auto queue = OpenQueue(Path(), options);
  const std::string large(10'000, 'x');
  for (int i = 0; i < 10; ++i) Weigh(*queue, {large, "b"}, {15, 5});
  const QueueStats stats = queue->GetStats().value();
  EXPECT_EQ(stats.bytes, 100U);
  EXPECT_EQ(stats.cursors[0].waiting, 10U);
  EXPECT_EQ(stats.cursors[0].dropped_items[static_cast<std::size_t>(DropReason::kOverflow)], 10U);
  EXPECT_EQ(Main(*queue)->Pop({100, 40, false}, 0ms)->items.size(), 4U);
  Weigh(*queue, {"c", "d"}, {1'000, 60});
  EXPECT_EQ(queue->GetStats()->bytes, 100U) << "40 are in flight, and the newest stays";
  EXPECT_EQ(Main(*queue)->Pop({}, 0ms)->items, (std::vector<std::string_view>{"d"}));
}

INSTANTIATE_TEST_SUITE_P(All, QueueModes,
                         testing::Values(QueueMode::kMemory, QueueMode::kDisk, QueueMode::kOffload,
                                         QueueMode::kVolatile),
                         [](const auto& parameter) { return NameOfMode(parameter.param); });

// Appends until two items that were popped and came back are dropped. Returns whether the memory of
// the first of them is free: the cursor itself holds the one that it has read last.
bool DroppedItemsAreFreed(QueueOptions options, std::atomic<bool>* drop) {
  options.mode = QueueMode::kMemory;
  const auto queue = OpenQueue("", options);
  const auto cursor = Main(*queue);
  Append(*queue, {std::string(100, 'x')});
  Append(*queue, {std::string(100, 'x')});
  std::weak_ptr<const void> first;
  {
    const Delivery popped = cursor->Pop({}, 0ms).value();
    EXPECT_EQ(popped.owners.size(), 2U);
    first = popped.owners.front();
    EXPECT_TRUE(cursor->Nack(popped.ranges).ok());
  }
  EXPECT_FALSE(first.expired());
  *drop = true;
  for (int i = 0; i < 20; ++i) Append(*queue, {std::string(100, 'y')});
  const CursorStats stats = cursor->GetStats().value();
  EXPECT_GT(std::accumulate(std::begin(stats.dropped_items), std::end(stats.dropped_items),
                            std::uint64_t{0}),
            2U);
  return first.expired();
}

TEST(Queue, WhatIsDroppedFromMemoryIsFreedAlthoughNobodyAcknowledges) {
  std::atomic<bool> drop{false};
  QueueOptions overflowing;
  overflowing.bytes_max = 1'000;
  EXPECT_TRUE(DroppedItemsAreFreed(overflowing, &drop));
  drop = false;
  QueueOptions short_of_memory;
  short_of_memory.memory_is_high = [&] { return drop.load(); };
  EXPECT_TRUE(DroppedItemsAreFreed(short_of_memory, &drop));
}

// The items of an offload queue go to disk in the middle of a call of a cursor that is not there
// any more. The rest of the call still needs the log in memory.
TEST(Queue, ACursorMayBeRemovedDuringItsOwnCall) {
  const TestDirectory directory;
  QueueOptions options;
  options.mode = QueueMode::kOffload;
  const auto queue = OpenQueue(directory / "q", options);
  const auto cursor = queue->Cursor("x").value();
  Append(*queue, {"a"});
  Append(*queue, {"b"});
  PopLimits limits;
  limits.stop_before = [&](std::string_view) {
    EXPECT_TRUE(queue->RemoveCursor("x").ok());
    const std::vector<std::string_view> items{"c"};
    EXPECT_TRUE(queue->Append(items, Durability::kDisk).ok());
    return true;
  };
  EXPECT_TRUE(cursor->Pop(limits, 0ms).value().empty());
  EXPECT_EQ(cursor->Pop({}, 0ms).status().code(), Code::kNotFound);
  EXPECT_EQ(Main(*queue)->GetStats()->waiting, 3U);
}

TEST(Queue, AQueueWhoseFsyncFailedGivesItsShareOfABudgetBack) {
  const TestDirectory directory;
  QueueOptions options;
  options.budget = std::make_shared<QueueBudget>(10'000);
  const auto queue = OpenQueue(directory / "q", options);
  Append(*queue, {"item"});
  fsync_fails = true;
  const std::vector<std::string_view> items{"item"};
  EXPECT_EQ(queue->Append(items, Durability::kDisk).status().code(), Code::kStorage);
  fsync_fails = false;
  EXPECT_GT(options.budget->bytes(), 0U);
  EXPECT_EQ(queue->Close().code(), Code::kStorage);
  EXPECT_EQ(options.budget->bytes(), 0U);
}

// If the process ended between the two, a cursor would ask for items that are gone, and report
// acknowledged items as lost.
TEST(Queue, SegmentsAreRemovedAfterTheCursorsAreSaved) {
  for (const QueueMode mode : {QueueMode::kDisk, QueueMode::kOffload}) {
    const TestDirectory directory;
    QueueOptions options;
    options.mode = mode;
    options.flush_interval = 1h;  // nobody but this thread saves cursors
    const auto queue = OpenQueue(directory / "q", options);
    const std::vector<std::string_view> items{"item"};
    ASSERT_TRUE(queue->Append(items, Durability::kDisk).ok());
    const Delivery popped = Main(*queue)->Pop({}, 0ms).value();
    ASSERT_TRUE(Main(*queue)->Ack(popped.ranges).ok());
    const std::string segment = directory / "q/0000000000000001.segment";
    int saved = 0;
    const FsyncHook hook([&](const std::string& path) {
      if (path.find("default.cursor") == std::string::npos) return;
      ++saved;
      EXPECT_TRUE(std::filesystem::exists(segment)) << NameOfMode(mode);
    });
    if (mode == QueueMode::kOffload) {
      Append(*queue, {"to memory"});
      EXPECT_FALSE(queue->GetStats()->on_disk);
    } else {
      ASSERT_TRUE(queue->Close().ok());
    }
    EXPECT_EQ(saved, 1);
    EXPECT_FALSE(std::filesystem::exists(segment)) << NameOfMode(mode);
  }
}

TEST(Queue, WeightsLast) {
  for (const QueueMode mode : {QueueMode::kDisk, QueueMode::kOffload}) {
    const TestDirectory directory;
    QueueOptions options;
    options.mode = mode;
    for (const bool weighed : {true, false, true}) {
      options.weighed = weighed;
      const auto queue = OpenQueue(directory / "q", options);
      const std::uint64_t before = queue->GetStats()->bytes;
      if (weighed) {
        Weigh(*queue, {"a", "b"}, {1'000, 0});
        EXPECT_EQ(queue->GetStats()->bytes, before + 1'000) << NameOfMode(mode);
      } else {
        EXPECT_EQ(before, 1'000U) << NameOfMode(mode);
        Append(*queue, {"a"});
        EXPECT_EQ(queue->GetStats()->bytes, before + 40);
      }
    }
    options.weighed = false;
    const auto queue = OpenQueue(directory / "q", options);
    EXPECT_EQ(queue->GetStats()->bytes, 2'040U) << NameOfMode(mode);
    const auto cursor = Main(*queue);
    ASSERT_TRUE(cursor->Ack(cursor->Pop({1}, 0ms)->ranges).ok());
    EXPECT_EQ(queue->GetStats()->bytes, 1'040U);
  }
}

TEST(Queue, WeightsThatCannotBeAreRefused) {
  const TestDirectory directory;
  QueueOptions options;
  options.weighed = true;
  const auto queue = OpenQueue(directory / "q", options);
  const std::vector<std::string_view> items{"a", "b"};
  const auto append = [&](Queue& to, const std::vector<std::uint64_t>& weights) {
    return to.Append(items, std::nullopt, nullptr, weights).status().code();
  };
  EXPECT_EQ(append(*queue, {}), Code::kInvalidArgument);
  EXPECT_EQ(append(*queue, {1}), Code::kInvalidArgument);
  EXPECT_EQ(append(*queue, {1, kItemWeightMax + 1}), Code::kInvalidArgument);
  EXPECT_EQ(append(*queue, {0, kItemWeightMax}), Code::kOk);
  options.weighed = false;
  const auto plain = OpenQueue(directory / "plain", options);
  EXPECT_EQ(append(*plain, {1, 1}), Code::kInvalidArgument);
  options.weighed = true;
  options.format = QueueFormat::kReplayq;
  EXPECT_EQ(Queue::Open(directory / "replayq", options).status().code(), Code::kInvalidArgument);
}

TEST(Queue, ViewsStayAsLongAsTheyAreHeld) {
  const TestDirectory directory;
  QueueOptions options;
  options.segment_bytes = 4'096;
  auto queue = OpenQueue(directory / "q", options);
  for (int i = 0; i < 100; ++i) Append(*queue, {std::string(100, static_cast<char>('a' + i % 26))});
  std::vector<Delivery> held;
  const auto cursor = Main(*queue);
  for (int i = 0; i < 100; ++i) {
    held.push_back(cursor->Pop({1}, 0ms).value());
    ASSERT_TRUE(cursor->Ack(held.back().ranges).ok());
  }
  ASSERT_TRUE(queue->Close().ok());
  queue.reset();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(held[static_cast<std::size_t>(i)].items.at(0),
              std::string(100, static_cast<char>('a' + i % 26)));
  }
}

}  // namespace
}  // namespace topicdb
