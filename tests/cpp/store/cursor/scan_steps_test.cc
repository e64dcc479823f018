#include "store/cursor/scan_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "test_directory.h"
#include "topicdb/database.h"
#include "topicdb/scan.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

using Texts = std::vector<std::string>;
using Lost = std::vector<std::pair<Generation, std::uint64_t>>;

// What a scan in steps gave: values, and generations of which so many messages were lost.
struct Given {
  Texts values;
  Lost lost;
};

class ScanStepsTest : public testing::TestWithParam<LayoutKind> {
 protected:
  void Open(std::uint32_t shards = 1, std::vector<RetentionClass> classes = {}) {
    options_.schema.layout = GetParam();
    options_.schema.shards = shards;
    options_.schema.retention = std::move(classes);
    options_.maintenance_interval = 0us;
    Reopen();
  }
  void Reopen() {
    database_.reset();
    auto database = Database::Open(directory_ / "db", options_);
    ASSERT_TRUE(database.ok()) << database.status().message();
    database_ = std::move(database).value();
  }
  void Append(const std::vector<MessageView>& messages) {
    const auto receipt = database_->Append(messages);
    ASSERT_TRUE(receipt.ok()) << receipt.status().message();
  }
  void Rotate(std::optional<LayoutKind> layout = std::nullopt) {
    ASSERT_TRUE(database_->upkeep().Rotate(std::nullopt, false, layout).ok());
  }
  static LayoutKind OtherLayout() {
    return GetParam() == LayoutKind::kColumnar ? LayoutKind::kSkipstream : LayoutKind::kColumnar;
  }
  void Drop(std::uint32_t generation, const std::string& retention_class = "#") {
    ASSERT_TRUE(database_->upkeep().DropSlab(0, retention_class, Generation{generation}).ok());
  }
  void Maintain() {
    now_ += 24h;
    const auto done = database_->upkeep().Maintain(now_);
    ASSERT_TRUE(done.ok()) << done.status().message();
  }

  ScanIterator Begin(const Texts& filters = {"#"}, const TimeRange& range = {}) const {
    return database_->NewScanIterator(Parsed(filters), range).value();
  }
  // Takes one step, and goes on in the iterator that another process would have decoded.
  Result<ScanPage> Step(ScanIterator* at, std::size_t rows = 1) const {
    const ScanIterator decoded = ScanIterator::Decode(at->Encode()).value();
    EXPECT_EQ(decoded, *at);
    auto page = database_->Next(decoded, {rows, std::size_t{1} << 20});
    if (page.ok()) *at = page->iterator;
    return page;
  }
  // Takes steps to the end.
  Given ReadOn(ScanIterator at, std::size_t rows = 1) const {
    Given given;
    while (true) {
      const auto page = Step(&at, rows);
      EXPECT_TRUE(page.ok()) << page.status().message();
      if (!page.ok()) return given;
      EXPECT_LE(page->batch->size(), rows);
      for (std::size_t i = 0; i < page->batch->size(); ++i) {
        given.values.emplace_back(page->batch->value(i));
      }
      if (page->loss.has_value()) {
        EXPECT_TRUE(page->batch->empty());
        given.lost.emplace_back(page->loss->generation, page->loss->messages);
      }
      EXPECT_EQ(page->end_of_scan, page->iterator.at_end());
      if (page->end_of_scan) return given;
      EXPECT_TRUE(page->loss.has_value() || !page->batch->empty());
    }
  }
  // Returns what a scan gives in the order of streams.
  Texts Scanned(const Texts& filters = {"#"}, const TimeRange& range = {}) const {
    ScanOptions options;
    options.range = range;
    const auto scan = database_->NewScan(Parsed(filters), options).value();
    Texts values;
    while (const auto batch = scan->Next({1'000, std::size_t{1} << 20}).value()) {
      for (std::size_t i = 0; i < batch->size(); ++i) values.emplace_back(batch->value(i));
    }
    return values;
  }

  static std::vector<Filter> Parsed(const Texts& filters) {
    std::vector<Filter> parsed;
    for (const std::string& text : filters) {
      parsed.push_back(text.empty() ? Filter::Everything() : Filter::Parse(text).value());
    }
    return parsed;
  }

  const TestDirectory directory_;
  OpenOptions options_;
  WallTime now_{4'000'000'000s};
  std::unique_ptr<Database> database_;
};

TEST_P(ScanStepsTest, GiveWhatAScanGivesInItsOrder) {
  Open(3, {{"a/#"}});
  for (int generation = 0; generation < 3; ++generation) {
    const std::string n = std::to_string(generation);
    const Texts values{n + "1", n + "2", n + "3", n + "4", n + "5"};
    Append({{"a/x", 9, values[0]}, {"b", 5, values[1]}, {"$c/d", 1, values[2]}});
    Append({{"a/x", 1 + generation, values[3]}, {"a/y/z", 7, values[4]}});
    Rotate();
  }
  for (const Texts& filters :
       {Texts{"#"}, Texts{""}, Texts{"a/x"}, Texts{"+/x", "a/#", "b"}, Texts{"none"}}) {
    for (const TimeRange& range : {TimeRange{}, TimeRange{2, 9}, TimeRange{5, std::nullopt}}) {
      const Texts expected = Scanned(filters, range);
      for (const std::size_t rows : {1, 2, 100}) {
        const Given given = ReadOn(Begin(filters, range), rows);
        EXPECT_EQ(given.values, expected);
        EXPECT_TRUE(given.lost.empty());
      }
    }
  }
}

TEST_P(ScanStepsTest, LeaveOutLaterCommits) {
  Open();
  Append({{"a", 1, "1"}, {"a", 5, "5"}});
  ScanIterator at = Begin();
  EXPECT_EQ(Step(&at)->batch->value(0), "1");
  Append({{"a", 3, "later"}, {"b", 0, "later"}});
  Rotate();
  Append({{"a", 4, "later"}});
  Reopen();
  EXPECT_EQ(ReadOn(at).values, (Texts{"5"}));
  EXPECT_EQ(ReadOn(Begin()).values, Scanned());
}

TEST_P(ScanStepsTest, LeaveOutWhatWasDeletedMeanwhile) {
  Open();
  Append({{"a", 1, "1"}, {"a", 2, "2"}, {"a", 3, "3"}, {"b", 1, "4"}});
  ScanIterator at = Begin();
  EXPECT_EQ(Step(&at)->batch->value(0), "1");
  ASSERT_TRUE(database_->Delete(Filter::Parse("a").value(), {2, 3}).ok());
  Given given = ReadOn(at);
  std::sort(given.values.begin(), given.values.end());
  EXPECT_EQ(given.values, (Texts{"3", "4"}));
}

TEST_P(ScanStepsTest, TellWhatWasDroppedAndGoOnBehindIt) {
  Open();
  Append({{"a", 1, "1"}, {"a", 2, "2"}});
  Rotate();
  Append({{"a", 3, "3"}});
  Append({{"a", 4, "4"}});
  Rotate();
  Append({{"a", 5, "5"}});
  ScanIterator at = Begin();
  EXPECT_EQ(Step(&at)->batch->value(0), "1");
  Drop(2);
  Drop(1);
  Reopen();
  const Given given = ReadOn(at);
  EXPECT_EQ(given.values, (Texts{"5"}));
  EXPECT_EQ(given.lost, (Lost{{Generation{2}, 2}, {Generation{1}, 2}}));
}

TEST_P(ScanStepsTest, TellNothingOfGenerationsThatWereReadOrBeganLater) {
  Open();
  Append({{"a", 1, "1"}});
  Rotate();
  Append({{"a", 2, "2"}});
  Append({{"a", 3, "3"}});
  ScanIterator at = Begin();
  EXPECT_EQ(Step(&at)->batch->value(0), "1");
  EXPECT_EQ(Step(&at)->batch->value(0), "2") << "so the first generation was read";
  Rotate();
  Append({{"a", 4, "later"}});
  Rotate();
  Drop(1);
  Drop(3);
  const Given given = ReadOn(at);
  EXPECT_EQ(given.values, (Texts{"3"}));
  EXPECT_TRUE(given.lost.empty());
}

TEST_P(ScanStepsTest, TellNothingOfAGenerationThatHadNothingLeft) {
  Open();
  Append({{"a", 1, "1"}, {"a", 2, "2"}});
  Rotate();
  Append({{"a", 3, "3"}});
  ScanIterator at = Begin();
  EXPECT_EQ(Step(&at)->batch->value(0), "1");
  ASSERT_TRUE(database_->Delete(Filter::Parse("a").value(), {0, 3}).ok());
  Drop(1);
  const Given given = ReadOn(at);
  EXPECT_EQ(given.values, (Texts{"3"}));
  EXPECT_TRUE(given.lost.empty());
}

TEST_P(ScanStepsTest, ReadGenerationsOfBothLayouts) {
  Open();
  Append({{"a", 5, "1"}, {"a", 5, "2"}, {"b", 5, "3"}});
  Rotate(OtherLayout());
  Append({{"a", 5, "4"}, {"a", 5, "5"}, {"c", 1, "6"}});
  Rotate(GetParam());
  Append({{"a", 6, "7"}, {"a", 1, "8"}});
  const Texts everything = Scanned();
  for (const std::size_t rows : {1, 2, 100}) EXPECT_EQ(ReadOn(Begin(), rows).values, everything);
  ScanIterator at = Begin();
  const std::string first(Step(&at)->batch->value(0));
  Rotate(OtherLayout());
  Append({{"b", 5, "later"}, {"b", 6, "later"}});
  Reopen();
  Given given = ReadOn(at);
  given.values.insert(given.values.begin(), first);
  EXPECT_EQ(given.values, everything) << "a later generation has replaced nothing of the others";
  Drop(2);
  const Given rest = ReadOn(at);
  EXPECT_EQ(rest.lost, (Lost{{Generation{2}, OtherLayout() == LayoutKind::kColumnar ? 3U : 2U}}));
  EXPECT_EQ(rest.values.size(), everything.size() - 1 - rest.lost.front().second);
}

TEST_P(ScanStepsTest, GiveWhatKeepLastHasKept) {
  Open(1, {{"#", 0us, 0, 1us, 2}});
  Append({{"a", 1, "1"}, {"a", 2, "2"}});
  Rotate();
  Append({{"a", 3, "3"}, {"b", 3, "4"}});
  const ScanIterator fresh = Begin();
  ScanIterator within = fresh;
  EXPECT_EQ(Step(&within)->batch->value(0), "1");
  Maintain();  // what is left of both generations is in one now
  const Given given = ReadOn(fresh);
  EXPECT_EQ(given.values, Scanned());
  EXPECT_EQ(given.values.size(), 3U);
  EXPECT_TRUE(given.lost.empty());
  const Status lost = database_->Next(within, {1, 1'000}).status();
  EXPECT_EQ(lost.code(), Code::kNotFound);
  EXPECT_NE(lost.message().find("merged"), std::string::npos) << lost.message();
}

TEST_P(ScanStepsTest, GiveWhatKeepLastHasKeptWithoutWhatWasGiven) {
  Open(1, {{"#", 0us, 0, 1us, 2}});
  Append({{"a", 1, "1"}});
  Rotate();
  Append({{"a", 2, "2"}, {"b", 2, "3"}});
  // A scan that has read the first generation.
  ScanIterator at = Begin();
  ScanProgress& progress = at.shards.front().classes.front();
  progress.next = progress.next.Next();
  progress.read = Serial{1};
  Maintain();
  EXPECT_EQ(Scanned().size(), 3U);
  EXPECT_EQ(ReadOn(at).values, (Texts{"2", "3"}));
}

TEST_P(ScanStepsTest, RefuseAnotherDatabaseAndAViewThatIsOlder) {
  Open();
  Append({{"a", 1, "1"}});
  ScanIterator other = Begin();
  other.database.fill(1);
  EXPECT_EQ(database_->Next(other, {1, 1'000}).status().code(), Code::kNotFound);
  OpenOptions reading = options_;
  reading.read_only = true;
  const auto reader = Database::Open(directory_ / "db", reading);
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  Append({{"a", 2, "2"}});
  const ScanIterator at = Begin();
  const Status early = (*reader)->Next(at, {1, 1'000}).status();
  EXPECT_EQ(early.code(), Code::kInvalidArgument);
  EXPECT_NE(early.message().find("refresh()"), std::string::npos) << early.message();
  ASSERT_TRUE((*reader)->Refresh().ok());
  EXPECT_EQ((*reader)->Next(at, {9, 1'000})->batch->size(), 2U);
  EXPECT_EQ(database_->NewScanIterator({}, {}).status().code(), Code::kInvalidArgument);
}

TEST_P(ScanStepsTest, OfAShardThatIsNotOpenFail) {
  Open(2);
  const ScanIterator at = Begin();
  options_.only_shards = {{1}};
  Reopen();
  EXPECT_EQ(database_->Next(at, {1, 1'000}).status().code(), Code::kNotFound);
  EXPECT_TRUE(database_->Next(Begin(), {1, 1'000})->end_of_scan);
}

TEST_P(ScanStepsTest, EndWhenTheyAreInterrupted) {
  Open();
  Append({{"a", 1, "1"}});
  const ScanIterator at = Begin();
  EXPECT_EQ(database_->Next(at, {1, 1'000}, [] { return true; }).status().code(),
            Code::kInterrupted);
  EXPECT_EQ(ReadOn(at).values, (Texts{"1"}));
}

INSTANTIATE_TEST_SUITE_P(Layouts, ScanStepsTest,
                         testing::Values(LayoutKind::kColumnar, LayoutKind::kSkipstream),
                         [](const auto& one) {
                           return one.param == LayoutKind::kColumnar ? "Columnar" : "Skipstream";
                         });

}  // namespace
}  // namespace topicdb
