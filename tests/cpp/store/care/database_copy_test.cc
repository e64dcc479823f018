#include "store/care/database_copy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file/files.h"
#include "test_directory.h"

namespace topicdb {
namespace {

namespace fs = std::filesystem;

// A directory with files that stand for those of a database.
class DatabaseCopyTest : public ::testing::Test {
 protected:
  DatabaseCopyTest() {
    Write("db/TOPICDB", "descriptor");
    Write("db/retention", "rules");
    Write("db/shards/0000/1.sst", "a table file");
    Write("db/shards/0000/2.log", "a log that grows");
  }

  void Write(const std::string& name, const std::string& content) const {
    const fs::path path = directory_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << content;
  }
  std::string Read(const std::string& name) const {
    return ReadFile(directory_ / name, 1'000).value();
  }
  bool Exists(const std::string& name) const { return fs::exists(directory_ / name); }
  rocks::LiveFile Table() const {
    return {directory_ / "db/shards/0000/1.sst", "1.sst", 12, true, {}};
  }
  rocks::LiveFile Log() const {
    return {directory_ / "db/shards/0000/2.log", "2.log", 5, false, {}};
  }

  Result<std::unique_ptr<DatabaseCopy>> Begin(const CopyOptions& options = {},
                                              bool replaces = false) const {
    return DatabaseCopy::Begin(directory_ / "copy", options, replaces, {});
  }
  // Makes a copy of shard 0 with these files.
  CopyCounts Copy(const std::vector<rocks::LiveFile>& files, const CopyOptions& options = {},
                  bool replaces = false) const {
    const auto copy = Begin(options, replaces);
    EXPECT_TRUE(copy.ok()) << copy.status().message();
    EXPECT_TRUE((*copy)->AddShard(0, files).ok());
    const auto counts = (*copy)->Finish(directory_ / "db");
    EXPECT_TRUE(counts.ok()) << counts.status().message();
    return counts.ok() ? *counts : CopyCounts();
  }

  const TestDirectory directory_;
};

TEST_F(DatabaseCopyTest, HasWhatWasAddedAndThenTheDescriptor) {
  const auto copy = Begin().value();
  ASSERT_TRUE(copy->AddFile(directory_ / "db", "retention").ok());
  ASSERT_TRUE(copy->AddFile(directory_ / "db", "absent").ok());
  ASSERT_TRUE(copy->AddShard(0, {Table(), Log()}).ok());
  EXPECT_FALSE(Exists("copy"));
  EXPECT_FALSE(Exists("copy.partial/TOPICDB"));
  const auto counts = copy->Finish(directory_ / "db");
  ASSERT_TRUE(counts.ok()) << counts.status().message();
  EXPECT_FALSE(Exists("copy.partial"));
  EXPECT_EQ(Read("copy/TOPICDB"), "descriptor");
  EXPECT_EQ(Read("copy/retention"), "rules");
  EXPECT_EQ(Read("copy/shards/0000/1.sst"), "a table file");
  EXPECT_EQ(Read("copy/shards/0000/2.log"), "a log") << "what it had at that moment";
  EXPECT_EQ(counts->files, 4U);
  EXPECT_EQ(counts->bytes, 5U + 12 + 5 + 10);
  EXPECT_EQ(counts->copied_bytes, 5U + 5 + 10);
}

TEST_F(DatabaseCopyTest, LinksOnlyFilesThatNeverChange) {
  Copy({Table(), Log()});
  EXPECT_TRUE(fs::equivalent(directory_ / "copy/shards/0000/1.sst", Table().path));
  EXPECT_FALSE(fs::equivalent(directory_ / "copy/shards/0000/2.log", Log().path));
}

TEST_F(DatabaseCopyTest, LinksNothingIfItIsTold) {
  CopyOptions options;
  options.copies_all = true;
  const CopyCounts counts = Copy({Table()}, options);
  EXPECT_FALSE(fs::equivalent(directory_ / "copy/shards/0000/1.sst", Table().path));
  EXPECT_EQ(counts.copied_bytes, counts.bytes);
}

TEST_F(DatabaseCopyTest, LinksWhatItsBaseHasAlready) {
  CopyOptions options;
  options.copies_all = true;
  Copy({Table(), Log()}, options);
  fs::rename(directory_ / "copy", directory_ / "base");
  options.base = directory_ / "base";
  const CopyCounts counts = Copy({Table(), Log()}, options);
  EXPECT_TRUE(
      fs::equivalent(directory_ / "copy/shards/0000/1.sst", directory_ / "base/shards/0000/1.sst"));
  EXPECT_FALSE(
      fs::equivalent(directory_ / "copy/shards/0000/2.log", directory_ / "base/shards/0000/2.log"));
  EXPECT_EQ(counts.copied_bytes, 5U + 10);
  fs::remove_all(directory_ / "copy");
  Write("base/shards/0000/1.sst", "another file");
  EXPECT_EQ(Copy({Table()}, options).copied_bytes, 12U + 10) << "of that name it has another one";
  EXPECT_EQ(Read("copy/shards/0000/1.sst"), "a table file");
}

TEST_F(DatabaseCopyTest, AFileMayHaveAnotherContent) {
  rocks::LiveFile current = Log();
  current.name = "CURRENT";
  current.content = "MANIFEST-000005\n";
  Copy({current});
  EXPECT_EQ(Read("copy/shards/0000/CURRENT"), "MANIFEST-000005\n");
}

TEST_F(DatabaseCopyTest, TakesTheFilesOfJobs) {
  Write("db/jobs/j/a.staged", "staged");
  Write("db/jobs/j/a.pages", "pages");
  Write("db/jobs/7-j.intent", "intent");
  const auto copy = Begin().value();
  ASSERT_TRUE(copy->AddJobs(directory_ / "db").ok());
  ASSERT_TRUE(copy->Finish(directory_ / "db").ok());
  EXPECT_EQ(Read("copy/jobs/j/a.staged"), "staged");
  EXPECT_EQ(Read("copy/jobs/j/a.pages"), "pages");
  EXPECT_EQ(Read("copy/jobs/7-j.intent"), "intent");
}

TEST_F(DatabaseCopyTest, WithoutJobsThereIsNoDirectoryOfThem) {
  const auto copy = Begin().value();
  ASSERT_TRUE(copy->AddJobs(directory_ / "db").ok());
  ASSERT_TRUE(copy->Finish(directory_ / "db").ok());
  EXPECT_FALSE(Exists("copy/jobs"));
}

TEST_F(DatabaseCopyTest, WhatIsNotFinishedLeavesNothing) {
  {
    const auto copy = Begin().value();
    ASSERT_TRUE(copy->AddShard(0, {Table()}).ok());
    EXPECT_TRUE(Exists("copy.partial"));
  }
  EXPECT_FALSE(Exists("copy.partial"));
  EXPECT_FALSE(Exists("copy"));
}

TEST_F(DatabaseCopyTest, WhatIsInTheWayIsNotOverwritten) {
  Write("copy", "a file");
  EXPECT_EQ(Begin().status().code(), Code::kExists);
  EXPECT_EQ(Read("copy"), "a file");
  fs::remove(directory_ / "copy");
  fs::create_symlink(directory_ / "nowhere", directory_ / "copy");
  EXPECT_EQ(Begin().status().code(), Code::kExists) << "a link that leads nowhere";
  fs::remove(directory_ / "copy");
  Write("copy.partial/notes.txt", "mine");
  const Status refused = Begin().status();
  EXPECT_EQ(refused.code(), Code::kExists);
  EXPECT_NE(refused.message().find("copy.partial"), std::string::npos) << refused.message();
  EXPECT_EQ(Read("copy.partial/notes.txt"), "mine");
}

TEST_F(DatabaseCopyTest, WhatACopyHasLeftThatWasCutShortIsRemoved) {
  Write("copy.partial/TOPICDB", "old");
  Write("copy.partial/shards/0009/1.sst", "old");
  Copy({Table()});
  EXPECT_FALSE(Exists("copy/shards/0009"));
  EXPECT_EQ(Read("copy/TOPICDB"), "descriptor");
}

TEST_F(DatabaseCopyTest, ReplacesADatabaseIfItIsTold) {
  Write("copy/TOPICDB", "old");
  Write("copy/shards/0000/old.sst", "old");
  const CopyOptions options;
  EXPECT_EQ(Begin(options, /*replaces=*/false).status().code(), Code::kExists);
  Copy({Table()}, options, /*replaces=*/true);
  EXPECT_EQ(Read("copy/TOPICDB"), "descriptor");
  EXPECT_FALSE(Exists("copy/shards/0000/old.sst"));
  EXPECT_FALSE(Exists("copy.partial"));
}

TEST_F(DatabaseCopyTest, IfItReplacesNothingItIsACopyLikeOthers) {
  Copy({Table()}, {}, /*replaces=*/true);
  EXPECT_EQ(Read("copy/shards/0000/1.sst"), "a table file");
}

TEST_F(DatabaseCopyTest, SlashesAtTheEndOfThePathDoNotMatter) {
  const auto copy = DatabaseCopy::Begin(directory_ / "copy//", {}, false, {}).value();
  ASSERT_TRUE(copy->Finish(directory_ / "db").ok());
  EXPECT_EQ(Read("copy/TOPICDB"), "descriptor");
}

TEST_F(DatabaseCopyTest, APathMustBeOne) {
  for (const std::string& path : {std::string(), std::string("a\0b", 3)}) {
    EXPECT_EQ(DatabaseCopy::Begin(path, {}, false, {}).status().code(), Code::kInvalidArgument);
  }
}

TEST_F(DatabaseCopyTest, MayBeInterrupted) {
  int files = 0;
  const auto copy =
      DatabaseCopy::Begin(directory_ / "copy", {}, false, [&] { return ++files > 1; }).value();
  EXPECT_TRUE(copy->AddShard(0, {Table()}).ok());
  EXPECT_EQ(copy->AddShard(1, {Table()}).code(), Code::kInterrupted);
}

TEST_F(DatabaseCopyTest, AFileThatIsShorterThanItWasIsAnError) {
  rocks::LiveFile log = Log();
  log.bytes = 1'000;
  const auto copy = Begin().value();
  EXPECT_EQ(copy->AddShard(0, {log}).code(), Code::kCorruption);
}

}  // namespace
}  // namespace topicdb
