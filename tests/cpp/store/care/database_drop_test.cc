#include "topicdb/database/on_disk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file/files.h"
#include "fsyncs.h"
#include "store/care/care_database.h"
#include "store/catalog/database_hold.h"
#include "store/catalog/found_database.h"
#include "topicdb/job.h"
#include "topicdb/verify.h"

namespace topicdb {
namespace {

namespace fs = std::filesystem;

DirectoryState StateOf(const std::string& path) { return LookAtDirectory(path).value(); }

std::vector<std::string> Tree(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    names.push_back(entry.path().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class DatabaseDropTest : public ::testing::Test {
 protected:
  std::string path() const { return database_.path(); }
  Result<DroppedFiles> Drop(bool dry_run = false) const { return DropDatabase(path(), dry_run); }
  // Expects that a drop is refused with this code, and that the database is whole.
  std::string ExpectRefused(Code code) const {
    const Status refused = Drop().status();
    EXPECT_EQ(refused.code(), code) << refused.message();
    EXPECT_EQ(StateOf(path()), DirectoryState::kDatabase);
    return refused.message();
  }
  void ExpectWhole() const {
    EXPECT_EQ(database_.ReadAll().size(), CareDatabase::kShards * CareDatabase::kMessages);
  }

  const CareDatabase database_;
};

TEST_F(DatabaseDropTest, RemovesTheDatabaseWithItsDirectory) {
  const DroppedFiles foreseen = Drop(/*dry_run=*/true).value();
  ExpectWhole();
  EXPECT_GT(foreseen.files, 10U);
  EXPECT_GT(foreseen.bytes, 1'000U);
  const auto dropped = Drop();
  ASSERT_TRUE(dropped.ok()) << dropped.status().message();
  EXPECT_FALSE(fs::exists(path()));
  EXPECT_EQ(FindDatabase(path()).status().code(), Code::kNotFound);
  EXPECT_EQ(Drop().status().code(), Code::kNotFound);
  EXPECT_TRUE(Database::Open(path(), {}).ok()) << "another one may be made there";
}

TEST_F(DatabaseDropTest, ADryRunChangesNothing) {
  const std::vector<std::string> before = Tree(path());
  ASSERT_TRUE(Drop(/*dry_run=*/true).ok());
  EXPECT_EQ(Tree(path()), before);
}

TEST_F(DatabaseDropTest, TakesASlashAtTheEnd) {
  EXPECT_TRUE(DropDatabase(path() + "//", false).ok());
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(DatabaseDropTest, IsRefusedWhileAnyHandleIsOpen) {
  OpenOptions reading;
  reading.read_only = true;
  OpenOptions one_shard;
  one_shard.only_shards = {1};
  for (const OpenOptions& options : {OpenOptions(), reading, one_shard}) {
    const auto handle = Database::Open(path(), options).value();
    const std::string refused = ExpectRefused(Code::kLocked);
    EXPECT_NE(refused.find("this process"), std::string::npos) << refused;
    EXPECT_EQ(Drop(/*dry_run=*/true).status().code(), Code::kLocked);
    ASSERT_TRUE(handle->Close().ok());
  }
  ExpectWhole();
  EXPECT_TRUE(Drop().ok());
}

TEST_F(DatabaseDropTest, IsRefusedWhileSomebodyElseIsAtWork) {
  {
    const auto writer = StagedWriter::Open(path(), "job", {}).value();
    ExpectRefused(Code::kLocked);
  }
  {
    VerifyOptions options;
    options.progress = [&](std::uint64_t, std::uint64_t) { ExpectRefused(Code::kLocked); };
    EXPECT_TRUE(VerifyDatabase(path(), options).ok());
  }
  for (const char* const name : {"CREATING.lock", "jobs.lock", "shards/0001.lock"}) {
    const auto lock = FileLock::Acquire(path() + "/" + name).value();
    EXPECT_NE(ExpectRefused(Code::kLocked).find(name), std::string::npos);
  }
  ExpectWhole();
}

TEST_F(DatabaseDropTest, NobodyOpensItMeanwhile) {
  const auto lock = FileLock::Acquire(HandlesLockPath(path())).value();
  OpenOptions reading;
  reading.read_only = true;
  for (const OpenOptions& options : {OpenOptions(), reading}) {
    const Status refused = Database::Open(path(), options).status();
    EXPECT_EQ(refused.code(), Code::kLocked);
    EXPECT_NE(refused.message().find("drops the database"), std::string::npos);
  }
}

TEST_F(DatabaseDropTest, WhatIsForeignStaysWithEverythingElse) {
  std::ofstream(path() + "/shards/0001/notes.txt") << "mine";
  const std::vector<std::string> before = Tree(path());
  const std::string refused = ExpectRefused(Code::kCorruption);
  EXPECT_TRUE(refused.starts_with(path() + "/shards/0001/notes.txt is not TopicDB's")) << refused;
  EXPECT_EQ(Tree(path()), before);
}

TEST_F(DatabaseDropTest, IsNoWayToRemoveAnythingElse) {
  const std::string other = database_ / "other";
  EXPECT_EQ(DropDatabase(other, false).status().code(), Code::kNotFound);
  fs::create_directory(other);
  EXPECT_EQ(DropDatabase(other, false).status().code(), Code::kNotFound) << "it is empty";
  EXPECT_TRUE(fs::exists(other));
  std::ofstream(other + "/notes.txt") << "mine";
  EXPECT_EQ(DropDatabase(other, false).status().code(), Code::kCorruption);
  EXPECT_EQ(DropDatabase(other + "/notes.txt", false).status().code(), Code::kCorruption);
  EXPECT_EQ(DropDatabase("", false).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(DropDatabase(std::string("a\0b", 3), false).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(fs::exists(other + "/notes.txt"));
}

TEST_F(DatabaseDropTest, ALinkIsNotTheDatabase) {
  const std::string link = database_ / "link";
  fs::create_directory_symlink(path(), link);
  EXPECT_EQ(DropDatabase(link, false).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(DropDatabase(link + "/", false).status().code(), Code::kInvalidArgument);
  ExpectWhole();
}

TEST_F(DatabaseDropTest, ADamagedDatabaseMayBeDropped) {
  std::ofstream(path() + "/TOPICDB") << "nonsense";
  fs::remove_all(database_.shard_path(1));
  EXPECT_EQ(StateOf(path()), DirectoryState::kDatabase);
  ASSERT_TRUE(Drop().ok());
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(DatabaseDropTest, WhatADropLeavesIsNamedAndFinished) {
  fs::rename(path() + "/TOPICDB", path() + "/DROPPING");
  fs::remove_all(database_.shard_path(0));
  EXPECT_EQ(StateOf(path()), DirectoryState::kDropping);
  OpenOptions reading;
  reading.read_only = true;
  for (const OpenOptions& options : {OpenOptions(), reading}) {
    const Status opened = Database::Open(path(), options).status();
    EXPECT_EQ(opened.code(), Code::kCorruption);
    EXPECT_NE(opened.message().find("the drop of the database " + path()), std::string::npos);
  }
  EXPECT_TRUE(fs::exists(database_.shard_path(1))) << "opening has changed nothing";
  ASSERT_TRUE(Drop().ok());
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(DatabaseDropTest, WhatACreationLeavesIsRemovedToo) {
  const std::string made = database_ / "made";
  fs::create_directories(made + "/shards/0000");
  std::ofstream(made + "/CREATING") << "";
  EXPECT_EQ(StateOf(made), DirectoryState::kCreating);
  ASSERT_TRUE(DropDatabase(made, false).ok());
  EXPECT_FALSE(fs::exists(made));
}

TEST_F(DatabaseDropTest, AnInterruptedDropGoesOnWithTheNext) {
  int looks = 0;
  // The two lists that come before the first removal look once for each directory.
  const auto interrupted = [&] { return ++looks > 20; };
  EXPECT_EQ(DropDatabase(path(), false, interrupted).status().code(), Code::kInterrupted);
  EXPECT_EQ(StateOf(path()), DirectoryState::kDropping);
  ASSERT_TRUE(Drop().ok());
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(DatabaseDropTest, TheMarkerIsDurableBeforeAnythingGoes) {
  bool is_marked = false;
  const DirectorySyncHook hook([&](const std::string& synced) {
    if (is_marked || synced != path()) return;
    is_marked = StateOf(path()) == DirectoryState::kDropping;
    EXPECT_TRUE(fs::exists(database_.shard_path(0) + "/CURRENT"));
    EXPECT_TRUE(fs::exists(database_.shard_path(1) + "/CURRENT"));
  });
  ASSERT_TRUE(Drop().ok());
  EXPECT_TRUE(is_marked);
}

// Directories

TEST_F(DatabaseDropTest, ListsWhatIsBelowADirectory) {
  const std::string directory = path().substr(0, path().rfind('/'));
  fs::create_directories(directory + "/mine");
  std::ofstream(directory + "/mine/notes.txt") << "x";
  std::ofstream(directory + "/file") << "x";
  fs::create_directories(directory + "/copy.partial");
  std::ofstream(directory + "/copy.partial/TOPICDB") << "x";
  fs::create_directories(directory + "/begun");
  std::ofstream(directory + "/begun/CREATING") << "";
  fs::create_directories(directory + "/going");
  std::ofstream(directory + "/going/DROPPING") << "";
  const auto found = ListDatabases(directory).value();
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].path, directory + "/begun");
  EXPECT_EQ(found[0].state, DirectoryState::kCreating);
  EXPECT_EQ(found[1].path, path());
  EXPECT_EQ(found[1].state, DirectoryState::kDatabase);
  EXPECT_EQ(found[2].path, directory + "/going");
  EXPECT_EQ(found[2].state, DirectoryState::kDropping);
  EXPECT_EQ(ListDatabases(directory + "/")->size(), 3U);
  EXPECT_EQ(ListDatabases(directory + "/none").status().code(), Code::kNotFound);
  EXPECT_EQ(ListDatabases(directory + "/file").status().code(), Code::kStorage);
}

TEST(LookAtDirectory, FindsNothingWhereNothingIs) {
  const TestDirectory directory;
  EXPECT_EQ(StateOf(directory / "none"), DirectoryState::kNothing);
  EXPECT_EQ(StateOf(directory / ""), DirectoryState::kNothing);
  std::ofstream(directory / "file") << "x";
  EXPECT_EQ(StateOf(directory / "file"), DirectoryState::kNothing);
  EXPECT_EQ(LookAtDirectory("").status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace topicdb
