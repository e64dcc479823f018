#include "commit/conflict_memory.h"

#include <gtest/gtest.h>

#include <limits>

namespace topicdb {
namespace {

KeyRange Keys(const std::string& filter, TimeRange range = {}) {
  return {Filter::Parse(filter).value(), range};
}

TEST(ConflictMemory, FindsTheLastChangeOfWhatWasRead) {
  ConflictMemory memory(100);
  memory.RecordWrite("a/b", 5, 11);
  memory.RecordWrite("a/b", 9, 12);
  memory.RecordWrite("a/c", 5, 13);
  EXPECT_EQ(memory.FindChange(Keys("a/b"), 10), 12U);
  EXPECT_EQ(memory.FindChange(Keys("a/b", {5, 6}), 10), 11U);
  EXPECT_EQ(memory.FindChange(Keys("a/b", {6, 9}), 10), 0U);  // between two writes
  EXPECT_EQ(memory.FindChange(Keys("a/b"), 12), 0U);          // nothing is later
  EXPECT_EQ(memory.FindChange(Keys("a/+"), 12), 13U);
  EXPECT_EQ(memory.FindChange(Keys("a/#", {6, {}}), 10), 12U);
  EXPECT_EQ(memory.FindChange(Keys("a"), 10), 0U);
  EXPECT_EQ(memory.FindChange(Keys("b/#"), 10), 0U);
}

TEST(ConflictMemory, TheLastTimestampCounts) {
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  ConflictMemory memory(100);
  memory.RecordWrite("a", kLast, 3);
  EXPECT_EQ(memory.FindChange(Keys("a"), 1), 3U);
  EXPECT_EQ(memory.FindChange(Keys("a", {kLast, {}}), 1), 3U);
  EXPECT_EQ(memory.FindChange(Keys("a", {0, kLast}), 1), 0U);
}

TEST(ConflictMemory, DeletesChangeWhatTheyMeet) {
  ConflictMemory memory(100);
  memory.RecordDelete(Keys("a/+", {5, 9}), 4);
  EXPECT_EQ(memory.FindChange(Keys("a/b", {8, 9}), 3), 4U);
  EXPECT_EQ(memory.FindChange(Keys("a/b", {9, 12}), 3), 0U);
  EXPECT_EQ(memory.FindChange(Keys("#"), 3), 4U);
  EXPECT_EQ(memory.FindChange(Keys("a/b/c"), 3), 0U);
  EXPECT_EQ(memory.FindChange(Keys("a/b"), 4), 0U);
}

TEST(ConflictMemory, WhatItForgetsItSays) {
  ConflictMemory memory(10);
  for (std::uint64_t serial = 1; serial <= 100; ++serial) {
    memory.RecordWrite("t" + std::to_string(serial), 0, serial);
    EXPECT_LE(memory.entries(), 10U);
    for (std::uint64_t start = 0; start < serial; ++start) {
      if (memory.Forgot(start)) continue;
      for (std::uint64_t seen = start + 1; seen <= serial; ++seen) {
        EXPECT_EQ(memory.FindChange(Keys("t" + std::to_string(seen)), start), seen);
      }
    }
    EXPECT_FALSE(memory.Forgot(serial - 1));
  }
  EXPECT_TRUE(memory.Forgot(0));
  EXPECT_TRUE(memory.Forgot(80));
}

TEST(ConflictMemory, AWindowIsForgottenAfterTwo) {
  ConflictMemory memory(100);
  memory.RecordDelete(Keys("a"), 1);
  memory.Age();
  memory.RecordWrite("b", 0, 2);
  EXPECT_EQ(memory.FindChange(Keys("a"), 0), 1U);
  memory.Age();
  EXPECT_TRUE(memory.Forgot(0));
  EXPECT_FALSE(memory.Forgot(1));
  EXPECT_EQ(memory.FindChange(Keys("b"), 1), 2U);
  EXPECT_EQ(memory.entries(), 1U);  // the delete is forgotten, too
  memory.Clear(7);
  EXPECT_EQ(memory.entries(), 0U);
  EXPECT_TRUE(memory.Forgot(6));
  EXPECT_FALSE(memory.Forgot(7));
}

}  // namespace
}  // namespace topicdb
