#include "base/thread/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

namespace topicdb {
namespace {

TEST(Parallel, EachTaskRunsOnce) {
  for (const std::size_t tasks : {0, 1, 2, 100}) {
    std::vector<std::atomic<int>> runs(tasks);
    EXPECT_TRUE(RunInParallel(tasks, [&](std::size_t task) {
                  ++runs[task];
                  return Status::Ok();
                }).ok());
    for (const auto& count : runs) EXPECT_EQ(count, 1);
  }
}

TEST(Parallel, OneTaskRunsInTheThreadThatAsks) {
  const auto asking = std::this_thread::get_id();
  EXPECT_TRUE(RunInParallel(1, [&](std::size_t) {
                EXPECT_EQ(std::this_thread::get_id(), asking);
                return Status::Ok();
              }).ok());
}

TEST(Parallel, TheFirstErrorIsGivenAndNothingRunsOn) {
  std::atomic<int> running = 0;
  const Status status = RunInParallel(1'000, [&](std::size_t task) {
    ++running;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    --running;
    return task % 100 == 7 ? InvalidArgument("task " + std::to_string(task)) : Status::Ok();
  });
  EXPECT_EQ(status.message(), "task 7");
  EXPECT_EQ(running, 0);
}

TEST(Parallel, WhatATaskThrowsComesToTheCallerWhenNothingRunsAnyMore) {
  for (const std::size_t tasks : {1, 2, 100}) {
    std::atomic<int> running = 0;
    const auto run = [&](std::size_t task) {
      ++running;
      std::this_thread::yield();
      --running;
      if (task % 2 == 0) throw std::bad_alloc();
      return Status::Ok();
    };
    EXPECT_THROW(RunInParallel(tasks, run).IgnoreError(), std::bad_alloc);
    EXPECT_EQ(running, 0);
  }
}

TEST(Parallel, TasksAfterAnErrorAreLeftOut) {
  std::atomic<std::size_t> runs = 0;
  std::atomic<bool> failing = false;
  EXPECT_FALSE(RunInParallel(10'000, [&](std::size_t task) {
                 ++runs;
                 if (task == 0) {
                   failing = true;
                   return InvalidArgument("no");
                 }
                 while (!failing) std::this_thread::yield();
                 // The other thread only has to return. Sleeping leaves it the processor.
                 std::this_thread::sleep_for(std::chrono::milliseconds(1));
                 return Status::Ok();
               }).ok());
  EXPECT_LT(runs, 10'000U);
}

}  // namespace
}  // namespace topicdb
