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

}  // namespace
}  // namespace topicdb::rocks
