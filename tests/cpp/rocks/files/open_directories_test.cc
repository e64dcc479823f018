#include "rocks/files/open_directories.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "base/file/files.h"
#include "test_directory.h"

namespace topicdb::rocks {
namespace {

// A directory with a log in it, and the object that knows of both.
class OpenDirectoriesTest : public ::testing::Test {
 protected:
  OpenDirectoriesTest() {
    EXPECT_TRUE(MakeDirectory(path_).ok());
    WriteLog("000001.log");
  }

  void WriteLog(const std::string& name) const {
    EXPECT_TRUE(WriteFileAtomically(path_ + "/" + name, "").ok());
  }
  std::unique_ptr<rocksdb::FSDirectory> Open(const std::string& path) {
    std::unique_ptr<rocksdb::FSDirectory> directory;
    const auto open = [&](std::unique_ptr<rocksdb::FSDirectory>* opened) {
      ++opened_;
      return rocksdb::FileSystem::Default()->NewDirectory(path, {}, opened, nullptr);
    };
    EXPECT_TRUE(directories_.Share(path, open, &directory).ok());
    return directory;
  }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "shard";
  OpenDirectories directories_;
  int opened_ = 0;
};

TEST_F(OpenDirectoriesTest, OpensADirectoryOnceForAllWhoHoldIt) {
  auto first = Open(path_);
  const auto second = Open(path_ + "/");
  EXPECT_EQ(opened_, 1);
  first.reset();
  EXPECT_TRUE(second->Fsync({}, nullptr).ok());
}

TEST_F(OpenDirectoriesTest, FindsTheNewestLogInPlace) {
  const auto held = Open(path_);
  EXPECT_TRUE(directories_.CheckLog(path_).ok()) << "there is none yet";
  ASSERT_TRUE(directories_.NoteLog(path_ + "/000001.log").ok());
  WriteLog("000002.log");
  ASSERT_TRUE(directories_.NoteLog(path_ + "/000002.log").ok());
  EXPECT_TRUE(directories_.CheckLog(path_).ok());
  std::filesystem::remove(path_ + "/000001.log");
  EXPECT_TRUE(directories_.CheckLog(path_).ok()) << "RocksDB removes logs that it needs no more";
  EXPECT_TRUE(directories_.CheckLog(path_ + "/").ok());
}

TEST_F(OpenDirectoriesTest, ALogThatIsRemovedWhileItIsLookedAtWasFollowedByAnother) {
  const auto held = Open(path_);
  const auto name = [](int number) { return "log " + std::to_string(number) + ".log"; };
  std::atomic<bool> over = false;
  std::thread rocks([&] {
    for (int number = 1; number < 2'000; ++number) {
      WriteLog(name(number));
      EXPECT_TRUE(directories_.NoteLog(path_ + "/" + name(number)).ok());
      std::filesystem::remove(path_ + "/" + name(number - 1));
    }
    over = true;
  });
  while (!over) {
    const Status in_place = directories_.CheckLog(path_);
    EXPECT_TRUE(in_place.ok()) << in_place.message();
  }
  rocks.join();
}

TEST_F(OpenDirectoriesTest, TellsThatTheLogOrItsDirectoryIsGone) {
  const auto held = Open(path_);
  ASSERT_TRUE(directories_.NoteLog(path_ + "/000001.log").ok());
  std::filesystem::rename(path_, path_ + ".old");
  const Status gone = directories_.CheckLog(path_);
  EXPECT_EQ(gone.code(), Code::kStorage);
  EXPECT_NE(gone.message().find(path_ + "/000001.log is gone"), std::string::npos);
  ASSERT_TRUE(MakeDirectory(path_).ok());
  WriteLog("000001.log");
  EXPECT_NE(directories_.CheckLog(path_).message().find("is another file now"), std::string::npos);
}

TEST_F(OpenDirectoriesTest, KnowsNoLogOfADirectoryThatIsClosedOrOpenedAnew) {
  auto held = Open(path_);
  ASSERT_TRUE(directories_.NoteLog(path_ + "/000001.log").ok());
  std::filesystem::remove(path_ + "/000001.log");
  EXPECT_FALSE(directories_.CheckLog(path_).ok());
  held.reset();
  EXPECT_TRUE(directories_.CheckLog(path_).ok());
  held = Open(path_);
  EXPECT_TRUE(directories_.CheckLog(path_).ok());
  EXPECT_EQ(opened_, 2);
}

TEST_F(OpenDirectoriesTest, NotesNoLogThatIsNotThere) {
  const auto held = Open(path_);
  EXPECT_EQ(directories_.NoteLog(path_ + "/000009.log").code(), Code::kStorage);
  EXPECT_TRUE(directories_.NoteLog(directory_ / "shard/000001.log").ok());
  WriteLog("../000001.log");
  EXPECT_TRUE(directories_.NoteLog(directory_ / "000001.log").ok())
      << "of a directory that is closed";
  EXPECT_TRUE(directories_.CheckLog(directory_ / "").ok());
}

TEST(DirectoryOf, IsWhatTheFileIsIn) {
  EXPECT_EQ(DirectoryOf("a/b/c.log"), "a/b");
  EXPECT_EQ(DirectoryOf("c.log"), ".");
}

}  // namespace
}  // namespace topicdb::rocks
