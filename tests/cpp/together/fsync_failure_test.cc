// Tests what happens when an fsync fails, and has the functions that fsyncs.h is about.

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>

#include "base/file/files.h"
#include "fsyncs.h"
#include "test_directory.h"
#include "topicdb/database.h"
#include "topicdb/job.h"
#include "topicdb/transaction.h"

namespace {
std::atomic<int> fsyncs{0};

std::string PathOf(int descriptor) {
  std::error_code error;
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  return std::filesystem::read_symlink(link, error).string();
}
}  // namespace

extern "C" int fdatasync(int descriptor) {
  if (topicdb::fsync_fails) {
    errno = EIO;
    return -1;
  }
  ++fsyncs;
  const int outcome = static_cast<int>(syscall(SYS_fdatasync, descriptor));
  if (outcome == 0) topicdb::FsyncHook::Call(PathOf(descriptor));
  return outcome;
}

extern "C" int fsync(int descriptor) {
  const char* needed = topicdb::fsync_needs;
  if (needed != nullptr && access(needed, F_OK) != 0) {
    errno = EIO;
    return -1;
  }
  const int outcome = static_cast<int>(syscall(SYS_fsync, descriptor));
  if (outcome == 0) topicdb::DirectorySyncHook::Call(PathOf(descriptor));
  return outcome;
}

namespace topicdb {
namespace {

Status AppendOne(Database& database, std::string_view topic, Durability durability) {
  const std::vector<MessageView> messages{{topic, 1, "x"}};
  return database.Append(messages, durability).status();
}

std::size_t Count(const Database& database) {
  const auto scan = database.NewScan(Filter::Parse("#").value(), {}).value();
  std::size_t count = 0;
  while (const auto batch = scan->Next({}).value()) count += batch->size();
  return count;
}

TEST(FsyncFailure, OnlyDurableCommitsFsync) {
  const TestDirectory directory;
  const auto database = Database::Open(directory / "db", {}).value();
  ASSERT_TRUE(AppendOne(*database, "first", Durability::kOs).ok());  // reserves serials
  const int before = fsyncs;
  ASSERT_TRUE(AppendOne(*database, "a", Durability::kOs).ok());
  EXPECT_EQ(fsyncs, before);
  ASSERT_TRUE(AppendOne(*database, "b", Durability::kDisk).ok());
  EXPECT_EQ(fsyncs, before + 1);
}

TEST(FsyncFailure, ItStopsWritingUntilTheDatabaseIsOpenedAgain) {
  const TestDirectory directory;
  {
    const auto database = Database::Open(directory / "db", {}).value();
    ASSERT_TRUE(AppendOne(*database, "a", Durability::kDisk).ok());
    fsync_fails = true;
    const Status failed = AppendOne(*database, "b", Durability::kDisk);
    fsync_fails = false;
    EXPECT_EQ(failed.code(), Code::kStorage);
    EXPECT_NE(failed.message().find("may be gone after a loss of power"), std::string::npos)
        << failed.message();
    EXPECT_EQ(Count(*database), 2U) << "it is visible, as the message says";
    for (const Durability durability : {Durability::kNone, Durability::kOs, Durability::kDisk}) {
      const Status refused = AppendOne(*database, "c", durability);
      EXPECT_EQ(refused.code(), Code::kStorage);
      EXPECT_NE(refused.message().find("close and reopen"), std::string::npos) << refused.message();
    }
    const auto transaction = database->Begin({}).value();
    ASSERT_TRUE(transaction->Write({"d", 1, "x"}).ok());
    EXPECT_EQ(transaction->Commit().status().code(), Code::kStorage);
    EXPECT_EQ(database->Delete(Filter::Parse("#").value(), {}).status().code(), Code::kStorage);
  }
  const auto database = Database::Open(directory / "db", {}).value();
  EXPECT_EQ(Count(*database), 2U) << "no power was lost";
  EXPECT_TRUE(AppendOne(*database, "c", Durability::kDisk).ok());
}

TEST(FsyncFailure, AJobWhoseFilesCannotBeRemovedIsCommitted) {
  const TestDirectory directory;
  ASSERT_TRUE(Database::Open(directory / "db", {}).ok());
  const auto writer = StagedWriter::Open(directory / "db", "job", {}).value();
  const std::vector<MessageView> messages{{"a", 1, "x"}};
  ASSERT_TRUE(writer->Append(messages).ok());
  JobCommit commit;
  commit.job = "job";
  commit.files = {writer->Finish()->file};
  const std::string staged = directory / "db/jobs/job";
  fsync_needs = staged.c_str();  // from the removal of the job's files on
  const auto receipt = CommitJob(directory / "db", commit);
  fsync_needs = nullptr;
  ASSERT_TRUE(receipt.ok()) << receipt.status().message();
  EXPECT_EQ(receipt->messages, 1U);
  EXPECT_EQ(receipt->serials.size(), 1U);
  EXPECT_FALSE(ListDirectory(directory / "db/jobs")->empty()) << "the removal was cut short";
  const auto database = Database::Open(directory / "db", {}).value();
  EXPECT_EQ(Count(*database), 1U);
  EXPECT_TRUE(ListDirectory(directory / "db/jobs")->empty()) << "the opening swept it";
}

}  // namespace
}  // namespace topicdb
