// What a database does that was opened without one of its shards.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/database/database_parts.h"
#include "subscribe/subscribing.h"
#include "topicdb/arrow.h"
#include "topicdb/stream_watch.h"
#include "topicdb/tail.h"
#include "topicdb/transaction.h"

namespace topicdb {
namespace {

using Strings = std::set<std::string>;

constexpr std::uint32_t kShards = 3;
constexpr std::uint32_t kMissing = 1;

std::vector<Filter> One(const std::string& filter) { return {Filter::Parse(filter).value()}; }

// Returns the values that a scan gives.
Strings ValuesOf(Scan& scan) {
  Strings values;
  while (true) {
    const auto batch = scan.Next({100, 1 << 20}).value();
    if (batch == nullptr) return values;
    for (std::size_t row = 0; row < batch->size(); ++row) values.emplace(batch->value(row));
  }
}

// A database of three shards with a message in each, whose value is the number of its shard. One
// shard is gone.
class MissingShardTest : public ::testing::Test {
 protected:
  MissingShardTest() {
    {
      const auto database = OpenOk(path_, kShards);
      for (std::uint32_t shard = 0; shard < kShards; ++shard) {
        Append(*database, {{TopicIn(shard, kShards), std::to_string(shard)}}, 5);
      }
    }
    std::filesystem::rename(shard_path_, away_);
    database_ = Open(/*read_only=*/false);
  }

  std::unique_ptr<Database> Open(bool read_only) const {
    OpenOptions options;
    options.on_damage = OnDamage::kSkip;
    options.read_only = read_only;
    options.maintenance_interval = std::chrono::microseconds(0);
    auto database = Database::Open(path_, options);
    EXPECT_TRUE(database.ok()) << database.status().message();
    return std::move(database).value();
  }
  // Brings the shard back, and opens the database with all shards.
  std::unique_ptr<Database> Whole() {
    EXPECT_TRUE(database_->Close().ok());
    std::filesystem::rename(away_, shard_path_);
    return OpenOk(path_, kShards);
  }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "db";
  const std::string shard_path_ = path_ + "/shards/0001";
  const std::string away_ = directory_ / "away";
  const std::string here_ = TopicIn(0, kShards);
  const std::string there_ = TopicIn(kMissing, kShards);
  std::unique_ptr<Database> database_;
};

void ExpectMissing(const Status& status) {
  EXPECT_EQ(status.code(), Code::kMissingShard);
  EXPECT_NE(status.message().find("was opened without shard 1 ("), std::string::npos)
      << status.message();
}

TEST_F(MissingShardTest, ReadsAreRefusedWhateverTheirFilter) {
  for (const std::string& filter : {std::string("#"), std::string("t/+"), there_, here_}) {
    const std::vector<Filter> filters = One(filter);
    ExpectMissing(database_->NewScan(filters, ScanOptions()).status());
    ExpectMissing(database_->NewScanIterator(filters, {}).status());
    ExpectMissing(database_->Last(filters, {}).status());
    ExpectMissing(database_->Streams(filters[0], {}).status());
    ExpectMissing(database_->Slices(filters, {}).status());
    ExpectMissing(database_->Explain(filters, {}).status());
    ExpectMissing(database_->NewTail(filters, {}).status());
    ExpectMissing(database_->WatchStreams(filters[0], true).status());
    ExpectMissing(database_->subscriptions().Subscribe(filters, {}, {}).status());
    ExpectMissing(database_->subscriptions().CheckLog(filters, {}));
    ExpectMissing(database_->subscriptions().PlacesAt(filters, 0, nullptr).status());
    EXPECT_EQ(database_->MissingShards(filters).value().size(), 1U);
  }
  ExpectMissing(database_->MeasureLog(kMissing, One("#"), {}, {}).status());
  ExpectMissing(
      database_->subscriptions().CountDropped(kMissing, One("#"), 0, {}, kNoSerial).status());
  EXPECT_NE(database_->Last(One("#"), {}).status().message().find("partial=True reads the rest"),
            std::string::npos);
}

// A transaction may have written any topic to it. Nobody can know of that while it is missing.
TEST_F(MissingShardTest, AMessageOfAnotherShardsTopicIsNotLackedUnasked) {
  {
    const auto whole = Whole();
    const auto transaction = whole->Begin({kMissing, std::nullopt, std::nullopt}).value();
    ASSERT_TRUE(transaction->Write({here_, 7, "elsewhere"}).ok());
    ASSERT_TRUE(transaction->Commit().ok());
    EXPECT_EQ(ValuesOf(*whole->NewScan(One(here_), ScanOptions()).value()),
              (Strings{"0", "elsewhere"}));
  }
  std::filesystem::rename(shard_path_, away_);
  database_ = Open(/*read_only=*/false);
  ExpectMissing(database_->NewScan(One(here_), ScanOptions()).status());
  ExpectMissing(database_->Last(One(here_), {}).status());
  ExpectMissing(database_->Delete(Filter::Parse(here_).value(), {}).status());
  const auto rest = database_->Partial()->NewScan(One(here_), ScanOptions()).value();
  EXPECT_TRUE(rest->missing_shards().contains(kMissing));
  EXPECT_EQ(ValuesOf(*rest), Strings{"0"});

  const auto whole = Whole();
  EXPECT_EQ(ValuesOf(*whole->NewScan(One(here_), ScanOptions()).value()),
            (Strings{"0", "elsewhere"}));
}

TEST_F(MissingShardTest, ReadsThatNameWhatIsThereGoOn) {
  const auto partial = database_->Partial();
  const std::vector<Filter> filters = One(here_);
  const std::vector<Stream> streams = partial->Streams(filters[0], {}).value();
  ASSERT_EQ(streams.size(), 1U);
  const auto of_streams =
      database_->NewScan(filters, ScanOptions{{}, ScanOrder::kStream, streams}).value();
  EXPECT_TRUE(of_streams->missing_shards().empty());
  EXPECT_EQ(ValuesOf(*of_streams), Strings{"0"});
  const std::vector<Slice> slices = partial->Slices(filters, {}).value();
  EXPECT_EQ(slices.size(), 1U);
  EXPECT_EQ(ValuesOf(*database_->NewScan(filters, slices).value()), Strings{"0"});
  EXPECT_EQ(database_->Summarize(filters, slices, {}).value().at(0).messages, 1U);
  const Iterator iterator = database_->NewIterator(streams[0], filters[0], {}).value();
  EXPECT_EQ(database_->Next(iterator, {}).value().batch->value(0), "0");
  const ScanIterator steps = partial->NewScanIterator(filters, {}).value();
  EXPECT_EQ(database_->Next(steps, {}).value().batch->value(0), "0");
  EXPECT_EQ(database_->MeasureLog(0, filters, {}, {}).value().messages, 1U);
}

TEST_F(MissingShardTest, PartialReadsLeaveItOutAndSaySo) {
  const auto partial = database_->Partial();
  const std::vector<Filter> all = One("#");
  std::vector<std::unique_ptr<Scan>> scans;
  scans.push_back(partial->NewScan(all, ScanOptions()).value());
  scans.push_back(partial->Last(all, {}).value());
  for (const auto& scan : scans) {
    EXPECT_EQ(ValuesOf(*scan), (Strings{"0", "2"}));
    ASSERT_EQ(scan->missing_shards().size(), 1U);
    EXPECT_NE(scan->missing_shards().at(kMissing).find("is missing"), std::string::npos);
  }
  EXPECT_EQ(partial->Streams(all[0], {}).value().size(), 2U);
  const auto slices = partial->Slices(all, {}).value();
  EXPECT_EQ(ValuesOf(*partial->NewScan(all, slices).value()), (Strings{"0", "2"}));
  EXPECT_EQ(partial->Explain(all, {}).value().counters.rows_matched, 2U);
  const auto watch = partial->WatchStreams(all[0], true).value();
  EXPECT_EQ(watch->Next(std::chrono::seconds(60)).value().size(), 2U);
  EXPECT_TRUE(partial->subscriptions().CheckLog(all, {}).ok());
  EXPECT_EQ(partial->subscriptions().PlacesAt(all, 0, nullptr).value().size(), 2U);

  const auto tail = partial->NewTail(all, {}).value();
  EXPECT_TRUE(tail->missing_shards().contains(kMissing));
  Strings tailed;
  while (const auto batch = tail->Next({10, 1 << 20}, std::chrono::microseconds(0)).value()) {
    for (std::size_t row = 0; row < batch->size(); ++row) tailed.emplace(batch->value(row));
  }
  EXPECT_EQ(tailed, (Strings{"0", "2"}));
  EXPECT_FALSE(tail->serials().contains(kMissing));

  const auto subscription = partial->subscriptions().Subscribe(all, {}, {}).value();
  EXPECT_TRUE(subscription->missing_shards().contains(kMissing));
  const auto values = Take(*subscription, 2);
  EXPECT_EQ(Strings(values.begin(), values.end()), (Strings{"0", "2"}));

  const auto of_one = partial->NewScan(One(here_), ScanOptions()).value();
  EXPECT_TRUE(of_one->missing_shards().contains(kMissing));
  EXPECT_EQ(ValuesOf(*of_one), Strings{"0"});
  EXPECT_EQ(database_->GetStats().value().missing.size(), 1U);
}

// A stream of the shard, from before it was gone.
TEST_F(MissingShardTest, WhatNamesItIsRefusedAlsoOfPartialReads) {
  const auto whole = Whole();
  const std::vector<Stream> streams = whole->Streams(Filter::Parse(there_).value(), {}).value();
  const std::vector<Slice> slices = whole->Slices(One(there_), {}).value();
  const Iterator iterator =
      whole->NewIterator(streams.at(0), Filter::Parse("#").value(), {}).value();
  ASSERT_TRUE(whole->Close().ok());
  std::filesystem::rename(shard_path_, away_);
  database_ = Open(/*read_only=*/false);
  const auto partial = database_->Partial();
  const ScanOptions of_streams{{}, ScanOrder::kStream, streams};
  ExpectMissing(partial->NewScan(One("#"), of_streams).status());
  ExpectMissing(partial->NewScan(One("#"), slices).status());
  ExpectMissing(partial->Next(iterator, {}).status());
  ExpectMissing(partial->NewIterator(streams.at(0), Filter::Parse("#").value(), {}).status());
}

TEST_F(MissingShardTest, AppendsToItAreRefusedAndOthersGoOn) {
  const std::vector<MessageView> both{{here_, 6, "both"}, {there_, 6, "both"}};
  for (const auto& messages : {both, std::vector<MessageView>{{there_, 6, "there"}}}) {
    const Status refused = database_->Append(messages).status();
    ExpectMissing(refused);
    EXPECT_NE(refused.message().find("topic '" + there_ + "'"), std::string::npos);
    EXPECT_NE(refused.message().find("nothing was stored"), std::string::npos);
    ExpectMissing(database_->AppendAsync(messages, nullptr, std::nullopt, [](Result<Receipt>) {
      ADD_FAILURE() << "it was queued";
    }));
  }
  const std::vector<MessageView> here{{here_, 6, "here"}};
  EXPECT_TRUE(database_->Append(here).ok());
  EXPECT_TRUE(database_->Partial()->Append(here).ok());
  ExpectMissing(database_->Partial()->Append(both).status());

  const auto whole = Whole();
  EXPECT_EQ(ValuesOf(*whole->NewScan(One("#"), ScanOptions()).value()),
            (Strings{"0", "1", "2", "here"}));
}

TEST_F(MissingShardTest, ChangesThatNeedItAreRefusedAndNothingIsChanged) {
  for (const std::string& filter : {std::string("#"), there_, here_}) {
    const Filter parsed = Filter::Parse(filter).value();
    ExpectMissing(database_->Delete(parsed, {}).status());
    ExpectMissing(database_->Trim(100, parsed, false).status());
    ExpectMissing(database_->Partial()->Delete(parsed, {}).status());
  }
  for (const bool dry_run : {true, false}) {
    ExpectMissing(database_->Trim(100, std::nullopt, dry_run).status());
    const std::vector classes{RetentionClass{"a/#", {}, 0, {}, 0}};
    ExpectMissing(database_->upkeep().SetRetention(classes, dry_run).status());
  }
  ExpectMissing(database_->upkeep().Rotate(std::nullopt));
  ExpectMissing(database_->upkeep().DropSlab(kMissing, "#", Generation{1}));
  ExpectMissing(database_->MakeSnapshot(directory_ / "copy", {}).status());
  EXPECT_FALSE(std::filesystem::exists(directory_ / "copy"));
  ExpectMissing(database_->Begin({kMissing, std::nullopt, std::nullopt}).status());

  const auto whole = Whole();
  EXPECT_EQ(ValuesOf(*whole->NewScan(One("#"), ScanOptions()).value()), (Strings{"0", "1", "2"}));
  EXPECT_EQ(whole->upkeep().Slabs().value().size(), kShards);
}

TEST_F(MissingShardTest, ChangesThatDoNotNeedItGoOn) {
  const auto transaction = database_->Begin({0, std::nullopt, std::nullopt}).value();
  ASSERT_TRUE(transaction->Delete(Filter::Parse(here_).value(), {}).ok());
  ASSERT_TRUE(transaction->Write({here_, 7, "written"}).ok());
  EXPECT_TRUE(transaction->Commit().ok());
  EXPECT_TRUE(database_->upkeep().Maintain(std::nullopt).ok());
  EXPECT_TRUE(database_->upkeep().Expire(std::nullopt).ok());
  EXPECT_TRUE(database_->Flush().ok());
  EXPECT_EQ(database_->upkeep().Slabs().value().size(), 2U);

  const auto whole = Whole();
  EXPECT_EQ(ValuesOf(*whole->NewScan(One("#"), ScanOptions()).value()),
            (Strings{"1", "2", "written"}));
}

TEST_F(MissingShardTest, BothHandlesCloseTheDatabaseAndDestroyingThePartialOneDoesNot) {
  {
    const auto partial = database_->Partial();
  }
  EXPECT_FALSE(database_->closed());
  const auto partial = database_->Partial();
  ASSERT_TRUE(database_->Close().ok());
  EXPECT_TRUE(partial->closed());
  EXPECT_EQ(partial->NewScan(One("#"), ScanOptions()).status().code(), Code::kClosed);
  EXPECT_EQ(partial->MissingShards(One("#")).status().code(), Code::kClosed);
  database_.reset();
  EXPECT_EQ(partial->GetStats().status().code(), Code::kClosed) << "it outlives the other handle";
}

// What began without the shard goes on without it, and what begins later reads it.
TEST_F(MissingShardTest, AReaderReadsItOnceItIsBack) {
  ASSERT_TRUE(database_->Close().ok());
  const auto reader = Open(/*read_only=*/true);
  const auto partial = reader->Partial();
  const std::vector<Filter> all = One("#");
  const auto tail = partial->NewTail(all, {}).value();
  const auto subscription = partial->subscriptions().Subscribe(all, {}, {}).value();
  EXPECT_EQ(Take(*subscription, 2).size(), 2U);

  std::filesystem::rename(away_, shard_path_);
  ASSERT_TRUE(reader->Refresh().ok());
  EXPECT_TRUE(reader->MissingShards(all).value().empty());
  EXPECT_EQ(ValuesOf(*reader->NewScan(all, ScanOptions()).value()), (Strings{"0", "1", "2"}));
  std::size_t tailed = 0;
  while (const auto batch = tail->Next({10, 1 << 20}, std::chrono::microseconds(0)).value()) {
    tailed += batch->size();
  }
  EXPECT_EQ(tailed, 2U);
  EXPECT_TRUE(tail->missing_shards().contains(kMissing)) << "as it was when the tail began";

  TailOptions after;
  after.after = tail->serials();
  const auto next = reader->NewTail(all, after).value();
  EXPECT_EQ(next->Next({10, 1 << 20}, std::chrono::microseconds(0)).value()->value(0), "1");
  const auto values = Take(*Subscribe(*reader, "#"), 3);
  EXPECT_EQ(Strings(values.begin(), values.end()), (Strings{"0", "1", "2"}));
}

// The metadata of a schema has the number of entries, and the key and the value of each behind
// their sizes.
TEST_F(MissingShardTest, ArrowDataNamesItInItsMetadata) {
  const auto metadata = [](std::shared_ptr<Scan> scan) {
    ArrowArrayStream stream;
    ExportStream(std::move(scan), {}, ValueForm::kStored, &stream);
    ArrowSchema schema;
    EXPECT_EQ(stream.get_schema(&stream, &schema), 0);
    std::string text;
    if (schema.metadata != nullptr) {
      std::int32_t size = 0;
      const char* next = schema.metadata + sizeof size;
      for (int part = 0; part < 2; ++part) {
        std::memcpy(&size, next, sizeof size);
        text += (text.empty() ? "" : "=") + std::string(next + sizeof size, size);
        next += sizeof size + static_cast<std::size_t>(size);
      }
      std::int32_t entries = 0;
      std::memcpy(&entries, schema.metadata, sizeof entries);
      EXPECT_EQ(entries, 1);
    }
    schema.release(&schema);
    stream.release(&stream);
    return text;
  };
  const auto partial = database_->Partial();
  EXPECT_EQ(metadata(partial->NewScan(One("#"), ScanOptions()).value()),
            "topicdb.missing_shards=1");
  EXPECT_EQ(metadata(partial->NewScan(One(here_), ScanOptions()).value()),
            "topicdb.missing_shards=1");
  const ScanOptions of_streams{{}, ScanOrder::kStream, partial->Streams(One("#")[0], {}).value()};
  EXPECT_EQ(metadata(partial->NewScan(One("#"), of_streams).value()), "") << "these are all there";
}

}  // namespace
}  // namespace topicdb
