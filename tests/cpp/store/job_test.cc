#include "topicdb/job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <thread>
#include <tuple>

#include "base/file/files.h"
#include "store/catalog/found_database.h"
#include "store/job/job_files.h"
#include "store/job/staged_file.h"
#include "test_directory.h"
#include "topicdb/database.h"
#include "topicdb/tail.h"

namespace topicdb {
namespace {

namespace fs = std::filesystem;

struct Row {
  std::string topic;
  std::int64_t time;
  std::string value;
  auto operator<=>(const Row&) const = default;
};
using Rows = std::vector<Row>;

std::unique_ptr<Database> OpenOk(const std::string& path, const OpenOptions& options = {}) {
  auto database = Database::Open(path, options);
  EXPECT_TRUE(database.ok()) << database.status().message();
  return std::move(database).value();
}

OpenOptions Wide() {
  OpenOptions options;
  options.schema.shards = 3;
  options.schema.thresholds = {{3, 2}};
  options.schema.retention = {{{"keep/#"}, {"m/#"}}};
  options.seal_bytes = 4'096;  // makes many pages and blocks
  return options;
}

std::vector<MessageView> Views(const Rows& rows) {
  std::vector<MessageView> views;
  for (const Row& row : rows) views.push_back({row.topic, row.time, row.value});
  return views;
}

StagedTask Stage(const std::string& path, const std::string& job, const Rows& rows,
                 std::size_t memory_bytes = std::size_t{64} << 20) {
  StageOptions options;
  options.memory_bytes_max = memory_bytes;
  auto writer = StagedWriter::Open(path, job, options);
  EXPECT_TRUE(writer.ok()) << writer.status().message();
  for (std::size_t i = 0; i < rows.size(); i += 100) {
    const Rows part(rows.begin() + static_cast<std::ptrdiff_t>(i),
                    rows.begin() + static_cast<std::ptrdiff_t>(std::min(rows.size(), i + 100)));
    const Status status = (*writer)->Append(Views(part));
    EXPECT_TRUE(status.ok()) << status.message();
  }
  auto task = (*writer)->Finish();
  EXPECT_TRUE(task.ok()) << task.status().message();
  return task.ok() ? *task : StagedTask();
}

JobReceipt CommitOk(const std::string& path, const JobCommit& commit) {
  auto receipt = CommitJob(path, commit);
  EXPECT_TRUE(receipt.ok()) << receipt.status().message();
  return receipt.ok() ? *receipt : JobReceipt();
}

Rows Scan(const Database& database, const std::string& filter, const TimeRange& range = {}) {
  Rows rows;
  auto scan =
      database.NewScan(Filter::Parse(filter).value(), {range, ScanOrder::kTime, std::nullopt});
  EXPECT_TRUE(scan.ok()) << scan.status().message();
  while (true) {
    auto batch = scan.value()->Next({1'000, 1 << 20});
    EXPECT_TRUE(batch.ok()) << batch.status().message();
    if (!batch.ok() || *batch == nullptr) return rows;
    for (std::size_t row = 0; row < (*batch)->size(); ++row) {
      rows.push_back({std::string((*batch)->topic(row)), (*batch)->timestamp(row),
                      std::string((*batch)->value(row))});
    }
  }
}

Rows Sorted(Rows rows) {
  std::sort(rows.begin(), rows.end());
  return rows;
}

Rows Matching(const Rows& rows, const std::string& filter, const TimeRange& range = {}) {
  const Filter parsed = Filter::Parse(filter).value();
  Rows found;
  for (const Row& row : rows) {
    if (parsed.Matches(row.topic) && Contains(range, row.time)) found.push_back(row);
  }
  return Sorted(found);
}

const std::vector<std::string>& Filters() {
  static const std::vector<std::string> filters{
      "#", "m/#", "m/+/a", "m/h1/#", "m/h1/a", "+/+/b", "keep/+", "+", "x/#", "m/+/+/#", "$s/#"};
  return filters;
}

Rows RandomRows(std::mt19937_64* random, std::size_t count) {
  const std::vector<std::string> first{"m", "keep", "x", "$s", "y"};
  const std::vector<std::string> last{"a", "b", "c", "d", "e", ""};
  Rows rows;
  for (std::size_t i = 0; i < count; ++i) {
    std::string topic = first[(*random)() % first.size()] + "/h" + std::to_string((*random)() % 12);
    if ((*random)() % 4 != 0) topic += "/" + last[(*random)() % last.size()];
    rows.push_back({topic, static_cast<std::int64_t>((*random)() % 5'000),
                    std::to_string((*random)()) + std::string((*random)() % 40, 'v')});
  }
  return rows;
}

void ExpectHolds(const Database& database, const Rows& rows, const std::string& when) {
  const TimeRange range{1'000, 3'000};
  for (const std::string& filter : Filters()) {
    ASSERT_EQ(Sorted(Scan(database, filter)), Matching(rows, filter)) << when << ", " << filter;
    ASSERT_EQ(Sorted(Scan(database, filter, range)), Matching(rows, filter, range))
        << when << ", " << filter;
  }
  const auto streams = database.Streams(Filter::Parse("#").value(), {});
  ASSERT_TRUE(streams.ok());
  for (const Stream& stream : *streams) {
    ScanOptions options;
    options.streams = {{stream}};
    auto scan = database.NewScan(Filter::Parse("#").value(), options);
    ASSERT_TRUE(scan.ok());
    std::int64_t last = 0;
    while (true) {
      auto batch = scan.value()->Next({100, 1 << 20});
      ASSERT_TRUE(batch.ok()) << batch.status().message();
      if (*batch == nullptr) break;
      for (std::size_t row = 0; row < (*batch)->size(); ++row) {
        ASSERT_GE((*batch)->timestamp(row), last) << when;
        last = (*batch)->timestamp(row);
      }
    }
  }
}

// Adds the messages of a tail to `rows`, and the serial of each to `serials` unless that is null.
void ReadTail(Tail* tail, Rows* rows, std::vector<Serial>* serials = nullptr) {
  const PageLimits limits{1'000, 1 << 20, /*with_serials=*/true};
  while (true) {
    const auto batch = tail->Next(limits, std::chrono::microseconds(0));
    ASSERT_TRUE(batch.ok()) << batch.status().message();
    if (*batch == nullptr) return;
    for (std::size_t row = 0; row < (*batch)->size(); ++row) {
      rows->push_back({std::string((*batch)->topic(row)), (*batch)->timestamp(row),
                       std::string((*batch)->value(row))});
      if (serials != nullptr) serials->push_back((*batch)->serial(row));
    }
  }
}

std::map<std::string, std::vector<std::string>> ByTopic(const Rows& rows) {
  std::map<std::string, std::vector<std::string>> values;
  for (const Row& row : rows) values[row.topic].push_back(row.value);
  return values;
}

// Commits staged and appended messages in turns. Readers must not notice sealing, rotation and
// opening.
TEST(Job, WhatIsCommittedIsFoundByEveryFilter) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 3; ++round) {
    const TestDirectory directory;
    const std::string path = directory / "db";
    Rows all;
    OpenOk(path, Wide())->Close().IgnoreError();
    for (int step = 0; step < 8; ++step) {
      const std::string job = "job" + std::to_string(step);
      JobCommit commit{job, {}, {}, 0};
      for (std::uint64_t task = random() % 3; task < 3; ++task) {
        const Rows rows = RandomRows(&random, random() % 600);
        commit.files.push_back(Stage(path, job, rows, random() % 2 == 0 ? 5'000 : 1 << 20).file);
        all.insert(all.end(), rows.begin(), rows.end());
      }
      const bool live = random() % 2 == 0;  // the database is open for writing meanwhile
      auto database = live ? OpenOk(path, Wide()) : nullptr;
      const JobReceipt receipt = CommitOk(path, commit);
      EXPECT_TRUE(receipt.pending.empty());
      if (database == nullptr) database = OpenOk(path, Wide());
      ASSERT_NO_FATAL_FAILURE(ExpectHolds(*database, all, "committed " + job));
      const Rows rows = RandomRows(&random, 50);
      ASSERT_TRUE(database->Append(Views(rows), Durability::kOs).ok());
      all.insert(all.end(), rows.begin(), rows.end());
      if (random() % 3 == 0) {
        ASSERT_TRUE(database->Flush().ok());
      }
      if (random() % 4 == 0) {
        ASSERT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
      }
      ASSERT_NO_FATAL_FAILURE(ExpectHolds(*database, all, "sealed"));
      ASSERT_TRUE(database->Close().ok());
      EXPECT_FALSE(fs::exists(path + "/jobs/" + job));
    }
  }
}

TEST(Job, TheTailGivesItOnceAndInOrder) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  const auto database = OpenOk(path, Wide());
  std::mt19937_64 random(2);
  const auto tail = database->NewTail({Filter::Parse("#").value()}, {}).value();
  Rows all;
  Rows seen;
  for (int step = 0; step < 6; ++step) {
    Rows rows = RandomRows(&random, 300);
    std::erase_if(rows, [](const Row& row) { return row.topic.starts_with("$"); });
    const std::string job = "j" + std::to_string(step);
    CommitOk(path, {job, {Stage(path, job, rows).file}, {}, 0});
    all.insert(all.end(), rows.begin(), rows.end());
    Rows appended = RandomRows(&random, 20);
    std::erase_if(appended, [](const Row& row) { return row.topic.starts_with("$"); });
    ASSERT_TRUE(database->Append(Views(appended), Durability::kOs).ok());
    all.insert(all.end(), appended.begin(), appended.end());
    if (step == 3) {
      ASSERT_TRUE(database->Flush().ok());
    }
    ReadTail(tail.get(), &seen);
    ASSERT_EQ(Sorted(seen), Sorted(all));
  }
  EXPECT_EQ(ByTopic(seen), ByTopic(all));  // a topic keeps the order of commits
  // After sealing, a tail from the start gives the same.
  ASSERT_TRUE(database->Flush().ok());
  Rows again;
  std::vector<Serial> serials;
  ReadTail(database->NewTail({Filter::Parse("#").value()}, {}).value().get(), &again, &serials);
  EXPECT_EQ(ByTopic(again), ByTopic(all));
  // A tail from any place gives the messages of later commits, each topic in order.
  for (Serial after{1}; after < Serial{20}; ++after) {
    TailOptions options;
    options.after = {{0, after}, {1, after}, {2, after}};
    Rows rest;
    ReadTail(database->NewTail({Filter::Parse("#").value()}, options).value().get(), &rest);
    Rows later;
    for (std::size_t i = 0; i < again.size(); ++i) {
      if (serials[i] > after) later.push_back(again[i]);
    }
    ASSERT_EQ(ByTopic(rest), ByTopic(later)) << after.value();
  }
}

TEST(Job, TimesThatAreNotGivenAreAssignedInOrder) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  const auto database = OpenOk(path);
  ASSERT_TRUE(
      database->Append(std::vector<MessageView>{{"a", kAssignTimestamp, "0"}}, Durability::kOs)
          .ok());
  Rows rows;
  for (int i = 1; i <= 500; ++i) rows.push_back({"a", kAssignTimestamp, std::to_string(i)});
  rows.push_back({"b", 7, "given"});
  CommitOk(path, {"j", {Stage(path, "j", rows, 2'000).file}, {}, 0});
  ASSERT_TRUE(
      database->Append(std::vector<MessageView>{{"a", kAssignTimestamp, "501"}}, Durability::kOs)
          .ok());
  const Rows found = Scan(*database, "a");
  ASSERT_EQ(found.size(), 502U);
  for (int i = 0; i <= 501; ++i) {
    EXPECT_EQ(found[static_cast<std::size_t>(i)].value, std::to_string(i));
    if (i > 0) {
      EXPECT_GT(found[static_cast<std::size_t>(i)].time,
                found[static_cast<std::size_t>(i - 1)].time);
    }
  }
  EXPECT_EQ(Scan(*database, "b"), (Rows{{"b", 7, "given"}}));
}

TEST(Job, WhatIsNotCommittedLeavesNothing) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  OpenOk(path)->Close().IgnoreError();
  std::mt19937_64 random(3);
  {
    const auto writer = StagedWriter::Open(path, "j", {1'000}).value();
    ASSERT_TRUE(writer->Append(Views(RandomRows(&random, 500))).ok());
    EXPECT_FALSE(fs::is_empty(path + "/jobs/j"));
  }
  EXPECT_TRUE(fs::is_empty(path + "/jobs"));
  Stage(path, "j", RandomRows(&random, 100));  // nobody commits this attempt
  const Rows rows = RandomRows(&random, 100);
  const StagedTask task = Stage(path, "j", rows);
  EXPECT_EQ(task.messages, 100U);
  CommitOk(path, {"j", {task.file, Stage(path, "j", {}).file}, {}, 0});
  EXPECT_EQ(Sorted(Scan(*OpenOk(path), "#")), Matching(rows, "#"));
  Stage(path, "k", rows);
  ASSERT_TRUE(AbortJob(path, "k").ok());
  EXPECT_TRUE(fs::is_empty(path + "/jobs"));
  EXPECT_EQ(Scan(*OpenOk(path), "#").size(), Matching(rows, "#").size());
}

TEST(Job, NobodyCommitsItWhileAnotherProcessMayRemoveItsFiles) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  OpenOk(path, Wide())->Close().IgnoreError();
  std::mt19937_64 random(31);
  const Rows rows = RandomRows(&random, 100);
  JobCommit commit{"j", {Stage(path, "j", rows).file}, {}, 0};
  commit.timeout = std::chrono::microseconds(0);
  {
    const auto other = LockJobs(path, std::chrono::microseconds(0)).value();
    EXPECT_EQ(CommitJob(path, commit).status().code(), Code::kLocked);
    EXPECT_EQ(AbortJob(path, "j", std::chrono::microseconds(0)).code(), Code::kLocked);
    EXPECT_TRUE(AbortJob(path, "never-staged", std::chrono::microseconds(0)).ok());
    EXPECT_TRUE(ListIntents(path)->empty());
    EXPECT_TRUE(fs::exists(path + "/jobs/j/" + commit.files.front()));
  }
  CommitOk(path, commit);
  EXPECT_EQ(Sorted(Scan(*OpenOk(path), "#")), Matching(rows, "#"));
}

TEST(Job, AnOpeningRemovesNothingWhileAnotherProcessCommits) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  OpenOk(path, Wide())->Close().IgnoreError();
  std::mt19937_64 random(32);
  const std::string staged = path + "/jobs/j";
  const std::string file = staged + "/" + Stage(path, "j", RandomRows(&random, 10)).file;
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(24);
  for (const auto& entry : fs::directory_iterator(staged)) fs::last_write_time(entry, long_ago);
  fs::last_write_time(staged, long_ago);
  {
    const auto other = LockJobs(path, std::chrono::microseconds(0)).value();
    OpenOk(path)->Close().IgnoreError();
    EXPECT_TRUE(fs::exists(file));
  }
  OpenOk(path)->Close().IgnoreError();
  EXPECT_FALSE(fs::exists(staged));
}

TEST(Job, ABatchThatIsRepeatedIsStoredOnce) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  OpenOk(path, Wide())->Close().IgnoreError();
  std::mt19937_64 random(4);
  const Rows rows = RandomRows(&random, 200);
  for (int attempt = 0; attempt < 3; ++attempt) {
    const std::string job = "attempt" + std::to_string(attempt);
    const JobReceipt receipt = CommitOk(path, {job, {Stage(path, job, rows).file}, "query", 7});
    EXPECT_EQ(receipt.repeated, attempt > 0);
  }
  CommitOk(path, {"older", {Stage(path, "older", rows).file}, "query", 6});
  EXPECT_EQ(Sorted(Scan(*OpenOk(path, Wide()), "#")), Matching(rows, "#"));
  CommitOk(path, {"next", {Stage(path, "next", rows).file}, "query", 8});
  EXPECT_EQ(Scan(*OpenOk(path, Wide()), "#").size(), 2 * Matching(rows, "#").size());
}

TEST(Job, ACommitThatIsRepeatedWhenItsFilesAreGoneIsKnown) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  OpenOk(path, Wide())->Close().IgnoreError();
  std::mt19937_64 random(5);
  const Rows rows = RandomRows(&random, 200);
  for (const auto& [job, sequence] : {std::pair("alone", ""), {"numbered", "query"}}) {
    const JobCommit commit{job, {Stage(path, job, rows).file}, sequence, sequence[0] ? 7U : 0U};
    const JobReceipt first = CommitOk(path, commit);
    const JobReceipt again = CommitOk(path, commit);
    EXPECT_FALSE(first.repeated);
    EXPECT_TRUE(again.repeated);
    EXPECT_EQ(again.serials, first.serials);
    EXPECT_EQ(again.messages, first.messages);
    EXPECT_TRUE(again.pending.empty());
  }
  EXPECT_TRUE(CommitOk(path, {"earlier", {"gone.staged"}, "query", 6}).repeated);
  for (const JobCommit& commit :
       {JobCommit{"never", {"gone.staged"}, "", 0}, JobCommit{"later", {"gone.staged"}, "query", 8},
        JobCommit{"query", {"gone.staged"}, "", 0}}) {
    EXPECT_EQ(CommitJob(path, commit).status().code(), Code::kNotFound) << commit.job;
  }
}

// Two processes may commit a job at once, and one may write its intent when the other has applied
// its own and removed what was staged.
TEST(Job, ASecondIntentOfAJobThatIsAppliedStopsNothing) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  OpenOk(path, Wide())->Close().IgnoreError();
  std::mt19937_64 random(7);
  const Rows rows = RandomRows(&random, 200);
  const StagedTask task = Stage(path, "j", rows);
  const JobReceipt receipt = CommitOk(path, {"j", {task.file}, {}, 0});
  ASSERT_TRUE(fs::is_empty(path + "/jobs"));
  JobIntent second;
  second.database = FindDatabase(path)->descriptor.id;
  second.job = second.sequence = "j";
  second.files = {task.file};
  for (const auto& [shard, serial] : receipt.serials) second.shards.push_back(shard);
  ASSERT_TRUE(WriteIntent(path, &second).ok());
  const auto database = OpenOk(path, Wide());
  ASSERT_NO_FATAL_FAILURE(ExpectHolds(*database, rows, "opened"));
  const Rows more = RandomRows(&random, 50);
  CommitOk(path, {"k", {Stage(path, "k", more).file}, {}, 0});
  EXPECT_EQ(Scan(*database, "#").size(), Matching(rows, "#").size() + Matching(more, "#").size());
}

TEST(Job, ItIsCommittedThoughNobodyCouldApplyIt) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  OpenOk(path, Wide())->Close().IgnoreError();
  std::mt19937_64 random(5);
  const Rows rows = RandomRows(&random, 400);
  const StagedTask task = Stage(path, "j", rows);
  {
    const auto other = FileLock::Acquire(path + "/shards/0001.lock").value();
    JobCommit commit{"j", {task.file}, {}, 0};
    commit.timeout = std::chrono::microseconds(0);
    EXPECT_EQ(CommitOk(path, commit).pending, std::vector<std::uint32_t>{1});
    ASSERT_TRUE(AbortJob(path, "j").ok());  // too late to change anything
  }
  const auto database = OpenOk(path, Wide());
  ASSERT_NO_FATAL_FAILURE(ExpectHolds(*database, rows, "opened"));
}

std::size_t CountSliced(const Database& database) {
  const auto slices = database.Slices({Filter::Everything()}, {});
  EXPECT_TRUE(slices.ok()) << slices.status().message();
  auto scan = database.NewScan({Filter::Everything()}, *slices);
  EXPECT_TRUE(scan.ok()) << scan.status().message();
  std::size_t count = 0;
  while (true) {
    auto batch = (*scan)->Next({1'000, 1 << 20});
    EXPECT_TRUE(batch.ok()) << batch.status().message();
    if (!batch.ok() || *batch == nullptr) return count;
    count += (*batch)->size();
  }
}

// Commits jobs of a sequence while another owner locks shard 1, so that they stay pending there.
void CommitBesides(const std::string& path, const Rows& rows, std::uint64_t first,
                   std::uint64_t last) {
  const auto other = FileLock::Acquire(path + "/shards/0001.lock").value();
  for (std::uint64_t number = first; number <= last; ++number) {
    const std::string job = "j" + std::to_string(number);
    JobCommit commit{job, {Stage(path, job, rows).file}, "query", number};
    commit.timeout = std::chrono::microseconds(0);
    EXPECT_EQ(CommitOk(path, commit).pending, std::vector<std::uint32_t>{1});
  }
}

TEST(Job, ItIsHiddenUntilEveryShardHasIt) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  OpenOptions reading;
  reading.read_only = true;
  std::mt19937_64 random(6);
  const Rows before = RandomRows(&random, 300);
  const Rows rows = RandomRows(&random, 100);
  constexpr std::uint64_t kJobs = 20;  // more than a shard remembers when none is behind
  Rows all = before;
  {
    const auto database = OpenOk(path, Wide());
    ASSERT_TRUE(database->Append(Views(before)).ok());
  }
  CommitBesides(path, rows, 1, kJobs);
  {
    const auto database = OpenOk(path, reading);
    ASSERT_NO_FATAL_FAILURE(ExpectHolds(*database, before, "pending"));
    EXPECT_EQ(CountSliced(*database), before.size());
    // The log gives the messages that are committed in each shard.
    auto tail = database->NewTail({Filter::Everything()}, {});
    std::size_t logged = 0;
    while (auto batch = (*tail)->Next({1'000, 1 << 20}, std::chrono::microseconds(0)).value()) {
      logged += batch->size();
    }
    EXPECT_GT(logged, before.size());
  }
  {
    OpenOptions some;  // readers see later commits of these shards
    some.only_shards = {0, 2};
    const auto database = OpenOk(path, some);
    Rows more;
    for (const Row& row : rows) {
      if (ShardOfTopic(row.topic, 3) != 1) more.push_back({row.topic, row.time, "later"});
    }
    ASSERT_TRUE(database->Append(Views(more)).ok());
    all.insert(all.end(), more.begin(), more.end());
  }
  {
    const auto database = OpenOk(path, reading);
    ASSERT_NO_FATAL_FAILURE(ExpectHolds(*database, all, "still pending"));
    EXPECT_EQ(CountSliced(*database), all.size());
  }
  for (std::uint64_t i = 0; i < kJobs; ++i) all.insert(all.end(), rows.begin(), rows.end());
  const auto database = OpenOk(path, Wide());
  ASSERT_NO_FATAL_FAILURE(ExpectHolds(*database, all, "applied"));
  EXPECT_EQ(CountSliced(*database), all.size());
  ASSERT_NO_FATAL_FAILURE(ExpectHolds(*OpenOk(path, reading), all, "applied, read"));
}

TEST(Job, DamagedOrForeignFilesAreRefusedBeforeTheCommit) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  OpenOk(path)->Close().IgnoreError();
  OpenOk(directory / "other")->Close().IgnoreError();
  std::mt19937_64 random(6);
  const Rows rows = RandomRows(&random, 100);
  const StagedTask task = Stage(path, "j", rows);
  const std::string file = path + "/jobs/j/" + task.file;
  const std::string bytes = ReadFile(file, 1 << 20).value();
  for (std::size_t at = 0; at < bytes.size(); at += 7) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    ASSERT_TRUE(WriteFileAtomically(file, flipped).ok());
    EXPECT_FALSE(CommitJob(path, {"j", {task.file}, {}, 0}).ok()) << at;
  }
  EXPECT_EQ(CommitJob(path, {"j", {"missing.staged"}, {}, 0}).status().code(), Code::kNotFound);
  EXPECT_EQ(CommitJob(path, {"j", {"../x.staged"}, {}, 0}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(CommitJob(path, {"a/b", {}, {}, 0}).status().code(), Code::kInvalidArgument);
  ASSERT_TRUE(WriteFileAtomically(file, bytes).ok());
  fs::create_directories(directory / "other/jobs");
  fs::copy(path + "/jobs/j", directory / "other/jobs/j");
  EXPECT_EQ(CommitJob(directory / "other", {"j", {task.file}, {}, 0}).status().code(),
            Code::kCorruption);
  EXPECT_TRUE(Scan(*OpenOk(path), "#").empty());
  CommitOk(path, {"j", {task.file}, {}, 0});
  EXPECT_EQ(Sorted(Scan(*OpenOk(path), "#")), Matching(rows, "#"));
}

TEST(Job, InSkipstreamALaterMessageOverwrites) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  OpenOptions options = Wide();
  options.schema.layout = LayoutKind::kSkipstream;
  OpenOk(path, options)->Close().IgnoreError();
  std::mt19937_64 random(8);
  std::map<std::pair<std::string, std::int64_t>, std::string> state;
  for (int step = 0; step < 4; ++step) {
    const std::string job = "j" + std::to_string(step);
    Rows rows = RandomRows(&random, 400);
    for (Row& row : rows) row.time %= 7;
    CommitOk(path, {job, {Stage(path, job, rows, 5'000).file}, {}, 0});
    for (const Row& row : rows) state[{row.topic, row.time}] = row.value;
    Rows all;
    for (const auto& [key, value] : state) all.push_back({key.first, key.second, value});
    ASSERT_NO_FATAL_FAILURE(ExpectHolds(*OpenOk(path, options), all, job));
  }
  CommitOk(path,
           {"now",
            {Stage(path, "now", {{"t", kAssignTimestamp, "1"}, {"t", kAssignTimestamp, "2"}}).file},
            {},
            0});
  const Rows found = Scan(*OpenOk(path, options), "t");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].value, "1");
  OpenOptions map;
  map.schema.timestamp_bytes = 0;
  OpenOk(directory / "map", map)->Close().IgnoreError();
  CommitOk(directory / "map",
           {"m",
            {Stage(directory / "map", "m",
                   {{"a", 0, "1"}, {"b", kAssignTimestamp, "2"}, {"a", kAssignTimestamp, "3"}})
                 .file},
            {},
            0});
  EXPECT_EQ(Sorted(Scan(*OpenOk(directory / "map", map), "#")),
            (Rows{{"a", 0, "3"}, {"b", 0, "2"}}));
}

// Staged messages have no layout. The generation that takes them has.
TEST(Job, EachClassTakesItsPartByTheLayoutOfItsGeneration) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  OpenOk(path, Wide())->Close().IgnoreError();
  std::mt19937_64 random(9);
  Rows logged;
  std::map<std::pair<std::string, std::int64_t>, std::string> state;
  const std::optional<LayoutKind> layouts[] = {LayoutKind::kSkipstream, std::nullopt,
                                               LayoutKind::kColumnar};
  for (int step = 0; step < 4; ++step) {
    const std::string job = "j" + std::to_string(step);
    Rows rows = RandomRows(&random, 400);
    for (Row& row : rows) row.time %= 7;
    const StagedTask task = Stage(path, job, rows, 5'000);
    bool is_state = false;
    {
      const auto database = OpenOk(path, Wide());
      if (step > 0) {
        ASSERT_TRUE(database->upkeep().Rotate("keep/#", false, layouts[step - 1]).ok());
      }
      const std::vector<SlabInfo> slabs = database->upkeep().Slabs().value();
      for (const SlabInfo& slab : slabs) {
        const bool is_current = !slab.read_only && slab.retention_class == "keep/#";
        is_state = is_state || (is_current && slab.layout == LayoutKind::kSkipstream);
      }
    }
    EXPECT_EQ(is_state, step == 1 || step == 2);
    CommitOk(path, {job, {task.file}, {}, 0});
    for (const Row& row : rows) {
      if (is_state && row.topic.starts_with("keep/")) {
        state[{row.topic, row.time}] = row.value;
      } else {
        logged.push_back(row);
      }
    }
    Rows all = logged;
    for (const auto& [key, value] : state) all.push_back({key.first, key.second, value});
    ASSERT_NO_FATAL_FAILURE(ExpectHolds(*OpenOk(path, Wide()), all, job));
  }
}

// Makes the staged messages of a job count for this many bytes in each class of each shard.
void PretendBytes(const std::string& path, const std::string& job, const std::string& name,
                  std::uint64_t bytes) {
  const std::string directory = JobDirectory(path, job);
  StagedFile file = LoadStagedFile(directory, name).value();
  for (StagedPart& part : file.parts) part.bytes = bytes;
  ASSERT_TRUE(WriteFileAtomically(directory + "/" + name, EncodeStagedFile(file)).ok());
}

TEST(Job, OneThatIsTooLargeForGenerationsWithoutBlocksIsRefused) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  OpenOptions options = Wide();
  options.schema.shards = 1;
  const auto database = OpenOk(path, options);
  ASSERT_TRUE(database->upkeep().Rotate("keep/#", false, LayoutKind::kSkipstream).ok());
  const StagedTask task = Stage(path, "j", {{"keep/a", 1, "x"}, {"m/a", 1, "y"}});
  const JobCommit commit{"j", {task.file}, {}, 0};
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  PretendBytes(path, "j", task.file, kGiB + 1);
  const Status refused = CommitJob(path, commit).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("1073741825 bytes for shard 0"), std::string::npos)
      << refused.message();
  EXPECT_TRUE(Scan(*database, "#").empty());
  EXPECT_TRUE(database->Jobs().value().empty());
  PretendBytes(path, "j", task.file, kGiB);  // the other half goes into blocks
  CommitOk(path, commit);
  EXPECT_EQ(Sorted(Scan(*database, "#")), (Rows{{"keep/a", 1, "x"}, {"m/a", 1, "y"}}));
}

TEST(Job, BadMessagesAreNamedOrCounted) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  OpenOk(path)->Close().IgnoreError();
  const auto writer = StagedWriter::Open(path, "j", {}).value();
  ASSERT_TRUE(writer->Append(std::vector<MessageView>{{"a", 1, "x"}}).ok());
  const Status status = writer->Append(std::vector<MessageView>{{"b", 1, "y"}, {"no/+", 2, "z"}});
  EXPECT_EQ(status.code(), Code::kTopic);
  EXPECT_NE(status.message().find("row 1"), std::string::npos) << status.message();
  EXPECT_EQ(writer->Finish().value().messages, 1U);
  StageOptions options;
  options.drop_malformed = true;
  const auto lenient = StagedWriter::Open(path, "j", options).value();
  ASSERT_TRUE(
      lenient->Append(std::vector<MessageView>{{"b", 1, "y"}, {"no/+", 2, "z"}, {"c", -5, "z"}})
          .ok());
  const StagedTask task = lenient->Finish().value();
  EXPECT_EQ(task.messages, 1U);
  EXPECT_EQ(task.malformed, 2U);
}

TEST(Job, DeletesAndMergesTakeItsBlocksLikeOthers) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  std::mt19937_64 random(7);
  Rows all;
  OpenOk(path, Wide())->Close().IgnoreError();
  for (int step = 0; step < 20; ++step) {  // makes small blocks, which are merged
    const Rows rows = RandomRows(&random, 30);
    const std::string job = "j" + std::to_string(step);
    CommitOk(path, {job, {Stage(path, job, rows).file}, {}, 0});
    all.insert(all.end(), rows.begin(), rows.end());
  }
  const auto database = OpenOk(path, Wide());
  const Filter gone = Filter::Parse("m/+/a").value();
  ASSERT_TRUE(database->Delete(gone, {{}, 2'500}, std::nullopt).ok());
  std::erase_if(all, [&](const Row& row) { return gone.Matches(row.topic) && row.time < 2'500; });
  ASSERT_NO_FATAL_FAILURE(ExpectHolds(*database, all, "deleted"));
  ASSERT_TRUE(database->Flush().ok());
  ASSERT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
  ASSERT_TRUE(database->Flush().ok());
  ASSERT_NO_FATAL_FAILURE(ExpectHolds(*database, all, "merged"));
  ASSERT_TRUE(database->Close().ok());
  ASSERT_NO_FATAL_FAILURE(ExpectHolds(*OpenOk(path, Wide()), all, "opened"));
}

}  // namespace
}  // namespace topicdb
