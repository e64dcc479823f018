#include "segment/segment_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/file/files.h"
#include "fsyncs.h"
#include "test_directory.h"

namespace topicdb {
namespace {

using Items = std::vector<std::string>;

class SegmentLogTest : public testing::Test {
 protected:
  SegmentLogOptions Options() const {
    return {directory_ / ".", &NativeSegmentFormat(), QueueId{1, 2, 3}, segment_bytes_};
  }
  std::unique_ptr<SegmentLog> OpenLog(const std::optional<LogEnd>& end, std::uint64_t next) {
    damage_.clear();
    auto log = SegmentLog::Open(Options(), end, next, &damage_);
    EXPECT_TRUE(log.ok()) << log.status().message();
    return std::move(log).value();
  }
  static void AppendTo(SegmentLog& log, const Items& items, bool through = true) {
    const std::vector<std::string_view> views(items.begin(), items.end());
    ASSERT_TRUE(log.Append(views, through).ok());
  }
  // Returns every item that can be read, and adds the items that cannot be read to `lost`.
  Items ReadAll(SegmentLog& log, std::vector<LostItems>* lost = nullptr) {
    Items items;
    for (std::uint64_t sequence = 1;;) {
      const auto state = log.Find(sequence).value();
      if (!state.has_value()) return items;
      SegmentReader reader(File::OpenForReading(state->path).value(), log.format(),
                           state->identity);
      while (true) {
        const ReadEvent event = reader.Next({state->end.offset, state->end.sequence}).value();
        if (event == ReadEvent::kEnd) break;
        if (event == ReadEvent::kLost) {
          if (lost != nullptr) lost->push_back(reader.lost());
          continue;
        }
        items.insert(items.end(), reader.block().items.begin(), reader.block().items.end());
      }
      sequence = state->end.sequence;
    }
  }
  static Items Numbered(int begin, int end) {
    Items items;
    for (int i = begin; i < end; ++i) items.push_back("item " + std::to_string(i));
    return items;
  }

  TestDirectory directory_;
  std::uint64_t segment_bytes_ = 1'000;
  std::vector<LogDamage> damage_;
};

TEST_F(SegmentLogTest, GoesOnWhereItWasClosed) {
  LogEnd end;
  {
    const auto log = OpenLog(std::nullopt, 1);
    for (int i = 0; i < 50; ++i) AppendTo(*log, Numbered(i, i + 1), i % 2 == 0);
    EXPECT_GT(log->Segments().size(), 2U);
    EXPECT_EQ(log->end_items(), 50U);
    end = log->Close().value();
  }
  const auto log = OpenLog(end, 51);
  AppendTo(*log, Numbered(50, 60));
  EXPECT_EQ(ReadAll(*log), Numbered(0, 60));
  EXPECT_EQ(log->end_sequence(), 61U);
  EXPECT_TRUE(damage_.empty());
}

TEST_F(SegmentLogTest, ADirectoryThatCouldNotBeSyncedIsSyncedAgain) {
  const std::filesystem::path directory = directory_ / "log";
  const std::filesystem::path moved = directory_ / "moved";
  std::filesystem::create_directory(directory);
  SegmentLogOptions options = Options();
  options.directory = directory.string();
  const auto log = SegmentLog::Open(options, std::nullopt, 1, &damage_).value();
  AppendTo(*log, Numbered(0, 3));
  std::filesystem::rename(directory, moved);
  EXPECT_EQ(log->Sync().code(), Code::kStorage);
  EXPECT_EQ(log->Sync().code(), Code::kStorage);  // the name of the file may still be lost
  std::filesystem::rename(moved, directory);
  EXPECT_TRUE(log->Sync().ok());
}

// While a segment is fsynced, another thread appends to it and seals it. The hook does in this
// thread what the other thread would do.
TEST_F(SegmentLogTest, ASegmentThatIsSealedWhileItIsFsyncedIsFsyncedAgain) {
  const auto log = OpenLog(std::nullopt, 1);
  AppendTo(*log, Numbered(0, 1));
  int next = 1;
  {
    const FsyncHook hook([&](const std::string&) {
      while (log->Segments().size() == 1) {
        AppendTo(*log, Numbered(next, next + 1));
        ++next;
      }
    });
    ASSERT_TRUE(log->Sync().ok());
  }
  ASSERT_GT(next, 2);
  std::set<std::string> fsynced;
  const auto note = [&](const std::string& path) {
    fsynced.insert(std::filesystem::path(path).filename().string());
  };
  const auto sync = [&] {
    fsynced.clear();
    const FsyncHook hook(note);
    return log->Sync();
  };
  ASSERT_TRUE(sync().ok());
  EXPECT_EQ(fsynced,
            (std::set<std::string>{"0000000000000001.segment", "0000000000000002.segment"}));
  ASSERT_TRUE(sync().ok());
  EXPECT_EQ(fsynced, (std::set<std::string>{"0000000000000002.segment"}));
}

// A sealed segment is not forgotten when the fsync of another one fails.
TEST_F(SegmentLogTest, ASegmentThatIsFreedWhileItIsFsyncedIsNotMissed) {
  const auto log = OpenLog(std::nullopt, 1);
  AppendTo(*log, {"a"});
  ASSERT_TRUE(log->Sync().ok());
  AppendTo(*log, {"b"});
  bool freed = false;
  {
    const FsyncHook hook([&](const std::string& path) {
      if (freed || !path.ends_with(".segment")) return;
      freed = true;
      EXPECT_TRUE(log->Clear().ok());
    });
    EXPECT_TRUE(log->Sync().ok());
  }
  EXPECT_TRUE(freed);
  EXPECT_TRUE(log->Segments().empty());
}

TEST_F(SegmentLogTest, AfterAFailedFsyncAllSegmentsAreFsyncedAgain) {
  const auto log = OpenLog(std::nullopt, 1);
  for (int i = 0; log->Segments().size() < 3; ++i) AppendTo(*log, Numbered(i, i + 1));
  fsync_fails = true;
  EXPECT_EQ(log->Sync().code(), Code::kStorage);
  fsync_fails = false;
  std::set<std::string> fsynced;
  const FsyncHook hook([&](const std::string& path) { fsynced.insert(path); });
  ASSERT_TRUE(log->Sync().ok());
  EXPECT_EQ(fsynced.size(), 3U);
}

TEST_F(SegmentLogTest, CountsTheFilesThatStayOpenForAnFsync) {
  const auto log = OpenLog(std::nullopt, 1);
  EXPECT_EQ(log->files_to_sync(), 0U);
  for (int i = 0; log->Segments().size() < 5; ++i) AppendTo(*log, Numbered(i, i + 1));
  EXPECT_EQ(log->files_to_sync(), 4U) << "the last one is not sealed";
  ASSERT_TRUE(log->FreeBefore(log->Segments()[1].end.sequence).ok());
  EXPECT_EQ(log->files_to_sync(), 2U);
  ASSERT_TRUE(log->Sync().ok());
  EXPECT_EQ(log->files_to_sync(), 0U);
  ASSERT_TRUE(log->SkipTo(1'000).ok());
  EXPECT_EQ(log->files_to_sync(), 1U);
}

TEST_F(SegmentLogTest, FilesThatDoNotOutliveTheQueueAreNotKeptOpen) {
  SegmentLogOptions options = Options();
  options.durable = false;
  const auto log = SegmentLog::Open(options, std::nullopt, 1, &damage_).value();
  for (int i = 0; log->Segments().size() < 5; ++i) AppendTo(*log, Numbered(i, i + 1));
  EXPECT_EQ(log->files_to_sync(), 0U);
}

// Each process may append with weights or without.
TEST_F(SegmentLogTest, ItemsWithWeightsAndWithoutAreInDifferentSegments) {
  std::optional<LogEnd> end;
  std::uint64_t weight = 0;
  for (int i = 0; i < 6; ++i) {
    SegmentLogOptions options = Options();
    options.weighed = i % 4 >= 2;
    const auto first = static_cast<std::uint64_t>(i + 1);
    const auto log = SegmentLog::Open(options, end, first, &damage_).value();
    EXPECT_EQ(log->end_weight(), weight) << i;
    const std::vector<std::string_view> views{"item"};
    const std::vector<std::uint64_t> weights{1'000};
    const std::uint64_t before = log->end_weight();
    ASSERT_TRUE(options.weighed ? log->Append({views, weights}, true).ok()
                                : log->Append(views, true).ok());
    if (options.weighed) {
      EXPECT_EQ(log->end_weight(), before + 1'000);
    }
    weight = log->end_weight();
    // Every other one is as if the process was killed.
    const LogEnd closed = log->Close().value();
    end = i % 2 == 0 ? std::optional(closed) : std::nullopt;
  }
  const auto log = OpenLog(end, 7);
  EXPECT_EQ(log->end_weight(), weight);
  EXPECT_EQ(ReadAll(*log), Items(6, "item"));
  std::vector<bool> weighed;
  for (const SegmentState& segment : log->Segments()) {
    if (weighed.empty() || weighed.back() != segment.identity.weighed) {
      weighed.push_back(segment.identity.weighed);
    }
  }
  EXPECT_EQ(weighed, (std::vector<bool>{false, true, false}));
  EXPECT_TRUE(damage_.empty());
}

TEST_F(SegmentLogTest, CountsItsFiles) {
  const auto log = OpenLog(std::nullopt, 1);
  EXPECT_EQ(log->CountFiles().count, 0U);
  for (int i = 0; i < 100; ++i) AppendTo(*log, Numbered(i, i + 1));
  std::uint64_t bytes = 0;
  for (const SegmentState& segment : log->Segments()) bytes += segment.end.offset;
  EXPECT_EQ(log->CountFiles().count, log->Segments().size());
  EXPECT_EQ(log->CountFiles().bytes, bytes);
}

// Nobody knows what a process that was killed has fsynced.
TEST_F(SegmentLogTest, WithoutClosingALaterLogFsyncsWhatItFinds) {
  std::set<std::string> expected;
  {
    const auto log = OpenLog(std::nullopt, 1);
    for (int i = 0; log->Segments().size() < 3; ++i) AppendTo(*log, Numbered(i, i + 1));
    for (const auto& segment : log->Segments()) {
      expected.insert(std::filesystem::path(segment.path).filename().string());
    }
  }
  const auto log = OpenLog(std::nullopt, 100);
  std::set<std::string> fsynced;
  const FsyncHook hook([&](const std::string& path) {
    fsynced.insert(std::filesystem::path(path).filename().string());
  });
  ASSERT_TRUE(log->Sync().ok());
  EXPECT_EQ(fsynced, expected);
  fsynced.clear();
  ASSERT_TRUE(log->Sync().ok());
  EXPECT_TRUE(fsynced.empty());
}

TEST_F(SegmentLogTest, WithoutClosingALaterLogFindsWhatWasWritten) {
  {
    const auto log = OpenLog(std::nullopt, 1);
    AppendTo(*log, Numbered(0, 3));
    AppendTo(*log, Numbered(3, 5), /*through=*/false);  // stays in memory
  }
  const auto log = OpenLog(std::nullopt, 100);
  EXPECT_EQ(ReadAll(*log), Numbered(0, 3));
  AppendTo(*log, Numbered(5, 6));
  EXPECT_EQ(log->Segments().back().identity.first_sequence, 100U);
  EXPECT_EQ(log->Segments().back().identity.previous_end, 4U);
  EXPECT_EQ(log->end_items(), 4U);
  EXPECT_TRUE(damage_.empty());
}

TEST_F(SegmentLogTest, NumbersGoOnlyForward) {
  const auto log = OpenLog(std::nullopt, 1);
  AppendTo(*log, Numbered(0, 3));
  ASSERT_TRUE(log->SkipTo(4).ok());
  EXPECT_FALSE(log->Segments().back().sealed) << "4 is the next number anyway";
  EXPECT_EQ(log->SkipTo(3).code(), Code::kStorage);
  ASSERT_TRUE(log->SkipTo(10).ok());
  EXPECT_TRUE(log->Segments().back().sealed);
  AppendTo(*log, Numbered(3, 4));
  EXPECT_EQ(log->Segments().back().identity.first_sequence, 10U);
  EXPECT_EQ(ReadAll(*log), Numbered(0, 4));
}

TEST_F(SegmentLogTest, FreesWholeSegments) {
  const auto log = OpenLog(std::nullopt, 1);
  for (int i = 0; i < 100; ++i) AppendTo(*log, Numbered(i, i + 1));
  const auto segments = log->Segments();
  const std::uint64_t weight = log->end_weight();
  ASSERT_TRUE(log->FreeBefore(segments[1].end.sequence - 1).ok());
  EXPECT_EQ(log->Segments().size(), segments.size() - 1);
  ASSERT_TRUE(log->FreeBefore(segments[1].end.sequence).ok());
  EXPECT_EQ(log->Segments().size(), segments.size() - 2);
  EXPECT_EQ(log->end_weight(), weight);
  EXPECT_NE(access(segments[1].path.c_str(), F_OK), 0);
  EXPECT_EQ(ReadAll(*log).front(),
            "item " + std::to_string(segments[2].identity.first_sequence - 1));
}

TEST_F(SegmentLogTest, WhatIsFreedIsNotKeptOpen) {
  const auto log = OpenLog(std::nullopt, 1);
  for (int i = 0; i < 100; ++i) AppendTo(*log, Numbered(i, i + 1));
  ASSERT_GT(log->Segments().size(), 2U);
  ASSERT_TRUE(log->FreeBefore(log->Segments().back().identity.first_sequence).ok());
  ASSERT_EQ(log->Segments().size(), 1U);
  Items removed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string path = std::filesystem::read_symlink(entry.path(), error).string();
    if (path.ends_with(".segment (deleted)")) removed.push_back(path);
  }
  EXPECT_EQ(removed, Items{});
}

TEST_F(SegmentLogTest, ADamagedHeaderAndADamagedFrameCostTheFrame) {
  segment_bytes_ = 300;
  std::vector<SegmentState> before;
  {
    const auto log = OpenLog(std::nullopt, 1);
    for (int i = 0; i < 40; ++i) AppendTo(*log, Numbered(i, i + 1));
    before = log->Segments();
    ASSERT_TRUE(log->Close().ok());
  }
  ASSERT_GT(before.size(), 3U);
  for (const SegmentState& segment : {before[1], before.back()}) {
    std::string bytes = ReadFile(segment.path, 10'000).value();
    bytes[20] = static_cast<char>(bytes[20] ^ 1);
    bytes[64 + 9] = static_cast<char>(bytes[64 + 9] ^ 1);  // in the number of the first frame
    EXPECT_TRUE(WriteFileAtomically(segment.path, bytes).ok());
  }
  const auto log = OpenLog(std::nullopt, 100);
  std::vector<LostItems> lost;
  EXPECT_EQ(ReadAll(*log, &lost).size(), 38U);
  std::set<std::uint64_t> numbers;
  for (const LostItems& part : lost) {
    for (auto at = part.first_sequence; at < part.end_sequence; ++at) numbers.insert(at);
  }
  for (const LogDamage& part : damage_) {
    for (auto at = part.first_sequence; at < part.end_sequence; ++at) numbers.insert(at);
  }
  EXPECT_EQ(numbers, (std::set<std::uint64_t>{before[1].identity.first_sequence,
                                              before.back().identity.first_sequence}));
}

// Whatever bit is flipped, the log reads only items that were appended, in their order, and reports
// the items that it cannot read.
TEST_F(SegmentLogTest, EveryBitFlipped) {
  segment_bytes_ = 160;
  LogEnd end;
  std::vector<SegmentState> segments;
  {
    const auto log = OpenLog(std::nullopt, 1);
    for (int i = 0; i < 12; i += 3) AppendTo(*log, Numbered(i, i + 3));
    segments = log->Segments();
    end = log->Close().value();
  }
  ASSERT_GT(segments.size(), 1U);
  for (const SegmentState& segment : segments) {
    const std::string whole = ReadFile(segment.path, 10'000).value();
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      const std::size_t at = bit / 8;
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << (bit % 8)));
      ASSERT_TRUE(WriteFileAtomically(segment.path, damaged).ok());
      {
        const auto log = OpenLog(end, 13);
        std::vector<LostItems> lost;
        const Items items = ReadAll(*log, &lost);
        // The log reports nothing of what was before its first segment: the queue notices that.
        std::uint64_t missing = log->Segments().front().identity.previous_end - 1;
        for (const LostItems& part : lost) missing += part.end_sequence - part.first_sequence;
        for (const LogDamage& part : damage_) missing += part.items();
        EXPECT_EQ(items.size() + missing, 12U) << segment.path << " byte " << at;
        EXPECT_FALSE(lost.empty() && damage_.empty()) << segment.path << " byte " << at;
        EXPECT_LE(missing, at < 64 ? 0U : 3U) << at;  // the header costs nothing
        const Items all = Numbered(0, 12);
        EXPECT_TRUE(std::includes(all.begin(), all.end(), items.begin(), items.end(),
                                  [](const std::string& a, const std::string& b) {
                                    return std::stoi(a.substr(5)) < std::stoi(b.substr(5));
                                  }))
            << at;
      }
      unlink((segment.path + ".damaged").c_str());
      ASSERT_TRUE(WriteFileAtomically(segment.path, whole).ok());
      // Takes back what the opening has sealed.
      for (const SegmentState& other : segments) {
        if (other.path == segment.path || other.sealed) continue;
        ASSERT_EQ(truncate(other.path.c_str(), static_cast<off_t>(other.end.offset)), 0);
      }
      const auto names = ListDirectory(directory_ / "").value();
      for (const std::string& name : names) {
        const auto number = NativeSegmentFormat().NumberOf(name);
        if (number.has_value() && *number > segments.back().identity.number) {
          unlink((directory_ / name).c_str());
        }
      }
    }
  }
}

}  // namespace
}  // namespace topicdb
