// Tests the bytes of parcels: what ParcelBuilder writes and ParcelReader takes.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "hex.h"
#include "layout/columnar/format/page_examples.h"
#include "layout/columnar/format/parcel.h"
#include "layout/parcels.h"
#include "topicdb/database/parcel.h"

namespace topicdb {
namespace {

using columnar::Row;
using columnar::Rows;

constexpr PageLimits kLimits{1'000, std::size_t{1} << 20, /*with_serials=*/true};
const Rows kRows{{3, "a/b", 10, 5, 0, "one"}, {3, "a/b", 12, 6, 1, ""}, {4, "a/c", 7, 5, 2, "two"}};

PageInParcel PageOf(const columnar::StoredPage& stored) {
  PageInParcel page;
  page.keys = stored.keys;
  page.values = stored.values;
  page.rows = 3;
  return page;
}

// Returns a parcel of the page of kRows.
std::string ParcelOf(const PageInParcel& page) {
  ParcelBuilder builder;
  builder.AddPage(page);
  return builder.Take().bytes;
}

// Returns what a reader gives, with times and serials.
Result<Rows> Read(std::string_view parcel, bool with_values = true) {
  ParcelReader reader(with_values);
  TOPICDB_RETURN_IF_ERROR(reader.Begin(parcel));
  Rows rows;
  while (true) {
    TOPICDB_ASSIGN_OR_RETURN(const auto batch, reader.Next(kLimits));
    if (batch == nullptr) return rows;
    for (std::size_t row = 0; row < batch->size(); ++row) {
      rows.push_back({0, std::string(batch->topic(row)), batch->timestamp(row),
                      batch->serial(row).value(), 0, std::string(batch->value(row))});
    }
  }
}

void ExpectFault(std::string_view parcel, const std::string& what) {
  const Status status = Read(parcel).status();
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
}

// Replaces bytes of the header of the first page, and makes its checksum right.
std::string WithField(std::string parcel, std::size_t at, std::string_view bytes) {
  constexpr std::size_t kChecked = columnar::kParcelPageBytes - sizeof(std::uint32_t);
  parcel.replace(columnar::kParcelHeaderBytes + at, bytes.size(), bytes);
  std::string crc;
  AppendLittle(&crc,
               Crc32(std::string_view(parcel).substr(columnar::kParcelHeaderBytes, kChecked)));
  return parcel.replace(columnar::kParcelHeaderBytes + kChecked, crc.size(), crc);
}

TEST(ParcelReader, TheBytesAreThoseOfTheFormat) {
  PageInParcel page;
  page.keys = "some keys";
  page.values = "values";
  page.has_values = false;
  page.serial = Serial{7};
  page.time_shift = 300;
  const std::string parcel = ParcelOf(page);
  EXPECT_EQ(ToHex(parcel.substr(0, 44)),
            "544442504152430a"
            "01000000"
            "01000000"
            "09000000"
            "06000000"
            "0700000000000000"
            "2c01000000000000"
            "01000000");
  EXPECT_EQ(Decoder(std::string_view(parcel).substr(44)).Little<std::uint32_t>(),
            Crc32(std::string_view(parcel).substr(16, 28)));
  EXPECT_EQ(parcel.substr(48),
            std::string("some keys\0\0\0\0\0\0\0", 16) + std::string("values\0\0", 8));
}

TEST(ParcelReader, GivesPagesOfEachForm) {
  const Rows expected{
      {0, "a/b", 10, 5, 0, "one"}, {0, "a/b", 12, 6, 0, ""}, {0, "a/c", 7, 5, 0, "two"}};
  const Rows by_commit{kRows[0], kRows[2], kRows[1]};
  const columnar::StoredPage apart = columnar::ApartPage(kRows, columnar::PageCodec::kLz4);
  EXPECT_EQ(Read(ParcelOf(PageOf(apart))).value(), expected);
  const columnar::StoredPage whole{columnar::PackedPage(kRows, columnar::PageCodec::kZstd)};
  EXPECT_EQ(Read(ParcelOf(PageOf(whole))).value(), expected);
  const columnar::StoredPage plain{columnar::PlainPage(by_commit)};
  EXPECT_EQ(Read(ParcelOf(PageOf(plain))).value(), (Rows{expected[0], expected[2], expected[1]}));
}

TEST(ParcelReader, PlacesTheRowsOfStagedBlocks) {
  Rows staged = kRows;
  for (Row& row : staged) row.serial = 1;
  const columnar::StoredPage stored = columnar::ApartPage(staged, columnar::PageCodec::kLz4);
  PageInParcel page = PageOf(stored);
  page.serial = Serial{9};
  page.time_shift = 100;
  EXPECT_EQ(Read(ParcelOf(page)).value(), (Rows{{0, "a/b", 110, 9, 0, "one"},
                                                {0, "a/b", 112, 9, 0, ""},
                                                {0, "a/c", 107, 9, 0, "two"}}));
}

TEST(ParcelReader, WithoutValuesItNeedsNone) {
  columnar::StoredPage stored = columnar::ApartPage(kRows, columnar::PageCodec::kLz4);
  stored.values.clear();
  PageInParcel page = PageOf(stored);
  page.has_values = false;
  const std::string parcel = ParcelOf(page);
  EXPECT_EQ(Read(parcel, /*with_values=*/false).value()[2], (Row{0, "a/c", 7, 5, 0, ""}));
  ExpectFault(parcel, "its values were left out");
}

TEST(ParcelReader, AddsRowsAsAPageOfTheirOwn) {
  Batch batch(/*keeps_serials=*/true);
  batch.Append({"b", 3, "x"}, Serial{4});
  batch.Append({"a", 1, "y"}, Serial{2});
  ParcelBuilder builder;
  ASSERT_TRUE(builder.AddRows(Batch(true), true).ok());
  EXPECT_EQ(builder.messages(), 0U);
  ASSERT_TRUE(builder.AddRows(batch, true).ok());
  EXPECT_EQ(builder.messages(), 2U);
  EXPECT_EQ(Read(builder.Take().bytes).value(),
            (Rows{{0, "b", 3, 4, 0, "x"}, {0, "a", 1, 2, 0, "y"}}));
}

TEST(ParcelReader, BatchesStayWithinTheirLimits) {
  const columnar::StoredPage stored = columnar::ApartPage(kRows, columnar::PageCodec::kLz4);
  const std::string parcel = ParcelOf(PageOf(stored));
  ParcelReader reader(true);
  ASSERT_TRUE(reader.Begin(parcel).ok());
  EXPECT_EQ(reader.Next({2, 1 << 20}).value()->size(), 2U);
  EXPECT_EQ(reader.Next({2, 1 << 20}).value()->size(), 1U);
  EXPECT_EQ(reader.Next({2, 1 << 20}).value(), nullptr);
  ASSERT_TRUE(reader.Begin(parcel).ok());
  EXPECT_EQ(reader.Next({1'000, 1}).value()->size(), 1U) << "at least one";
}

TEST(ParcelReader, RefusesWhatIsNoParcel) {
  const columnar::StoredPage stored = columnar::ApartPage(kRows, columnar::PageCodec::kLz4);
  const std::string parcel = ParcelOf(PageOf(stored));
  ExpectFault("", "begin");
  ExpectFault(std::string(64, 'x'), "begin");
  std::string newer = parcel;
  newer[8] = 2;
  ExpectFault(newer, "version");
  std::string none = parcel;
  none[12] = 0;
  ExpectFault(none, "no pages");
  std::string more = parcel;
  more[12] = 2;
  ExpectFault(more, "cut off");
  for (std::size_t size = columnar::kParcelHeaderBytes; size < parcel.size(); ++size) {
    EXPECT_EQ(Read(parcel.substr(0, size)).status().code(), Code::kCorruption) << size;
  }
  ExpectFault(parcel + std::string(8, '\0'), "follows");
}

TEST(ParcelReader, RefusesDamagedPages) {
  const columnar::StoredPage stored = columnar::ApartPage(kRows, columnar::PageCodec::kLz4);
  const std::string parcel = ParcelOf(PageOf(stored));
  std::string header = parcel;
  header[columnar::kParcelHeaderBytes + 8] ^= 1;
  ExpectFault(header, "checksum before a page");
  const std::size_t records = columnar::kParcelHeaderBytes + columnar::kParcelPageBytes;
  for (const std::size_t at : {records + 70, records + columnar::Aligned(stored.keys.size()) + 4}) {
    std::string damaged = parcel;
    damaged[at] ^= 1;
    ExpectFault(damaged, "checksum");
  }
  ExpectFault(WithField(parcel, 24, "\2"), "malformed");
  ExpectFault(WithField(parcel, 16, "\1"), "malformed");
  ExpectFault(WithField(parcel, 16, std::string(8, '\xff')), "malformed");
  ExpectFault(WithField(parcel, 8, "\7"), "staged");
  // An error stays, since messages would be missing.
  ParcelReader reader(true);
  ASSERT_TRUE(reader.Begin(header).ok());
  EXPECT_FALSE(reader.Next(kLimits).ok());
  EXPECT_FALSE(reader.Next(kLimits).ok());
}

}  // namespace
}  // namespace topicdb
