#include "base/file/system_calls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "base/file/file.h"
#include "base/file/files.h"
#include "test_directory.h"

namespace topicdb {
namespace {

class SystemCalls : public ::testing::Test {
 protected:
  const TestDirectory directory_;
  const std::string a_ = directory_ / "a";
  const std::string b_ = directory_ / "b";
};

TEST_F(SystemCalls, NamesAreExchanged) {
  ASSERT_TRUE(WriteFileAtomically(a_, "was a").ok());
  ASSERT_TRUE(MakeDirectory(b_).ok());
  const int error = ExchangeNames(a_, b_);
  if (error == EINVAL || error == ENOSYS || error == ENOTSUP) GTEST_SKIP() << "not on this system";
  ASSERT_EQ(error, 0);
  EXPECT_TRUE(std::filesystem::is_directory(a_));
  EXPECT_EQ(ReadFile(b_, 100).value(), "was a");
  EXPECT_EQ(ExchangeNames(a_, directory_ / "none"), ENOENT);
}

TEST_F(SystemCalls, TheTimeOfAChangeIsThatOfTheContent) {
  ASSERT_TRUE(WriteFileAtomically(a_, "x").ok());
  const timespec times[2] = {{1, 2}, {1'234'567, 0}};  // of the last read, of the last change
  ASSERT_EQ(utimensat(AT_FDCWD, a_.c_str(), times, 0), 0);
  struct stat info{};
  ASSERT_EQ(stat(a_.c_str(), &info), 0);
  EXPECT_EQ(ChangeTime(info).tv_sec, 1'234'567);
}

TEST_F(SystemCalls, FilesAndDirectoriesAreSynced) {
  const int file = open(a_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  const int directory = open(std::string(directory_ / ".").c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(SyncToDevice(file), 0);
  EXPECT_EQ(SyncDirectoryToDevice(directory), 0);
  close(file);
  close(directory);
  EXPECT_EQ(SyncToDevice(-1), EBADF);
  EXPECT_EQ(SyncDirectoryToDevice(-1), EBADF);
}

TEST_F(SystemCalls, ReservedSpaceDoesNotChangeTheSize) {
  const int file = open(a_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  EXPECT_EQ(ReserveSpace(file, 100'000), 0);
  struct stat info{};
  ASSERT_EQ(fstat(file, &info), 0);
  EXPECT_EQ(info.st_size, 0);
  close(file);
}

TEST_F(SystemCalls, ReleasedSpaceLeavesTheRestAsItIs) {
  const std::string before(300'000, 'x');
  ASSERT_TRUE(WriteFileAtomically(a_, before).ok());
  const int file = open(a_.c_str(), O_RDWR | O_CLOEXEC);
  ReleaseSpace(file, 100'000, 100'000);
  close(file);
  const std::string after = ReadFile(a_, 1'000'000).value();
  ASSERT_EQ(after.size(), before.size());
  EXPECT_EQ(after.substr(0, 100'000), before.substr(0, 100'000));
  EXPECT_EQ(after.substr(200'000), before.substr(200'000));
  const std::string released = after.substr(100'000, 100'000);
  EXPECT_TRUE(released == std::string(100'000, '\0') || released == before.substr(0, 100'000));
}

TEST_F(SystemCalls, APipeHasAReadingAndAWritingEnd) {
  const auto ends = MakePipe();
  ASSERT_TRUE(ends.has_value());
  const auto [reader, writer] = *ends;
  char read_back = 0;
  EXPECT_EQ(write(writer, "x", 1), 1);
  EXPECT_EQ(read(reader, &read_back, 1), 1);
  EXPECT_EQ(read_back, 'x');
  EXPECT_NE(fcntl(reader, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(fcntl(writer, F_GETFD) & FD_CLOEXEC, 0);
  close(reader);
  close(writer);
}

TEST_F(SystemCalls, TheStartOfTheMachineHasOneName) {
  EXPECT_EQ(BootIdText(), BootIdText());
  EXPECT_GE(BootIdText().size(), 32U);
}

}  // namespace
}  // namespace topicdb
