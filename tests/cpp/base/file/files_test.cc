#include "base/file/files.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "in_child.h"
#include "test_directory.h"

namespace topicdb {
namespace {

TEST(Files, AnAtomicWriteReplacesTheWholeFile) {
  const TestDirectory directory;
  ASSERT_TRUE(WriteFileAtomically(directory / "f", "first, and longer").ok());
  ASSERT_TRUE(WriteFileAtomically(directory / "f", "second").ok());
  EXPECT_EQ(ReadFile(directory / "f", 100).value(), "second");
  EXPECT_EQ(ListDirectory(directory / "").value(), std::vector<std::string>{"f"});
}

TEST(Files, ReadingNamesWhatIsWrong) {
  const TestDirectory directory;
  EXPECT_EQ(ReadFile(directory / "none", 10).status().code(), Code::kNotFound);
  ASSERT_TRUE(WriteFileAtomically(directory / "f", "12345").ok());
  EXPECT_EQ(ReadFile(directory / "f", 4).status().code(), Code::kCorruption);
  EXPECT_NE(ReadFile(directory / "f", 4).status().message().find(directory / "f"),
            std::string::npos);
}

TEST(Files, ATreeIsRemovedWithAllThatIsInIt) {
  const TestDirectory directory;
  ASSERT_TRUE(MakeDirectory(directory / "d").ok());
  ASSERT_TRUE(MakeDirectory(directory / "d/e").ok());
  ASSERT_TRUE(WriteFileAtomically(directory / "d/e/f", "x").ok());
  EXPECT_TRUE(RemoveTree(directory / "d").ok());
  EXPECT_TRUE(ListDirectory(directory / "").value().empty());
  EXPECT_TRUE(RemoveTree(directory / "d").ok()) << "there is none";
}

TEST(FileLock, ExcludesASecondOneInTheProcess) {
  const TestDirectory directory;
  auto first = FileLock::Acquire(directory / "lock");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(FileLock::Acquire(directory / "lock").status().code(), Code::kLocked);
  first.value().reset();
  EXPECT_TRUE(FileLock::Acquire(directory / "lock").ok());
}

TEST(FileLock, IsWaitedForAsLongAsTheCallerSays) {
  const TestDirectory directory;
  auto first = FileLock::Acquire(directory / "lock");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(
      FileLock::AcquireWithin(directory / "lock", std::chrono::microseconds(0)).status().code(),
      Code::kLocked);
  std::thread holder([&] { first.value().reset(); });
  EXPECT_TRUE(FileLock::AcquireWithin(directory / "lock", std::chrono::hours(1)).ok());
  holder.join();
}

TEST(FileLock, NamesTheProcessThatHasIt) {
  const TestDirectory directory;
  int ready[2];
  int done[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    auto lock = FileLock::Acquire(directory / "lock");
    char byte = lock.ok() ? 'y' : 'n';
    if (write(ready[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1) _exit(1);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  const Status refused = FileLock::Acquire(directory / "lock").status();
  EXPECT_EQ(refused.code(), Code::kLocked);
  EXPECT_NE(refused.message().find("pid " + std::to_string(holder)), std::string::npos);
  ASSERT_EQ(write(done[1], &byte, 1), 1);
  waitpid(holder, nullptr, 0);
  EXPECT_TRUE(FileLock::Acquire(directory / "lock").ok());
}

TEST(FileLock, AChildIsToldThatItsParentHasIt) {
  const TestDirectory directory;
  auto lock = FileLock::Acquire(directory / "lock");
  ASSERT_TRUE(lock.ok());
  const std::string parent = "pid " + std::to_string(getpid());
  EXPECT_EQ(InChild([&] {
              const Status refused = FileLock::Acquire(directory / "lock").status();
              return refused.code() == Code::kLocked &&
                             refused.message().find(parent) != std::string::npos
                         ? 0
                         : 1;
            }),
            0);
  lock.value().reset();
  EXPECT_EQ(InChild([&] { return FileLock::Acquire(directory / "lock").ok() ? 0 : 1; }), 0);
}

TEST(SharedFileLock, ManyMayHaveItAndExcludeWhoWantsItAlone) {
  const TestDirectory directory;
  const std::string path = directory / "lock";
  ASSERT_TRUE(CreateIfMissing(path).ok());
  auto first = SharedFileLock::Acquire(path);
  auto second = SharedFileLock::Acquire(path);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE((*first)->file().CheckInPlace().ok());
  EXPECT_EQ(FileLock::Acquire(path).status().code(), Code::kLocked);
  first->reset();
  EXPECT_EQ(FileLock::Acquire(path).status().code(), Code::kLocked) << "the second still has it";
  second->reset();
  const auto alone = FileLock::Acquire(path);
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  EXPECT_EQ(SharedFileLock::Acquire(path).status().code(), Code::kLocked);
}

TEST(SharedFileLock, ProcessesShareItAndANameIsTold) {
  const TestDirectory directory;
  const std::string path = directory / "lock";
  ASSERT_TRUE(CreateIfMissing(path).ok());
  auto here = SharedFileLock::Acquire(path);
  ASSERT_TRUE(here.ok());
  const std::string parent = "pid " + std::to_string(getpid());
  EXPECT_EQ(InChild([&] {
              const Status alone = FileLock::Acquire(path).status();
              const bool is_told = alone.message().find(parent) != std::string::npos;
              return alone.code() == Code::kLocked && is_told && SharedFileLock::Acquire(path).ok()
                         ? 0
                         : 1;
            }),
            0);
  EXPECT_EQ(InChild([&] { return FileLock::Acquire(path).ok() ? 1 : 0; }), 0)
      << "what the first child had and gave back has not taken it from this process";
  here->reset();
  EXPECT_EQ(InChild([&] { return FileLock::Acquire(path).ok() ? 0 : 1; }), 0);
}

TEST(SharedFileLock, NeedsAFile) {
  const TestDirectory directory;
  EXPECT_EQ(SharedFileLock::Acquire(directory / "lock").status().code(), Code::kStorage);
  EXPECT_FALSE(Exists(directory / "lock"));
}

}  // namespace
}  // namespace topicdb
