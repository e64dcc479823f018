#include "store/catalog/database_hold.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "in_child.h"
#include "store/database/database_parts.h"
#include "test_directory.h"

namespace topicdb {
namespace {

class DatabaseHoldTest : public ::testing::Test {
 protected:
  DatabaseHoldTest() { const DatabaseParts made(path_); }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "db";
};

TEST_F(DatabaseHoldTest, ManyHoldADatabase) {
  const auto first = HoldDatabase(path_, HolderKind::kReader);
  const auto second = HoldDatabase(path_, HolderKind::kWriter);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, nullptr);
  EXPECT_EQ(FileLock::Acquire(HandlesLockPath(path_)).status().code(), Code::kLocked);
}

TEST_F(DatabaseHoldTest, NobodyHoldsOneThatIsBeingDropped) {
  const auto lock = FileLock::Acquire(HandlesLockPath(path_)).value();
  const Status refused = HoldDatabase(path_, HolderKind::kReader).status();
  EXPECT_EQ(refused.code(), Code::kLocked);
  EXPECT_NE(refused.message().find("drops the database " + path_), std::string::npos);
}

TEST_F(DatabaseHoldTest, WhatIsGoneIsNotHeld) {
  std::filesystem::rename(path_ + "/TOPICDB", path_ + "/DROPPING");
  EXPECT_EQ(HoldDatabase(path_, HolderKind::kReader).status().code(), Code::kCorruption);
  std::filesystem::remove_all(path_);
  EXPECT_EQ(HoldDatabase(path_, HolderKind::kWriter).status().code(), Code::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

// Databases of an older TopicDB have no such file.
TEST_F(DatabaseHoldTest, AWriterMakesTheFileAndAReaderDoesNot) {
  std::filesystem::remove(HandlesLockPath(path_));
  EXPECT_EQ(HoldDatabase(path_, HolderKind::kReader).value(), nullptr);
  EXPECT_FALSE(Exists(HandlesLockPath(path_)));
  EXPECT_NE(HoldDatabase(path_, HolderKind::kWriter).value(), nullptr);
  EXPECT_NE(HoldDatabase(path_, HolderKind::kReader).value(), nullptr);
}

TEST_F(DatabaseHoldTest, WhoMayNotWriteThereHoldsNothing) {
  std::filesystem::remove(HandlesLockPath(path_));
  ASSERT_EQ(chmod((directory_ / "").c_str(), 0755), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0555), 0);
  const int outcome = InChild([&] {
    if (getuid() == 0 && setuid(65'534) != 0) return 2;
    const auto hold = HoldDatabase(path_, HolderKind::kWriter);
    return hold.ok() && *hold == nullptr ? 0 : 1;
  });
  ASSERT_EQ(chmod(path_.c_str(), 0755), 0);
  if (outcome == 2) GTEST_SKIP() << "this process cannot become another user";
  EXPECT_EQ(outcome, 0);
}

}  // namespace
}  // namespace topicdb
