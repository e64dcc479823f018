#include "base/file/known_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/file/file.h"
#include "base/file/files.h"
#include "test_directory.h"

namespace topicdb {
namespace {

class KnownFileTest : public ::testing::Test {
 protected:
  KnownFileTest() : file_(File::Create(path_).value()) {}

  const TestDirectory directory_;
  const std::string path_ = directory_ / "file";
  const std::shared_ptr<File> file_;  // so that its number is not given to another one
};

TEST_F(KnownFileTest, IsInPlaceWhileThePathLeadsToIt) {
  const KnownFile known = KnownFile::At(path_).value();
  EXPECT_EQ(known.path(), path_);
  EXPECT_TRUE(known.CheckInPlace().ok());
  ASSERT_TRUE(file_->WriteAt(0, "other content").ok());
  EXPECT_TRUE(known.CheckInPlace().ok());
}

TEST_F(KnownFileTest, IsGoneOnceItIsRemovedOrRenamed) {
  const KnownFile known = KnownFile::At(path_).value();
  std::filesystem::rename(path_, path_ + ".old");
  const Status gone = known.CheckInPlace();
  EXPECT_EQ(gone.code(), Code::kStorage);
  EXPECT_EQ(gone.message(), path_ + " is gone: it was removed or renamed while it was open");
  std::filesystem::rename(path_ + ".old", path_);
  EXPECT_TRUE(known.CheckInPlace().ok()) << "it is back";
  std::filesystem::remove(path_);
  EXPECT_EQ(known.CheckInPlace().code(), Code::kStorage);
}

TEST_F(KnownFileTest, IsReplacedOnceAnotherFileHasItsName) {
  const KnownFile known = KnownFile::At(path_).value();
  std::filesystem::remove(path_);
  ASSERT_TRUE(WriteFileAtomically(path_, "").ok());
  const Status replaced = known.CheckInPlace();
  EXPECT_EQ(replaced.code(), Code::kStorage);
  EXPECT_EQ(replaced.message(), path_ + " is another file now: something was put in its place");
}

TEST_F(KnownFileTest, NoticesThatADirectoryAboveItWasReplaced) {
  const std::string inner = directory_ / "inner";
  ASSERT_TRUE(MakeDirectory(inner).ok());
  const auto held = File::Create(inner + "/file").value();
  const KnownFile known = KnownFile::At(inner + "/file").value();
  std::filesystem::rename(inner, inner + ".old");
  EXPECT_NE(known.CheckInPlace().message().find("is gone"), std::string::npos);
  ASSERT_TRUE(WriteFileAtomically(inner, "").ok());
  EXPECT_NE(known.CheckInPlace().message().find("is gone"), std::string::npos)
      << "a file has the name of the directory";
}

TEST_F(KnownFileTest, AnOpenFileAndALockKnowTheirs) {
  const auto lock = FileLock::Acquire(directory_ / "lock").value();
  EXPECT_TRUE(file_->CheckInPlace().ok());
  EXPECT_TRUE(lock->file().CheckInPlace().ok());
  std::filesystem::rename(path_, path_ + ".old");
  EXPECT_EQ(file_->CheckInPlace().code(), Code::kStorage);
  std::filesystem::remove(directory_ / "lock");
  EXPECT_EQ(lock->file().CheckInPlace().code(), Code::kStorage);
}

TEST_F(KnownFileTest, NeedsSomethingAtThePath) {
  const Status absent = KnownFile::At(path_ + ".absent").status();
  EXPECT_EQ(absent.code(), Code::kStorage);
  EXPECT_NE(absent.message().find(path_ + ".absent"), std::string::npos);
}

}  // namespace
}  // namespace topicdb
