#include "rocks/log_check.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "rocks/rocks_compat.h"
#include "test_directory.h"

namespace topicdb::rocks {
namespace {

constexpr std::size_t kHeaderBytes = 7;

// Logs of a real RocksDB: a manifest, and a write-ahead log of several blocks.
void MakeLogs(const std::string& directory) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  FamilyHandles handles;
  std::unique_ptr<rocksdb::DB> db;
  ASSERT_TRUE(Open(options, directory,
                   {{rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions()}}, &handles,
                   &db)
                  .ok());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(db->Put({}, std::to_string(i), std::string(9'000, 'v')).ok());
  }
  ASSERT_TRUE(db->DestroyColumnFamilyHandle(handles[0]).ok());
}

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteAll(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::size_t NextRecord(const std::string& log, std::size_t begin) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(log[begin + i]); };
  const std::size_t end = begin + kHeaderBytes + byte(4) + 256U * byte(5);
  const std::size_t left_in_block = 32'768 - end % 32'768;
  return left_in_block < kHeaderBytes ? end + left_in_block : end;
}

TEST(LogCheck, ATypeThatRocksDbWouldReadForEverIsFoundInEachRecord) {
  const TestDirectory directory;
  MakeLogs(directory / "");
  int logs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory / "")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("MANIFEST-") && !name.ends_with(".log")) continue;
    ++logs;
    EXPECT_TRUE(CheckLogs(directory / "").ok());
    const std::string log = ReadAll(entry.path());
    for (std::size_t begin = 0; begin + kHeaderBytes < log.size(); begin = NextRecord(log, begin)) {
      std::string damaged = log;
      damaged[begin + 6] = 5;
      WriteAll(entry.path(), damaged);
      const Status status = CheckLogs(directory / "");
      EXPECT_EQ(status.code(), Code::kCorruption);
      EXPECT_NE(status.message().find(name + " is damaged at byte " + std::to_string(begin) + ":"),
                std::string::npos)
          << status.message();
    }
    // A torn end is RocksDB's to judge.
    for (const std::size_t size : {log.size() - 1, log.size() / 2, std::size_t{5}}) {
      WriteAll(entry.path(), log.substr(0, size));
      EXPECT_TRUE(CheckLogs(directory / "").ok());
    }
    WriteAll(entry.path(), log + std::string(100'000, '\0'));
    EXPECT_TRUE(CheckLogs(directory / "").ok());
    WriteAll(entry.path(), log);
  }
  EXPECT_EQ(logs, 2);
}

TEST(LogCheck, OtherFilesAreNotLookedAt) {
  const TestDirectory directory;
  WriteAll(directory / "000001.sst", std::string(100, '\5'));
  EXPECT_TRUE(CheckLogs(directory / "").ok());
  WriteAll(directory / "000001.log", std::string(100, '\5'));
  EXPECT_EQ(CheckLogs(directory / "").code(), Code::kCorruption);
}

}  // namespace
}  // namespace topicdb::rocks
