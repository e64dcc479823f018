#include "rocks/files/file_names.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "rocks/logged_database.h"

namespace topicdb::rocks {
namespace {

TEST(FileNames, AreThoseThatARocksDbMakes) {
  const LoggedDatabase database;
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(database.path())) {
    EXPECT_TRUE(IsFileName(file.path().filename().string())) << file.path();
    ++files;
  }
  EXPECT_GT(files, 5);
}

TEST(FileNames, AreThoseThatACrashLeaves) {
  for (const char* name : {"000012.sst", "000012.log", "000012.log.tmp", "CURRENT.tmp",
                           "000007.dbtmp", "OPTIONS-000007.dbtmp", "LOG.old.1700000000000000",
                           "000012.sst.trash", "000012.sst.empty", "topicdb-a1B2c3.tmp"}) {
    EXPECT_TRUE(IsFileName(name)) << name;
  }
}

TEST(FileNames, AreNoOthers) {
  for (const char* name : {"", "notes.txt", "sst", ".sst", "a.sst", "12", "MANIFEST-", "MANIFEST-x",
                           "LOG.old.", "CURRENT.bak", "current", ".tmp", "topicdb-.tmp",
                           "topicdb-notes-of-mine.tmp", "000012.sst.txt", "archive"}) {
    EXPECT_FALSE(IsFileName(name)) << name;
  }
  EXPECT_TRUE(IsDirectoryName("archive"));
  EXPECT_TRUE(IsDirectoryName("lost"));
  EXPECT_FALSE(IsDirectoryName("0000"));
}

}  // namespace
}  // namespace topicdb::rocks
