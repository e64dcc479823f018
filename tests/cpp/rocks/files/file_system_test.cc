#include "rocks/files/file_system.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "test_directory.h"

namespace topicdb::rocks {
namespace {

std::ptrdiff_t OpenDescriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST(FileSystem, ADirectoryIsOpenOnceHoweverManyHoldIt) {
  const TestDirectory directory;
  const auto& files = EnvOf(FilesOwner::kWriter)->GetFileSystem();
  const std::ptrdiff_t before = OpenDescriptors();
  std::vector<std::unique_ptr<rocksdb::FSDirectory>> held(20);
  for (auto& one : held) {
    ASSERT_TRUE(files->NewDirectory(directory / ".", {}, &one, nullptr).ok());
  }
  EXPECT_EQ(OpenDescriptors(), before + 1);
  EXPECT_TRUE(held.front()->Close({}, nullptr).ok());
  held.erase(held.begin(), held.end() - 1);
  EXPECT_TRUE(held.front()->Fsync({}, nullptr).ok());
  held.clear();
  EXPECT_EQ(OpenDescriptors(), before);
  EXPECT_TRUE(
      files->NewDirectory(directory / "none", {}, &held.emplace_back(), nullptr).IsPathNotFound());
}

TEST(FileSystem, NoOptionsAreStored) {
  const TestDirectory directory;
  std::unique_ptr<rocksdb::FSWritableFile> file;
  const auto& files = EnvOf(FilesOwner::kWriter)->GetFileSystem();
  const std::string path = directory / "OPTIONS-000007.dbtmp";
  EXPECT_TRUE(files->NewWritableFile(path, {}, &file, nullptr).IsNotSupported());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(files->NewWritableFile(directory / "000008.sst", {}, &file, nullptr).ok());
}

// A RocksDB that writes a log in a directory, with the file system of writers.
class WritingTest : public ::testing::Test {
 protected:
  WritingTest() {
    std::filesystem::create_directory(path_);
    EXPECT_TRUE(files_->NewDirectory(path_, {}, &held_, nullptr).ok());
    log_ = Make(path_ + "/000001.log");
  }
  std::unique_ptr<rocksdb::FSWritableFile> Make(const std::string& path) const {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    status_ = files_->NewWritableFile(path, {}, &file, nullptr);
    return file;
  }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "shard";
  const std::shared_ptr<rocksdb::FileSystem> files_ = EnvOf(FilesOwner::kWriter)->GetFileSystem();
  std::unique_ptr<rocksdb::FSDirectory> held_;
  std::unique_ptr<rocksdb::FSWritableFile> log_;
  mutable rocksdb::IOStatus status_;
};

TEST_F(WritingTest, ChangesFilesWhileTheDirectoryIsInPlace) {
  ASSERT_TRUE(status_.ok());
  Make(path_ + "/000002.sst");
  EXPECT_TRUE(status_.ok());
  EXPECT_TRUE(files_->RenameFile(path_ + "/000002.sst", path_ + "/000003.sst", {}, nullptr).ok());
  EXPECT_TRUE(files_->DeleteFile(path_ + "/000003.sst", {}, nullptr).ok());
  const auto next = Make(path_ + "/000004.log");
  EXPECT_TRUE(files_->DeleteFile(path_ + "/000001.log", {}, nullptr).ok());
  Make(path_ + "/000005.sst");
  EXPECT_TRUE(status_.ok()) << status_.ToString();
}

TEST_F(WritingTest, ChangesNothingInADirectoryThatHasItsPathNow) {
  std::filesystem::rename(path_, path_ + ".old");
  std::filesystem::create_directory(path_);
  std::filesystem::copy_file(path_ + ".old/000001.log", path_ + "/000001.log");
  EXPECT_EQ(Make(path_ + "/000002.sst"), nullptr);
  EXPECT_TRUE(status_.IsIOError());
  EXPECT_NE(status_.ToString().find("is another file now"), std::string::npos);
  EXPECT_TRUE(files_->DeleteFile(path_ + "/000001.log", {}, nullptr).IsIOError());
  EXPECT_TRUE(files_->RenameFile(path_ + "/000001.log", path_ + "/x", {}, nullptr).IsIOError());
  EXPECT_TRUE(std::filesystem::exists(path_ + "/000001.log"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_), {}), 1);
}

}  // namespace
}  // namespace topicdb::rocks
