#include "rocks/files/object_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <rocksdb/file_system.h>

#include "test_directory.h"

namespace topicdb::rocks {
namespace {

// One object, and the requests for it. Not thread-safe.
class OneObject : public ObjectReader {
 public:
  explicit OneObject(std::size_t bytes) : content(bytes, '\0') {
    for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(i / 1'000 + i);
  }
  Status Read(const std::string&, std::uint64_t offset, std::span<char> to) override {
    requests.push_back(to.size());
    if (!failure.ok()) return failure;
    std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
    return Status::Ok();
  }
  std::string content;
  std::vector<std::size_t> requests;
  Status failure;
};

class ObjectFilesTest : public ::testing::Test {
 protected:
  std::string Read(std::uint64_t offset, std::size_t size) {
    std::string bytes(size, '\0');
    const auto read = file_.Read(offset, size, bytes.data());
    EXPECT_TRUE(read.ok()) << read.status().message();
    bytes.resize(read.ok() ? *read : 0);
    return bytes;
  }

  static constexpr std::size_t kBytes = 40 * kChunkBytes + 123;
  ChunkCache cache_{64 << 20};
  const std::shared_ptr<OneObject> object_ = std::make_shared<OneObject>(kBytes);
  ObjectFile file_{object_, "store://b", "files/x", kBytes, &cache_};
};

TEST_F(ObjectFilesTest, GivesTheBytesOfTheObject) {
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{kChunkBytes - 7},
                                     std::uint64_t{kBytes - 10}, std::uint64_t{kBytes}}) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{20}, 3 * kChunkBytes}) {
      const std::string expected =
          offset < kBytes ? object_->content.substr(offset, size) : std::string();
      EXPECT_EQ(Read(offset, size), expected) << offset << " " << size;
    }
  }
}

TEST_F(ObjectFilesTest, ReadsFurtherAheadTheLongerItIsReadInOrder) {
  for (std::uint64_t at = 0; at < kBytes; at += 10'000) Read(at, 10'000);
  const std::vector<std::size_t> chunks{1, 2, 4, 8, 16};
  ASSERT_EQ(object_->requests.size(), chunks.size() + 1);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    EXPECT_EQ(object_->requests[i], chunks[i] * kChunkBytes);
  }
}

TEST_F(ObjectFilesTest, ReadsNothingAheadElsewhere) {
  Read(30 * kChunkBytes, 10);
  Read(10 * kChunkBytes, 10);
  Read(20 * kChunkBytes, 10);
  EXPECT_EQ(object_->requests, (std::vector<std::size_t>{kChunkBytes, kChunkBytes, kChunkBytes}));
}

TEST_F(ObjectFilesTest, AsksOnceForWhatItHas) {
  Read(kChunkBytes, 2 * kChunkBytes);
  Read(kChunkBytes, 2 * kChunkBytes);
  EXPECT_EQ(object_->requests, (std::vector<std::size_t>{2 * kChunkBytes}));
}

TEST_F(ObjectFilesTest, AFailureNamesThePlaceAndIsNotKept) {
  object_->failure = StorageFault("files/x: no route to host");
  char byte = 0;
  const auto read = file_.Read(5, 1, &byte);
  EXPECT_EQ(read.status().code(), Code::kStorage);
  EXPECT_EQ(read.status().message(), "store://b: files/x: no route to host");
  object_->failure = Status();
  EXPECT_EQ(Read(5, 1), object_->content.substr(5, 1));
}

TEST_F(ObjectFilesTest, TheEnvironmentHasFilesAndObjects) {
  const TestDirectory directory;
  const std::string path = directory / "1.sst";
  const auto env = MakeObjectEnv(
      {{path, std::make_shared<ObjectFile>(object_, "store://b", "files/x", kBytes, &cache_)}});
  rocksdb::FileSystem& files = *env->GetFileSystem();
  std::uint64_t bytes = 0;
  ASSERT_TRUE(files.GetFileSize(path, {}, &bytes, nullptr).ok());
  EXPECT_EQ(bytes, kBytes);
  EXPECT_TRUE(files.FileExists(path, {}, nullptr).ok());
  EXPECT_TRUE(files.FileExists(directory / "2.sst", {}, nullptr).IsNotFound());
  std::vector<std::string> names;
  ASSERT_TRUE(files.GetChildren(directory / "", {}, &names, nullptr).ok());
  EXPECT_TRUE(object_->requests.empty());

  std::unique_ptr<rocksdb::FSRandomAccessFile> opened;
  ASSERT_TRUE(files.NewRandomAccessFile(path, {}, &opened, nullptr).ok());
  EXPECT_TRUE(object_->requests.empty());
  object_->failure = NotFound("files/x is missing");
  char scratch = 0;
  rocksdb::Slice read;
  EXPECT_TRUE(opened->Read(0, 1, {}, &read, &scratch, nullptr).IsPathNotFound());
}

}  // namespace
}  // namespace topicdb::rocks
