#include "subscribe/page_reader.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layout/columnar/format/block_format.h"
#include "store/database/create.h"
#include "subscribe/log_parts.h"
#include "test_directory.h"

namespace topicdb {
namespace {

// A shard with three commits of two messages: "a" at the times 10, 20 and 30, and "b" 1 later.
class PageReaderTest : public ::testing::Test {
 protected:
  PageReaderTest() {
    const std::string path = directory_ / "db";
    const auto environment = MakeShardEnvironment(path, FindOrCreateDatabase(path, {}).value(), {});
    environment->sealer->Stop();
    shard_ = Shard::Open(environment, 0, /*create=*/false).value();
    for (int i = 1; i <= 3; ++i) Append(10 * i);
  }
  ~PageReaderTest() override { EXPECT_TRUE(shard_->Close().ok()); }

  void Append(std::int64_t timestamp) {
    const std::vector<MessageView> messages{{"a", timestamp, "x"}, {"b", timestamp + 1, "y"}};
    ShardCommit commit;
    commit.messages = messages;
    shard_->Commit(&commit);
    ASSERT_TRUE(commit.status.ok()) << commit.status.message();
  }
  void Delete(const std::string& filter) {
    TransactionOps ops;
    ops.deletes.push_back({Filter::Parse(filter).value(), {}});
    ShardCommit commit;
    commit.transaction = &ops;
    shard_->Commit(&commit);
    ASSERT_TRUE(commit.status.ok()) << commit.status.message();
  }
  Result<std::shared_ptr<LogPage>> TryRead(PageReader* reader, const SharedInterest& interest,
                                           const CommitPlace& from, std::size_t rows_max) const {
    return reader->Read(shard_, SetOf({interest}), from, {rows_max, 1 << 20, true}, nullptr);
  }
  // Returns what was read. The page refers to nothing of the shard.
  LogSpan Read(PageReader* reader, const CommitPlace& from, std::size_t rows_max = 100) const {
    return ReadFor(reader, all_, from, rows_max);
  }
  LogSpan ReadFor(PageReader* reader, const SharedInterest& interest, const CommitPlace& from,
                  std::size_t rows_max = 100) const {
    const auto page = TryRead(reader, interest, from, rows_max);
    EXPECT_TRUE(page.ok()) << page.status().message();
    return page.ok() ? (*page)->span() : LogSpan{};
  }

  const TestDirectory directory_;
  std::shared_ptr<Shard> shard_;
  const SharedInterest all_ = InterestIn(1, {"#"});
};

using Places = std::vector<CommitPlace>;

TEST_F(PageReaderTest, ReadsFromAPlaceToTheEnd) {
  PageReader reader(1);
  const LogSpan span = Read(&reader, At(2));
  EXPECT_EQ(span.shard, 0U);
  EXPECT_EQ(span.from, At(2));
  EXPECT_EQ(span.to, At(4));
  EXPECT_TRUE(span.at_end);
  EXPECT_EQ(span.view_serial, Serial{3});
  EXPECT_EQ(span.removals_version, shard_->view()->removals_version());
  EXPECT_EQ(PlacesOf(span.rows), (Places{At(2, 0), At(2, 1), At(3, 0), At(3, 1)}));
  EXPECT_EQ(span.rows->batch->topic(3), "b");
  EXPECT_EQ(PlacesOf(Read(&reader, At(3, 1)).rows), Places{At(3, 1)});
  const LogSpan behind = Read(&reader, At(4));
  EXPECT_TRUE(behind.at_end);
  EXPECT_EQ(behind.to, At(4));
  EXPECT_EQ(behind.rows->size(), 0U);
}

TEST_F(PageReaderTest, StopsAtItsLimitsWithinACommitToo) {
  PageReader reader(1);
  const LogSpan first = Read(&reader, At(1), 3);
  EXPECT_EQ(PlacesOf(first.rows), (Places{At(1, 0), At(1, 1), At(2, 0)}));
  EXPECT_EQ(first.to, At(2, 1));
  EXPECT_FALSE(first.at_end);
  const LogSpan rest = Read(&reader, first.to);
  EXPECT_EQ(PlacesOf(rest.rows), (Places{At(2, 1), At(3, 0), At(3, 1)}));
  EXPECT_TRUE(rest.at_end);
}

TEST_F(PageReaderTest, ReadsOnlyWhatTheInterestsWant) {
  PageReader reader(1);
  const SharedInterest b = InterestIn(2, {"b"}, 21);
  const LogSpan span = ReadFor(&reader, b, At(1));
  EXPECT_EQ(PlacesOf(span.rows), (Places{At(2, 1), At(3, 1)}));
  const auto both = reader.Read(shard_, SetOf({b, InterestIn(3, {"a"}, 30)}), At(1),
                                {100, 1 << 20, true}, nullptr);
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(PlacesOf((*both)->RowsOf(*b)), (Places{At(2, 1), At(3, 1)}));
  EXPECT_EQ(PlacesOf((*both)->rows().at(3)), Places{At(3, 0)});
}

// A cursor that is kept goes on with the view that it has, so it does not know later commits.
TEST_F(PageReaderTest, GoesOnWhereACursorStands) {
  PageReader reader(1);
  const LogSpan first = Read(&reader, At(1), 2);
  Append(40);
  const LogSpan second = ReadFor(&reader, InterestIn(9, {"#"}), first.to, 2);
  EXPECT_EQ(PlacesOf(second.rows), (Places{At(2, 0), At(2, 1)}));
  EXPECT_EQ(second.view_serial, Serial{3}) << "others that want the same use it, too";
  EXPECT_EQ(ReadFor(&reader, InterestIn(2, {"a"}), second.to, 1).view_serial, Serial{4});
  EXPECT_EQ(Read(&reader, second.to, 2).view_serial, Serial{4}) << "it keeps one cursor";
}

TEST_F(PageReaderTest, KeepsAFewCursorsThatWereUsedLast) {
  PageReader reader(2);
  Read(&reader, At(1), 1);
  ReadFor(&reader, InterestIn(2, {"a"}), At(1), 1);
  ReadFor(&reader, InterestIn(3, {"b"}), At(1), 1);
  Append(40);
  EXPECT_EQ(ReadFor(&reader, InterestIn(3, {"b"}), At(2, 1), 1).view_serial, Serial{3});
  EXPECT_EQ(ReadFor(&reader, InterestIn(2, {"a"}), At(2, 0), 1).view_serial, Serial{3});
  EXPECT_EQ(Read(&reader, At(1, 1), 1).view_serial, Serial{4}) << "it was used before the others";
}

TEST_F(PageReaderTest, ClearedItBeginsAnew) {
  PageReader reader(4);
  const LogSpan first = Read(&reader, At(1), 2);
  Append(40);
  reader.Clear();
  const LogSpan second = Read(&reader, first.to);
  EXPECT_EQ(second.view_serial, Serial{4});
  EXPECT_EQ(second.rows->size(), 6U);
}

TEST_F(PageReaderTest, WhatWasRemovedMeanwhileDoesNotCome) {
  PageReader reader(4);
  const LogSpan first = Read(&reader, At(1), 2);
  Delete("a");
  const LogSpan second = Read(&reader, first.to);
  EXPECT_EQ(PlacesOf(second.rows), (Places{At(2, 1), At(3, 1)}));
  EXPECT_NE(second.removals_version, first.removals_version);
}

TEST_F(PageReaderTest, StopsBeforeAGenerationWithoutALog) {
  ASSERT_TRUE(shard_->Rotate(std::nullopt, std::nullopt, false, LayoutKind::kSkipstream).ok());
  Append(40);
  PageReader reader(4);
  const LogSpan span = Read(&reader, At(1));
  EXPECT_EQ(span.rows->size(), 6U);
  EXPECT_EQ(span.to, At(5)) << "the rotation is a commit, too";
  EXPECT_FALSE(span.at_end);
  EXPECT_FALSE(span.passed_unlogged);
  const Status status = TryRead(&reader, all_, span.to, 100).status();
  EXPECT_EQ(status.code(), Code::kSchema);
  EXPECT_NE(status.message().find("generation 2 of shard 0"), std::string::npos)
      << status.message();
}

TEST_F(PageReaderTest, GoesPastOneWithNothingWantedAndSaysSo) {
  ASSERT_TRUE(shard_->Rotate(std::nullopt, std::nullopt, false, LayoutKind::kSkipstream).ok());
  Append(40);
  PageReader reader(4);
  const LogSpan span = ReadFor(&reader, InterestIn(2, {"c"}), At(1));
  EXPECT_TRUE(span.at_end);
  EXPECT_EQ(span.to, At(6));
  EXPECT_TRUE(span.passed_unlogged);
  EXPECT_EQ(ReadFor(&reader, InterestIn(3, {"a"}, 50), At(1)).to, At(6)) << "all are older";
  EXPECT_FALSE(ReadFor(&reader, InterestIn(2, {"c"}), At(6)).passed_unlogged);
  // Others that read with them may want what these do not.
  const auto both = reader.Read(shard_, SetOf({InterestIn(2, {"c"}), InterestIn(4, {"b"})}), At(5),
                                {100, 1 << 20, true}, nullptr);
  EXPECT_EQ(both.status().code(), Code::kSchema);
}

TEST_F(PageReaderTest, FailsOnADamagedBlockAndReadsWhatIsNot) {
  PageReader reader(4);
  ASSERT_EQ(Read(&reader, At(1), 2).to, At(2));
  const std::shared_ptr<const ShardView> view = shard_->view();
  const Slab& slab = *view->slabs().front().slab;
  const std::string key = columnar::RecordKey(columnar::RecordKind::kFreshEntry, BlockId{9});
  ASSERT_TRUE(view->db()->Put({}, slab.families().main, key, "damaged").ok());
  Append(40);
  reader.Clear();  // so that the next read begins with a new view
  const auto failed = TryRead(&reader, all_, At(2), 2);
  EXPECT_EQ(failed.status().code(), Code::kCorruption);
  EXPECT_NE(failed.status().message().find("shard 0"), std::string::npos)
      << failed.status().message();
  ASSERT_TRUE(view->db()->Delete({}, slab.families().main, key).ok());
  Append(50);
  EXPECT_EQ(PlacesOf(Read(&reader, At(2), 1).rows), Places{At(2)}) << "nothing was skipped";
}

}  // namespace
}  // namespace topicdb
