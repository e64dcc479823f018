#include "store/shard/state/shard_state.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "store/shard/shard_parts.h"

namespace topicdb {
namespace {

// Shard 0 of a database whose directory is moved away while it is open.
class MovedShardTest : public ::testing::Test {
 protected:
  MovedShardTest() { shard_.Append({{"a", 1, "x"}}); }
  // Puts the directory back, so that RocksDB can close.
  ~MovedShardTest() override {
    if (!std::filesystem::exists(path())) std::filesystem::rename(path() + ".moved", path());
  }

  std::string path() const { return shard_.state.environment->database_path; }
  void Move() const { std::filesystem::rename(path(), path() + ".moved"); }
  Status Poison() const {
    const MutexLock lock(shard_.state.mutex);
    return shard_.state.poison;
  }
  // Expects the error of a shard that is not where it was.
  void ExpectGone(const Status& status) const {
    EXPECT_EQ(status.code(), Code::kStorage);
    EXPECT_NE(status.message().find("shard 0 of " + path() + " was removed or replaced"),
              std::string::npos)
        << status.message();
  }

  ShardParts shard_;
};

TEST_F(MovedShardTest, IsInPlaceBefore) {
  EXPECT_TRUE(shard_.state.CheckInPlace().ok());
  EXPECT_TRUE(shard_.state.SyncLog().ok());
  EXPECT_TRUE(shard_.state.Flush().ok());
  EXPECT_TRUE(Poison().ok());
}

TEST_F(MovedShardTest, AnFsyncIsNoPromiseAnyMore) {
  Move();
  ExpectGone(shard_.state.SyncLog());
  ExpectGone(Poison());
  const auto refused = shard_.Commit({{"a", 2, "y"}});
  EXPECT_NE(refused->status.message().find("takes no more writes"), std::string::npos);
}

TEST_F(MovedShardTest, ACommitWithoutAnFsyncDoesNotLookWhereItIs) {
  Move();
  EXPECT_TRUE(shard_.Commit({{"a", 2, "y"}})->status.ok());
  EXPECT_TRUE(Poison().ok());
}

TEST_F(MovedShardTest, WhatIsWrittenToBeOnDiskIsNoPromiseEither) {
  Move();
  {
    const MutexLock lock(shard_.state.mutex);
    ExpectGone(shard_.state.ReserveSerials());
  }
  ExpectGone(Poison());
}

TEST_F(MovedShardTest, AFlushWithNothingToFlushNoticesIt) {
  ASSERT_TRUE(shard_.state.Flush().ok());
  Move();
  ExpectGone(shard_.state.Flush());
}

TEST_F(MovedShardTest, WhatHasItsPathNowIsLeftAlone) {
  Move();
  std::filesystem::copy(path() + ".moved", path(), std::filesystem::copy_options::recursive);
  const auto files = [&] {
    std::set<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(path() + "/shards/0000")) {
      names.insert(file.path().filename().string());
    }
    return names;
  };
  const std::set<std::string> before = files();
  EXPECT_FALSE(shard_.state.Flush().ok()) << "it would make a table file there";
  EXPECT_EQ(files(), before);
}

}  // namespace
}  // namespace topicdb
