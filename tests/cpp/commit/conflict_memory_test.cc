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
  memory.RecordWrite("a/b", 5, Serial{11});
  memory.RecordWrite("a/b", 9, Serial{12});
  memory.RecordWrite("a/c", 5, Serial{13});
  EXPECT_EQ(memory.FindChange(Keys("a/b"), Serial{10}), Serial{12});
  EXPECT_EQ(memory.FindChange(Keys("a/b", {5, 6}), Serial{10}), Serial{11});
  EXPECT_EQ(memory.FindChange(Keys("a/b", {6, 9}), Serial{10}), kNoSerial);  // between two writes
  EXPECT_EQ(memory.FindChange(Keys("a/b"), Serial{12}), kNoSerial);          // nothing is later
  EXPECT_EQ(memory.FindChange(Keys("a/+"), Serial{12}), Serial{13});
  EXPECT_EQ(memory.FindChange(Keys("a/#", {6, {}}), Serial{10}), Serial{12});
  EXPECT_EQ(memory.FindChange(Keys("a"), Serial{10}), kNoSerial);
  EXPECT_EQ(memory.FindChange(Keys("b/#"), Serial{10}), kNoSerial);
}

TEST(ConflictMemory, TheLastTimestampCounts) {
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  ConflictMemory memory(100);
  memory.RecordWrite("a", kLast, Serial{3});
  EXPECT_EQ(memory.FindChange(Keys("a"), Serial{1}), Serial{3});
  EXPECT_EQ(memory.FindChange(Keys("a", {kLast, {}}), Serial{1}), Serial{3});
  EXPECT_EQ(memory.FindChange(Keys("a", {0, kLast}), Serial{1}), kNoSerial);
}

TEST(ConflictMemory, DeletesChangeWhatTheyMeet) {
  ConflictMemory memory(100);
  memory.RecordDelete(Keys("a/+", {5, 9}), Serial{4});
  EXPECT_EQ(memory.FindChange(Keys("a/b", {8, 9}), Serial{3}), Serial{4});
  EXPECT_EQ(memory.FindChange(Keys("a/b", {9, 12}), Serial{3}), kNoSerial);
  EXPECT_EQ(memory.FindChange(Keys("#"), Serial{3}), Serial{4});
  EXPECT_EQ(memory.FindChange(Keys("a/b/c"), Serial{3}), kNoSerial);
  EXPECT_EQ(memory.FindChange(Keys("a/b"), Serial{4}), kNoSerial);
}

TEST(ConflictMemory, WhatItForgetsItSays) {
  ConflictMemory memory(10);
  for (std::uint64_t serial = 1; serial <= 100; ++serial) {
    memory.RecordWrite("t" + std::to_string(serial), 0, Serial{serial});
    EXPECT_LE(memory.entries(), 10U);
    for (std::uint64_t start = 0; start < serial; ++start) {
      if (memory.Forgot(Serial{start})) continue;
      for (std::uint64_t seen = start + 1; seen <= serial; ++seen) {
        EXPECT_EQ(memory.FindChange(Keys("t" + std::to_string(seen)), Serial{start}), Serial{seen});
      }
    }
    EXPECT_FALSE(memory.Forgot(Serial{serial - 1}));
  }
  EXPECT_TRUE(memory.Forgot(Serial{0}));
  EXPECT_TRUE(memory.Forgot(Serial{80}));
}

TEST(ConflictMemory, AWindowIsForgottenAfterTwo) {
  ConflictMemory memory(100);
  memory.RecordDelete(Keys("a"), Serial{1});
  memory.Age();
  memory.RecordWrite("b", 0, Serial{2});
  EXPECT_EQ(memory.FindChange(Keys("a"), Serial{0}), Serial{1});
  memory.Age();
  EXPECT_TRUE(memory.Forgot(Serial{0}));
  EXPECT_FALSE(memory.Forgot(Serial{1}));
  EXPECT_EQ(memory.FindChange(Keys("b"), Serial{1}), Serial{2});
  EXPECT_EQ(memory.entries(), 1U);  // the delete is forgotten, too
  memory.Clear(Serial{7});
  EXPECT_EQ(memory.entries(), 0U);
  EXPECT_TRUE(memory.Forgot(Serial{6}));
  EXPECT_FALSE(memory.Forgot(Serial{7}));
}

}  // namespace
}  // namespace topicdb
