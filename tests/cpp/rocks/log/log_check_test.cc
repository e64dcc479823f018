#include "rocks/log/log_check.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "rocks/local_log.h"
#include "rocks/logged_database.h"
#include "rocks/rocks_compat.h"
#include "test_directory.h"

namespace topicdb::rocks {
namespace {

constexpr std::size_t kHeaderBytes = 7;

// Makes the logs of a real RocksDB: a manifest, and a write-ahead log of several blocks.
void MakeLogs(const std::string& directory, char filling = 'v') {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  FamilyHandles handles;
  std::unique_ptr<rocksdb::DB> db;
  ASSERT_TRUE(Open(options, directory,
                   {{rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions()}}, &handles,
                   &db)
                  .ok());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(db->Put({}, std::to_string(i), std::string(9'000, filling)).ok());
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
    EXPECT_TRUE(CheckLogs(directory / "", LogUse::kRead).ok());
    const std::string log = ReadAll(entry.path());
    for (std::size_t begin = 0; begin + kHeaderBytes < log.size(); begin = NextRecord(log, begin)) {
      std::string damaged = log;
      damaged[begin + 6] = 5;
      WriteAll(entry.path(), damaged);
      const Status status = CheckLogs(directory / "", LogUse::kRead);
      EXPECT_EQ(status.code(), Code::kCorruption);
      EXPECT_NE(status.message().find(name + " is damaged at byte " + std::to_string(begin) + ":"),
                std::string::npos)
          << status.message();
    }
    // CheckLogs accepts an end that is cut off, since RocksDB decides about it.
    for (const std::size_t size : {log.size() - 1, log.size() / 2, std::size_t{5}}) {
      WriteAll(entry.path(), log.substr(0, size));
      EXPECT_TRUE(CheckLogs(directory / "", LogUse::kRead).ok());
    }
    WriteAll(entry.path(), log + std::string(100'000, '\0'));
    EXPECT_TRUE(CheckLogs(directory / "", LogUse::kRead).ok());
    WriteAll(entry.path(), log);
  }
  EXPECT_EQ(logs, 2);
}

constexpr std::size_t kSectorBytes = 512;

// Two logs of a RocksDB. Each has five commits, which are linked, and whose keys are their numbers.
class Chained {
 public:
  Chained() {
    for (int i = 0; i < 10; ++i) {
      if (i == 5) {  // the log stays, since the other family is not flushed
        EXPECT_TRUE(database_.db().Flush({}, database_.main()).ok());
      }
      rocksdb::WriteBatch batch;
      EXPECT_TRUE(batch.Put(database_.other(), std::to_string(i), std::string(2'000, 'v')).ok());
      EXPECT_TRUE(batch.Put(database_.main(), std::to_string(i), "").ok());
      EXPECT_TRUE(database_.log().Write({}, &batch).ok());
    }
    database_.CloseDatabase();
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
      if (entry.path().extension() == ".log") logs.push_back(entry.path());
    }
    std::sort(logs.begin(), logs.end());
  }

  // Returns how many commits there are after RocksDB has read the logs. Expects that none is
  // missing before another.
  int CountCommits() {
    database_.OpenDatabase();
    int count = 0;
    std::string value;
    for (int i = 0; i < 10; ++i) {
      const bool is_there =
          database_.db().Get({}, database_.other(), std::to_string(i), &value).ok();
      EXPECT_TRUE(!is_there || count == i) << "commit " << i << " is there, one before it is not";
      if (is_there) ++count;
    }
    database_.CloseDatabase();
    return count;
  }

  std::string path() const { return database_.path(); }
  std::vector<std::filesystem::path> logs;

 private:
  LoggedDatabase database_;
};

void ZeroSector(const std::filesystem::path& path, std::size_t sector) {
  std::string bytes = ReadAll(path);
  bytes.replace(sector * kSectorBytes, kSectorBytes, kSectorBytes, '\0');
  WriteAll(path, bytes);
}

TEST(LogCheck, WhatBeginsWithALostSectorIsCutOff) {
  for (const std::size_t sector : {1U, 5U, 11U, 16U}) {
    Chained database;
    ASSERT_EQ(database.logs.size(), 2U);
    const std::size_t commit_bytes = ReadAll(database.logs[0]).size() / 5;
    ZeroSector(database.logs[0], sector);
    EXPECT_EQ(CheckLogs(database.path(), LogUse::kRead).code(), Code::kStorage);
    EXPECT_TRUE(CheckLogs(database.path(), LogUse::kWrite).ok());
    EXPECT_FALSE(std::filesystem::exists(database.logs[1])) << "it follows what is lost";
    EXPECT_TRUE(CheckLogs(database.path(), LogUse::kRead).ok());
    EXPECT_EQ(database.CountCommits(), static_cast<int>(sector * kSectorBytes / commit_bytes));
  }
}

TEST(LogCheck, ALogWhoseForerunnerHasLostItsEndIsCutOff) {
  Chained database;
  const std::string bytes = ReadAll(database.logs[0]);
  for (std::size_t size : {bytes.size() - 1, bytes.size() / 2, std::size_t{0}}) {
    const TestDirectory copy;
    std::filesystem::copy(database.path(), copy / "copy");
    WriteAll(copy / "copy" / database.logs[0].filename(), bytes.substr(0, size));
    EXPECT_EQ(CheckLogs(copy / "copy", LogUse::kRead).code(), Code::kStorage);
  }
  WriteAll(database.logs[0], bytes.substr(0, bytes.size() / 2));
  EXPECT_TRUE(CheckLogs(database.path(), LogUse::kWrite).ok());
  EXPECT_TRUE(CheckLogs(database.path(), LogUse::kRead).ok());
  EXPECT_EQ(database.CountCommits(), 2);
}

TEST(LogCheck, ALogOfALaterOpeningIsKept) {
  Chained database;
  const Chained later;
  const std::filesystem::path kept = std::filesystem::path(database.path()) / "000900.log";
  std::filesystem::copy_file(later.logs[0], kept);
  EXPECT_TRUE(CheckLogs(database.path(), LogUse::kRead).ok());
  ZeroSector(database.logs[0], 5);
  EXPECT_TRUE(CheckLogs(database.path(), LogUse::kWrite).ok());
  EXPECT_FALSE(std::filesystem::exists(database.logs[1]));
  EXPECT_EQ(ReadAll(kept), ReadAll(later.logs[0]));
}

// RocksDB removes logs in any order once their families are in files.
TEST(LogCheck, ALogThatIsNotNeededMayOutliveALaterOne) {
  const TestDirectory directory;
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.atomic_flush = true;
  options.avoid_flush_during_shutdown = true;
  const Families families = {{rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions()},
                             {"other", rocksdb::ColumnFamilyOptions()}};
  const auto logs = [&] {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(directory / "db")) {
      if (entry.path().extension() == ".log") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    return paths;
  };
  std::filesystem::create_directory(directory / "db");
  FamilyHandles handles;
  std::unique_ptr<rocksdb::DB> db;
  ASSERT_TRUE(Open(options, directory / "db", families, &handles, &db).ok());
  LocalLog log(db.get(), "a shard");
  std::filesystem::path oldest;
  for (int i = 0; i < 3; ++i) {
    rocksdb::WriteBatch batch;
    for (rocksdb::ColumnFamilyHandle* handle : handles) {
      ASSERT_TRUE(batch.Put(handle, std::to_string(i), "value").ok());
    }
    ASSERT_TRUE(log.Write({}, &batch).ok());
    if (i == 0) {
      oldest = logs().back();
      std::filesystem::copy_file(oldest, directory / "oldest");
    }
    if (i < 2) {
      ASSERT_TRUE(db->Flush({}, handles).ok());
    }
  }
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    ASSERT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
  }
  db.reset();
  ASSERT_EQ(logs().size(), 1U);
  std::filesystem::copy_file(directory / "oldest", oldest);
  const std::string newest = ReadAll(logs().back());
  EXPECT_TRUE(CheckLogs(directory / "db", LogUse::kRead).ok());
  EXPECT_TRUE(CheckLogs(directory / "db", LogUse::kWrite).ok());
  ASSERT_EQ(logs().size(), 2U);
  EXPECT_EQ(ReadAll(logs().back()), newest);
}

TEST(LogCheck, AFlippedBitIsNoLostSector) {
  Chained database;
  for (const auto& log : database.logs) {
    const std::string bytes = ReadAll(log);
    for (std::size_t at = 0; at < bytes.size(); at += 301) {
      std::string damaged = bytes;
      damaged[at] ^= 4;
      WriteAll(log, damaged);
      EXPECT_EQ(CheckLogs(database.path(), LogUse::kWrite).code(), Code::kCorruption) << at;
      EXPECT_EQ(ReadAll(log), damaged) << "it is left as it was";
    }
    WriteAll(log, bytes);
  }
  EXPECT_EQ(database.CountCommits(), 10);
}

// A piece's length is the hard part, since no checksum covers it. With one bit more, the end of the
// file seems to cut the piece off.
TEST(LogCheck, AFlippedBitOfAHeaderIsNoEndThatIsCutOff) {
  Chained database;
  int cut_off = 0;
  for (const auto& entry : std::filesystem::directory_iterator(database.path())) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("MANIFEST-") && !name.ends_with(".log")) continue;
    const std::string bytes = ReadAll(entry.path());
    for (std::size_t begin = 0; begin < bytes.size(); begin = NextRecord(bytes, begin)) {
      for (std::size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
        std::string damaged = bytes;
        damaged[begin + bit / 8] = static_cast<char>(damaged[begin + bit / 8] ^ (1 << bit % 8));
        if (NextRecord(damaged, begin) > bytes.size()) ++cut_off;
        WriteAll(entry.path(), damaged);
        EXPECT_EQ(CheckLogs(database.path(), LogUse::kWrite).code(), Code::kCorruption)
            << "bit " << bit << " of the header at " << begin << " of " << name;
        EXPECT_EQ(ReadAll(entry.path()), damaged) << "it is left as it was";
      }
    }
    WriteAll(entry.path(), bytes);
  }
  EXPECT_GT(cut_off, 100);
  EXPECT_EQ(database.CountCommits(), 10);
}

// The values are zeros that were written. Such zeros do not turn a flipped bit into a lost sector.
TEST(LogCheck, AFlippedBitOfAHeaderBeforeZerosIsDamage) {
  const TestDirectory directory;
  MakeLogs(directory / "", '\0');
  for (const auto& entry : std::filesystem::directory_iterator(directory / "")) {
    if (entry.path().extension() != ".log") continue;
    const std::string log = ReadAll(entry.path());
    ASSERT_TRUE(CheckLogs(directory / "", LogUse::kRead).ok());
    for (std::size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
      std::string damaged = log;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      WriteAll(entry.path(), damaged);
      EXPECT_EQ(CheckLogs(directory / "", LogUse::kWrite).code(), Code::kCorruption) << bit;
      EXPECT_EQ(ReadAll(entry.path()), damaged) << "it is left as it was";
    }
  }
}

TEST(LogCheck, OtherFilesAreNotLookedAt) {
  const TestDirectory directory;
  WriteAll(directory / "000001.sst", std::string(100, '\5'));
  EXPECT_TRUE(CheckLogs(directory / "", LogUse::kRead).ok());
  WriteAll(directory / "000001.log", std::string(100, '\5'));
  EXPECT_EQ(CheckLogs(directory / "", LogUse::kRead).code(), Code::kCorruption);
}

// The file has its length, but the rest of the record was never written.
TEST(LogCheck, ARecordThatGoesOnWithZerosIsCutOff) {
  constexpr std::size_t kBlock = 32'768;
  const TestDirectory directory;
  MakeLogs(directory / "");
  for (const auto& entry : std::filesystem::directory_iterator(directory / "")) {
    if (entry.path().extension() != ".log") continue;
    const std::string log = ReadAll(entry.path());
    ASSERT_GT(log.size(), 2 * kBlock);
    WriteAll(entry.path(), log.substr(0, kBlock) + std::string(2'000, '\0'));
    ASSERT_TRUE(CheckLogs(directory / "", LogUse::kWrite).ok());
    const std::string left = ReadAll(entry.path());
    EXPECT_LT(left.size(), kBlock);
    EXPECT_GT(left.size(), kBlock - 2 * 9'100);
    EXPECT_TRUE(log.starts_with(left));
  }
}

}  // namespace
}  // namespace topicdb::rocks
