#include "rocks/files/object_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <rocksdb/file_system.h>

#include "base/thread/mutex.h"
#include "rocks/files/chunk_cache.h"
#include "rocks/files/read_ahead.h"
#include "test_directory.h"

namespace topicdb::rocks {
namespace {

// One object, and the requests for it. Thread-safe.
class OneObject : public ObjectReader {
 public:
  explicit OneObject(std::size_t bytes) : content(bytes, '\0') {
    for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(i / 1'000 + i);
  }

  Status Read(const StoredObject& object, std::uint64_t offset, std::span<char> to) override {
    EXPECT_EQ(object.bytes, content.size());
    {
      const MutexLock lock(mutex_);
      requests_[offset / kChunkBytes] = (to.size() + kChunkBytes - 1) / kChunkBytes;
      bytes_ += to.size();
      changed_.NotifyAll();
      while (held_.contains(offset / kChunkBytes)) changed_.Wait(mutex_);
      if (failed_.contains(offset / kChunkBytes)) return StorageFault("files/x: no route to host");
    }
    std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
    return Status::Ok();
  }
  bool IsInterrupted() override {
    const MutexLock lock(mutex_);
    has_waiter_ = true;
    changed_.NotifyAll();
    return interrupted;
  }

  // Requests that begin with this chunk wait until Release, or fail until Mend.
  void Hold(std::uint64_t chunk) {
    const MutexLock lock(mutex_);
    held_.insert(chunk);
  }
  void Release(std::uint64_t chunk) {
    const MutexLock lock(mutex_);
    held_.erase(chunk);
    changed_.NotifyAll();
  }
  void Fail(std::uint64_t chunk) {
    const MutexLock lock(mutex_);
    failed_.insert(chunk);
  }
  void Mend() {
    const MutexLock lock(mutex_);
    failed_.clear();
  }
  // Waits for a request that begins with this chunk, and returns how many chunks it is for.
  std::uint64_t AwaitRequest(std::uint64_t chunk) {
    const MutexLock lock(mutex_);
    while (!requests_.contains(chunk)) changed_.Wait(mutex_);
    return requests_[chunk];
  }
  // Waits until a reader waits for a request of another thread.
  void AwaitWaiter() {
    const MutexLock lock(mutex_);
    while (!has_waiter_) changed_.Wait(mutex_);
  }
  // Returns the requests so far: the first chunk of each, and how many these are.
  std::map<std::uint64_t, std::uint64_t> requests() const {
    const MutexLock lock(mutex_);
    return requests_;
  }
  // Returns how many bytes were asked for.
  std::uint64_t bytes() const {
    const MutexLock lock(mutex_);
    return bytes_;
  }

  std::string content;
  std::atomic<bool> interrupted{false};

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::set<std::uint64_t> held_ TOPICDB_GUARDED_BY(mutex_);
  std::set<std::uint64_t> failed_ TOPICDB_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::uint64_t> requests_ TOPICDB_GUARDED_BY(mutex_);
  std::uint64_t bytes_ TOPICDB_GUARDED_BY(mutex_) = 0;
  bool has_waiter_ TOPICDB_GUARDED_BY(mutex_) = false;
};

using Requests = std::map<std::uint64_t, std::uint64_t>;

class ObjectFilesTest : public ::testing::Test {
 protected:
  ~ObjectFilesTest() override { ahead_.reset(); }  // it fetches for the file

  std::string Read(std::uint64_t offset, std::size_t size) {
    std::string bytes(size, '\0');
    const auto read = file_.Read(offset, size, bytes.data());
    EXPECT_TRUE(read.ok()) << read.status().message();
    bytes.resize(read.ok() ? *read : 0);
    return bytes;
  }
  // Reads one byte of a chunk.
  Status Touch(std::uint64_t chunk) {
    char byte = 0;
    return file_.Read(chunk * kChunkBytes + 1, 1, &byte).status();
  }

  static constexpr std::size_t kBytes = 40 * kChunkBytes + 123;
  ChunkCache cache_{64 << 20};
  const std::shared_ptr<OneObject> object_ = std::make_shared<OneObject>(kBytes);
  std::unique_ptr<ReadAhead> ahead_ = std::make_unique<ReadAhead>();
  ObjectFile file_{object_, "store://b", {"files/x", kBytes}, &cache_, ahead_.get()};
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

TEST_F(ObjectFilesTest, FetchesAheadOfAReaderThatGoesOn) {
  EXPECT_TRUE(Touch(0).ok());
  EXPECT_EQ(object_->requests(), (Requests{{0, 1}}));
  EXPECT_TRUE(Touch(1).ok());
  EXPECT_EQ(object_->requests(), (Requests{{0, 1}, {1, 2}}));
  EXPECT_TRUE(Touch(2).ok());
  EXPECT_EQ(object_->AwaitRequest(3), 4U);  // and nobody has asked for chunk 3
  EXPECT_TRUE(Touch(3).ok());
  EXPECT_EQ(object_->AwaitRequest(7), kChunksMax);
}

TEST_F(ObjectFilesTest, FetchesEachByteOnceFromFrontToBack) {
  for (std::uint64_t at = 0; at < kBytes; at += 10'000) {
    EXPECT_EQ(Read(at, 10'000), object_->content.substr(at, 10'000));
  }
  EXPECT_EQ(object_->bytes(), kBytes);
}

TEST_F(ObjectFilesTest, GoesOnAtSeveralPlaces) {
  for (const std::uint64_t step : {0, 1, 2}) {
    for (const std::uint64_t place : {0, 20, 30}) EXPECT_TRUE(Touch(place + step).ok());
  }
  for (const std::uint64_t place : {0, 20, 30}) EXPECT_EQ(object_->AwaitRequest(place + 3), 4U);
}

TEST_F(ObjectFilesTest, FetchesNothingAheadHereAndThere) {
  const std::vector<std::uint64_t> places{30, 10, 20, 11, 5, 31};
  for (const std::uint64_t place : places) EXPECT_TRUE(Touch(place).ok());
  EXPECT_EQ(object_->requests(), (Requests{{30, 1}, {10, 1}, {20, 1}, {11, 2}, {5, 1}, {31, 2}}));
}

TEST_F(ObjectFilesTest, AsksForNothingThatIsThere) {
  EXPECT_TRUE(Touch(2).ok());
  Read(kChunkBytes, 2 * kChunkBytes);
  Read(kChunkBytes, 2 * kChunkBytes);
  EXPECT_EQ(object_->requests(), (Requests{{2, 1}, {1, 1}}));
}

TEST_F(ObjectFilesTest, ReadersOfOneChunkWaitForOneRequest) {
  object_->Hold(5);
  std::thread first([&] { EXPECT_TRUE(Touch(5).ok()); });
  object_->AwaitRequest(5);
  std::thread second([&] { EXPECT_TRUE(Touch(5).ok()); });
  EXPECT_TRUE(Touch(9).ok());  // no reader of other chunks waits
  object_->Release(5);
  first.join();
  second.join();
  EXPECT_EQ(object_->bytes(), 2 * kChunkBytes);
}

TEST_F(ObjectFilesTest, AFailureNamesThePlaceAndIsNotKept) {
  object_->Fail(5);
  EXPECT_EQ(Touch(5).code(), Code::kStorage);
  EXPECT_EQ(Touch(5).message(), "store://b: files/x: no route to host");
  object_->Mend();
  EXPECT_TRUE(Touch(5).ok());
}

TEST_F(ObjectFilesTest, OnlyAReaderThatNeedsAChunkLearnsOfItsFailure) {
  object_->Fail(3);
  object_->Hold(3);
  for (const std::uint64_t chunk : {0, 1, 2}) EXPECT_TRUE(Touch(chunk).ok());
  object_->AwaitRequest(3);
  std::thread reader([&] { EXPECT_EQ(Touch(4).code(), Code::kStorage); });
  object_->AwaitWaiter();
  EXPECT_TRUE(Touch(2).ok());
  object_->Release(3);
  reader.join();
  EXPECT_TRUE(Touch(2).ok());
  EXPECT_TRUE(Touch(4).ok());
}

TEST_F(ObjectFilesTest, AnInterruptedReaderDoesNotWaitForAnotherThread) {
  object_->Hold(3);
  for (const std::uint64_t chunk : {0, 1, 2}) EXPECT_TRUE(Touch(chunk).ok());
  object_->AwaitRequest(3);
  object_->interrupted = true;
  EXPECT_EQ(Touch(3).code(), Code::kInterrupted);
  object_->interrupted = false;
  object_->Release(3);
  EXPECT_TRUE(Touch(3).ok());
}

TEST_F(ObjectFilesTest, FetchesTheFrontOfTheNextFileAtTheEndOfOne) {
  const auto other = std::make_shared<OneObject>(20 * kChunkBytes);
  ObjectFile next(other, "store://b", {"files/y", 20 * kChunkBytes}, &cache_, ahead_.get());
  file_.SetNext(&next);
  EXPECT_TRUE(Touch(40).ok());
  EXPECT_TRUE(Touch(36).ok());
  EXPECT_EQ(other->requests(), Requests());
  for (const std::uint64_t chunk : {37, 38, 39}) EXPECT_TRUE(Touch(chunk).ok());
  EXPECT_EQ(other->AwaitRequest(19), 1U);
  EXPECT_EQ(other->AwaitRequest(0), kChunksMax / 2);
  char byte = 0;
  EXPECT_TRUE(next.Read(1, 1, &byte).ok());
  EXPECT_EQ(byte, other->content[1]);
  EXPECT_EQ(other->AwaitRequest(kChunksMax / 2), kChunksMax);
  ahead_.reset();
}

TEST_F(ObjectFilesTest, TheEnvironmentHasFilesAndObjects) {
  const TestDirectory directory;
  const std::string path = directory / "1.sst";
  const auto env = MakeObjectEnv(
      {{path, std::make_shared<ObjectFile>(object_, "store://b", StoredObject{"files/x", kBytes},
                                           &cache_, nullptr)}},
      std::make_unique<ReadAhead>());
  rocksdb::FileSystem& files = *env->GetFileSystem();
  std::uint64_t bytes = 0;
  ASSERT_TRUE(files.GetFileSize(path, {}, &bytes, nullptr).ok());
  EXPECT_EQ(bytes, kBytes);
  EXPECT_TRUE(files.FileExists(path, {}, nullptr).ok());
  EXPECT_TRUE(files.FileExists(directory / "2.sst", {}, nullptr).IsNotFound());
  std::vector<std::string> names;
  ASSERT_TRUE(files.GetChildren(directory / "", {}, &names, nullptr).ok());
  EXPECT_TRUE(object_->requests().empty());

  std::unique_ptr<rocksdb::FSRandomAccessFile> opened;
  ASSERT_TRUE(files.NewRandomAccessFile(path, {}, &opened, nullptr).ok());
  EXPECT_TRUE(object_->requests().empty());
  object_->Fail(0);
  char scratch = 0;
  rocksdb::Slice read;
  EXPECT_TRUE(opened->Read(0, 1, {}, &read, &scratch, nullptr).IsIOError());
  object_->Mend();
  EXPECT_TRUE(opened->Read(1, 1, {}, &read, &scratch, nullptr).ok());
  EXPECT_EQ(read.ToString(), object_->content.substr(1, 1));
}

}  // namespace
}  // namespace topicdb::rocks
