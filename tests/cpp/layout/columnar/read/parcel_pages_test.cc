#include "layout/columnar/read/parcel_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "layout/columnar/mixed_blocks.h"
#include "layout/parcels.h"

namespace topicdb::columnar {
namespace {

constexpr PageLimits kSmallBatches{7, std::size_t{8} << 20, /*with_serials=*/true};

class ParcelPagesTest : public MixedBlocksTest {
 protected:
  // Returns the messages that any of the requests wants, with their serials, sorted.
  Rows Expected(const std::vector<ReadRequest>& any_of) const {
    Rows rows = Wanted(any_of);
    for (Row& row : rows) row.stream = row.index = 0;
    std::sort(rows.begin(), rows.end());
    return rows;
  }
  // Adds what a parcel has.
  static void Unpack(const Parcel& parcel, bool with_values, Rows* rows) {
    ParcelReader reader(with_values);
    ASSERT_TRUE(reader.Begin(parcel.bytes).ok());
    std::size_t found = 0;
    while (true) {
      const auto batch = reader.Next(kSmallBatches);
      ASSERT_TRUE(batch.ok()) << batch.status().message();
      if (*batch == nullptr) break;
      ASSERT_LE((*batch)->size(), kSmallBatches.rows_max);
      found += (*batch)->size();
      for (std::size_t row = 0; row < (*batch)->size(); ++row) {
        rows->push_back({0, std::string((*batch)->topic(row)), (*batch)->timestamp(row),
                         (*batch)->serial(row).value(), 0, std::string((*batch)->value(row))});
      }
    }
    EXPECT_EQ(found, parcel.messages);
  }
  // Returns everything that a source gives, sorted.
  Rows ReadAll(const std::vector<ReadRequest>& any_of, const ReadLimits& limits) const {
    Rows rows;
    const auto source = NewParcelSource(slab_.Source(), any_of);
    for (ReadOutcome outcome = ReadOutcome::kMore; outcome == ReadOutcome::kMore;) {
      ParcelBuilder parcel;
      const auto read = source->ReadParcel(limits, &parcel);
      EXPECT_TRUE(read.ok()) << read.status().message();
      if (!read.ok()) break;
      outcome = *read;
      if (parcel.messages() > 0) Unpack(parcel.Take(), any_of[0].with_values, &rows);
    }
    std::sort(rows.begin(), rows.end());
    return rows;
  }
  void ExpectReads(std::vector<ReadRequest> any_of) const {
    Rows expected = Expected(any_of);
    for (const bool with_values : {true, false}) {
      for (ReadRequest& request : any_of) request.with_values = with_values;
      if (!with_values) expected = WithoutValues(std::move(expected));
      std::sort(expected.begin(), expected.end());
      for (const ReadLimits& limits : {kNoLimits, ReadLimits{1, 1, 1}}) {
        EXPECT_EQ(ReadAll(any_of, limits), expected);
      }
    }
  }
  // Returns a parcel of the whole read.
  Parcel ParcelOf(const ReadRequest& request) const {
    ParcelBuilder parcel;
    const auto outcome = NewParcelSource(slab_.Source(), {request})->ReadParcel(kNoLimits, &parcel);
    EXPECT_TRUE(outcome.ok());
    return parcel.Take();
  }
  static ReadRequest Everything() {
    ReadRequest request;
    request.filter = Filter::Everything();
    return request;
  }
};

TEST_P(ParcelPagesTest, HasEachMessageOnceWhateverTheLimits) {
  ExpectReads({Everything()});
  ExpectReads({Request("#")});
}

TEST_P(ParcelPagesTest, HasSomeTopicsAndStreams) {
  ExpectReads({Request("t/3")});
  std::vector<ReadRequest> requests{Request("t/1"), Request("t/+")};
  requests[1].streams = {StreamId{2}};
  ExpectReads(requests);
  ExpectReads({Request("absent/#")});
}

TEST_P(ParcelPagesTest, HasSomeTimesAndCommits) {
  for (ReadRequest request : {Everything(), Request("t/1")}) {
    request.range = {300, 900};
    ExpectReads({request});
    request.serial_min = Serial{2};
    request.serial_max = Serial{4};
    ExpectReads({request});
  }
}

TEST_P(ParcelPagesTest, HasNoDeletedAndNoHiddenMessages) {
  ReadRequest gone = Request("t/+");
  gone.range = {200, 600};
  slab_.Remove(gone);
  ExpectReads({Everything()});
  ReadRequest masked = Everything();
  masked.masks = {{Filter::Parse("t/5").value(), {0, 800}, Serial{3}}};
  ExpectReads({masked});
}

TEST_P(ParcelPagesTest, PagesThatAreWantedWholeAreThereAsTheyAreStored) {
  const std::string all = ParcelOf(Everything()).bytes;
  EXPECT_EQ(ParcelOf(Request("#")).bytes, all) << "all topics of each page are wanted";
  ReadRequest keys = Everything();
  keys.with_values = false;
  const std::string without = ParcelOf(keys).bytes;
  for (const Block& block : slab_.Sealed()) {
    for (std::uint32_t page = 0; page < block.entry.pages; ++page) {
      const StoredPage stored = slab_.Stored(block, page);
      EXPECT_NE(all.find(stored.keys), std::string::npos);
      EXPECT_NE(all.find(stored.values), std::string::npos);
      if (GetParam() == PageForm::kApart) {
        EXPECT_EQ(without.find(stored.values), std::string::npos);
      }
    }
  }
}

TEST_P(ParcelPagesTest, AnErrorNamesTheBlockAndThePage) {
  const Block block = slab_.Sealed()[0];
  slab_.PutPage(SealedPageKey(block.id.value(), 1), "damaged");
  ParcelBuilder parcel;
  const auto read =
      NewParcelSource(slab_.Source(), {Request("t/+")})->ReadParcel(kNoLimits, &parcel);
  EXPECT_EQ(read.status().code(), Code::kCorruption);
  EXPECT_NE(read.status().message().find(NameOf(block.id) + ", page 1"), std::string::npos)
      << read.status().message();
}

TEST_P(ParcelPagesTest, CountsWhatItDoes) {
  const auto source = NewParcelSource(slab_.Source(), {Request("t/3")});
  ParcelBuilder parcel;
  ASSERT_EQ(source->ReadParcel(kNoLimits, &parcel).value(), ReadOutcome::kExhausted);
  const ReadCounters counters = source->counters();
  EXPECT_EQ(counters.blocks, 5U);
  EXPECT_EQ(counters.rows_matched, parcel.messages());
  EXPECT_GT(counters.pages_skipped_by_topic, 0U);
  EXPECT_EQ(counters.pages, counters.pages_read + counters.pages_skipped_by_topic);
  EXPECT_GT(counters.bytes_read, 0U);
}

INSTANTIATE_TEST_SUITE_P(Forms, ParcelPagesTest,
                         ::testing::Values(PageForm::kTogether, PageForm::kApart));

}  // namespace
}  // namespace topicdb::columnar
