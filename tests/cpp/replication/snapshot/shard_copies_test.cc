#include "replication/snapshot/shard_copies.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "base/file/files.h"
#include "test_directory.h"

namespace topicdb::replication {
namespace {

class ShardCopiesTest : public testing::Test {
 protected:
  // Returns what is in the directory of all shards, without what is in the copies.
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_ / "")) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  // Makes a directory with a file CURRENT.
  static void MakeData(const std::string& path, const std::string& text) {
    std::filesystem::create_directory(path);
    std::ofstream(path + "/CURRENT") << text;
  }
  std::string Current() const { return ReadFile(shard_ + "/CURRENT", 100).value(); }

  const TestDirectory directory_;
  const std::string shard_ = directory_ / "0002";
};

TEST_F(ShardCopiesTest, AShardThatIsNotThereGetsAnEmptyCopy) {
  ASSERT_TRUE(PrepareCopies(shard_).ok());
  EXPECT_EQ(Names(), (std::set<std::string>{"0002", "0002.copy-0"}));
  EXPECT_EQ(FollowLink(shard_), shard_ + ".copy-0");
  MakeData(shard_ + "/x", "kept");
  ASSERT_TRUE(PrepareCopies(shard_).ok());
  EXPECT_TRUE(Exists(shard_ + "/x/CURRENT"));
}

TEST_F(ShardCopiesTest, AShardOfALocalDatabaseBecomesACopy) {
  MakeData(shard_, "local");
  ASSERT_TRUE(PrepareCopies(shard_).ok());
  EXPECT_EQ(FollowLink(shard_), shard_ + ".copy-0");
  EXPECT_EQ(Current(), "local");
  EXPECT_EQ(Names(), (std::set<std::string>{"0002", "0002.copy-0"}));
}

// A crash may leave the link of a copy that was to be made.
TEST_F(ShardCopiesTest, WhatACrashHasLeftIsNoHindrance) {
  MakeData(shard_, "local");
  std::filesystem::create_symlink("0002.copy-0", shard_ + ".copy-0");
  std::filesystem::create_symlink("0002.copy-9", shard_ + ".link");
  MakeData(shard_ + ".copy-9", "of no use");
  ASSERT_TRUE(PrepareCopies(shard_).ok());
  EXPECT_EQ(Current(), "local");
  EXPECT_EQ(Names(), (std::set<std::string>{"0002", "0002.copy-0"}));
}

TEST_F(ShardCopiesTest, ASnapshotTakesThePlaceAndTheOlderCopyStays) {
  ASSERT_TRUE(PrepareCopies(shard_).ok());
  std::ofstream(shard_ + "/CURRENT") << "older";
  const std::string older = FollowLink(shard_);
  MakeData(shard_ + ".incoming", "newer");
  ASSERT_TRUE(InstallSnapshot(shard_ + ".incoming", shard_, 1'234).ok());
  EXPECT_EQ(Current(), "newer");
  EXPECT_EQ(FollowLink(shard_), shard_ + ".copy-1234");
  EXPECT_EQ(ReadFile(older + "/CURRENT", 100).value(), "older");
  EXPECT_FALSE(Exists(shard_ + ".incoming"));
  ASSERT_TRUE(PrepareCopies(shard_).ok());
  EXPECT_FALSE(Exists(older)) << "nobody has it open any more";
  EXPECT_EQ(Current(), "newer");
}

TEST_F(ShardCopiesTest, TheSnapshotThatIsThereIsNotOverwritten) {
  ASSERT_TRUE(PrepareCopies(shard_).ok());
  MakeData(shard_ + ".incoming", "first");
  ASSERT_TRUE(InstallSnapshot(shard_ + ".incoming", shard_, 7).ok());
  MakeData(shard_ + ".incoming", "second");
  EXPECT_EQ(InstallSnapshot(shard_ + ".incoming", shard_, 7).code(), Code::kCorruption);
  EXPECT_EQ(Current(), "first");
}

TEST_F(ShardCopiesTest, CopiesWithoutALinkAreDamage) {
  MakeData(shard_ + ".copy-5", "data");
  const Status prepared = PrepareCopies(shard_);
  EXPECT_EQ(prepared.code(), Code::kCorruption);
  EXPECT_NE(prepared.message().find(".copy-5"), std::string::npos) << prepared.message();
  EXPECT_TRUE(Exists(shard_ + ".copy-5/CURRENT")) << "nothing was changed";
}

}  // namespace
}  // namespace topicdb::replication
