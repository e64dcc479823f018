#include "rocks/log/log_mending.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "rocks/log/log_format.h"
#include "rocks/log/log_reader.h"
#include "rocks/rocks_compat.h"
#include "test_directory.h"

namespace topicdb::rocks {
namespace {

constexpr int kCommits = 20;
constexpr std::size_t kValueBytes = 9'000;  // so some records have several pieces

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteAll(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::vector<std::string> RecordsOf(const std::filesystem::path& path) {
  std::vector<std::string> records;
  LogReader log(path);
  while (log.Next() == LogStep::kRecord) records.emplace_back(log.record());
  return records;
}

// A RocksDB whose commits are in its log.
class LogMending : public ::testing::Test {
 protected:
  LogMending() {
    OpenDatabase();
    for (int i = 0; i < kCommits; ++i) {
      const std::string value(kValueBytes, static_cast<char>('a' + i));
      EXPECT_TRUE(db_->Put({}, std::to_string(i), value).ok());
    }
    CloseDatabase();
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
      if (entry.path().extension() == ".log") log_ = entry.path();
      if (entry.path().filename().string().starts_with("MANIFEST-")) manifest_ = entry.path();
    }
  }

  std::string path() const { return directory_ / ""; }

  // Returns where the pieces of a log begin.
  static std::vector<std::size_t> PiecesOf(const std::string& bytes) {
    std::vector<std::size_t> pieces;
    for (std::size_t at = 0; at + kPieceHeaderBytes <= bytes.size();) {
      const std::size_t left = kLogBlockBytes - at % kLogBlockBytes;
      if (left < kPieceHeaderBytes) {
        at += left;
        continue;
      }
      pieces.push_back(at);
      at += kPieceHeaderBytes + ParsePieceHeader(std::string_view(bytes).substr(at)).length;
    }
    return pieces;
  }

  // Returns the commits that RocksDB finds in the logs.
  std::vector<int> Commits() {
    OpenDatabase();
    std::vector<int> found;
    std::string value;
    for (int i = 0; i < kCommits; ++i) {
      if (db_->Get({}, std::to_string(i), &value).ok()) found.push_back(i);
    }
    CloseDatabase();
    return found;
  }

  static std::vector<int> AllBut(const std::vector<int>& lost) {
    std::vector<int> commits;
    for (int i = 0; i < kCommits; ++i) {
      if (std::find(lost.begin(), lost.end(), i) == lost.end()) commits.push_back(i);
    }
    return commits;
  }

  const TestDirectory directory_;
  std::filesystem::path log_;
  std::filesystem::path manifest_;

 private:
  void OpenDatabase() {
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    options.avoid_flush_during_shutdown = true;
    options.wal_recovery_mode = rocksdb::WALRecoveryMode::kAbsoluteConsistency;
    const Families families = {{rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions()}};
    ASSERT_TRUE(Open(options, path(), families, &handles_, &db_).ok());
  }

  void CloseDatabase() {
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
      EXPECT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
    }
    handles_.clear();
    db_.reset();
  }

  FamilyHandles handles_;
  std::unique_ptr<rocksdb::DB> db_;
};

TEST_F(LogMending, OfWhatIsWholeNothingIsWritten) {
  const auto before = std::filesystem::last_write_time(log_);
  const auto logs = MendLogs(path());
  ASSERT_TRUE(logs.ok()) << logs.status().message();
  EXPECT_TRUE(logs->empty());
  EXPECT_EQ(std::filesystem::last_write_time(log_), before);
  EXPECT_EQ(Commits(), AllBut({}));
}

TEST_F(LogMending, ABitOfAnyHeaderIsFlippedBack) {
  for (const std::filesystem::path& file : {log_, manifest_}) {
    const std::string bytes = ReadAll(file);
    for (const std::size_t piece : PiecesOf(bytes)) {
      for (std::size_t bit = 0; bit < 8 * kPieceHeaderBytes; ++bit) {
        std::string damaged = bytes;
        char& byte = damaged[piece + bit / 8];
        byte = static_cast<char>(byte ^ (1 << bit % 8));
        WriteAll(file, damaged);
        const auto logs = MendLogs(path());
        ASSERT_TRUE(logs.ok()) << logs.status().message();
        ASSERT_EQ(logs->size(), 1U) << "bit " << bit << " of the header at " << piece;
        EXPECT_EQ(logs->front().name, file.filename());
        EXPECT_EQ(logs->front().damaged_at, piece);
        EXPECT_FALSE(logs->front().has_lost);
        ASSERT_EQ(ReadAll(file), bytes) << "bit " << bit << " of the header at " << piece;
      }
    }
  }
  EXPECT_EQ(Commits(), AllBut({}));
}

TEST_F(LogMending, OnlyTheRecordThatIsDamagedIsLeftOut) {
  std::string bytes = ReadAll(log_);
  const std::size_t middle = bytes.find(std::string(100, 'f'));
  ASSERT_NE(middle, std::string::npos);
  bytes[middle] = '?';
  WriteAll(log_, bytes);
  const auto logs = MendLogs(path());
  ASSERT_TRUE(logs.ok()) << logs.status().message();
  ASSERT_EQ(logs->size(), 1U);
  EXPECT_TRUE(logs->front().has_lost);
  EXPECT_EQ(Commits(), AllBut({'f' - 'a'}));
}

TEST_F(LogMending, WithoutALengthTheRestOfTheBlockIsLeftOut) {
  std::string bytes = ReadAll(log_);
  const std::vector<std::size_t> pieces = PiecesOf(bytes);
  ASSERT_LT(pieces[3], kLogBlockBytes);
  bytes.replace(pieces[2], kPieceHeaderBytes, "garbage");
  WriteAll(log_, bytes);
  const auto logs = MendLogs(path());
  ASSERT_TRUE(logs.ok()) << logs.status().message();
  ASSERT_EQ(logs->size(), 1U);
  EXPECT_EQ(logs->front().damaged_at, pieces[2]);
  EXPECT_TRUE(logs->front().has_lost);
  EXPECT_EQ(Commits(), AllBut({2, 3}));  // commit 3 ends in the next block
}

// Without one of its records, a manifest would say something else. MendLogs leaves the damage
// there: whoever sees it makes another manifest.
TEST_F(LogMending, AManifestWouldNotBeTheSameWithoutARecord) {
  std::string bytes = ReadAll(manifest_);
  bytes[kPieceHeaderBytes + 1] = '?';
  WriteAll(manifest_, bytes);
  const auto logs = MendLogs(path());
  ASSERT_TRUE(logs.ok()) << logs.status().message();
  EXPECT_TRUE(logs->empty());
  EXPECT_EQ(ReadAll(manifest_), bytes);
}

// Whatever the damage, MendLogs leaves only records that were written, in their order.
TEST_F(LogMending, NothingIsReadThatWasNotWritten) {
  const std::string bytes = ReadAll(log_);
  const std::vector<std::string> written = RecordsOf(log_);
  ASSERT_EQ(written.size(), static_cast<std::size_t>(kCommits));
  std::mt19937 chance(1);
  std::size_t left = 0;
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    std::string damaged = bytes;
    for (unsigned times = chance() % 4 + 1; times > 0; --times) {
      const std::size_t at = chance() % damaged.size();
      const std::size_t count = std::min<std::size_t>(1 + chance() % 20, damaged.size() - at);
      for (std::size_t i = at; i < at + count; ++i) damaged[i] = static_cast<char>(chance());
      if (chance() % 10 == 0) damaged.resize(at + 1);
    }
    WriteAll(log_, damaged);
    ASSERT_TRUE(MendLogs(path()).ok());
    auto next = written.begin();
    for (const std::string& record : RecordsOf(log_)) {
      next = std::find(next, written.end(), record);
      ASSERT_NE(next, written.end()) << "round " << round;
      ++next;
      ++left;
    }
    LogReader log(log_);
    LogStep step = log.Next();
    while (step == LogStep::kRecord) step = log.Next();
    EXPECT_EQ(step, LogStep::kEnd) << "round " << round;
  }
  EXPECT_GT(left, kRounds * written.size() / 2);
}

}  // namespace
}  // namespace topicdb::rocks
