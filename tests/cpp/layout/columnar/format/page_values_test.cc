// Tests packed pages whose keys and values are two records. page_test.cc tests what all forms of a
// page have in common.

#include <gtest/gtest.h>

#include <string>

#include "layout/columnar/format/expect_page.h"

namespace topicdb::columnar {
namespace {

const Rows kRows{{3, "a/b", 10, 5, 0, "one"}, {3, "a/b", 12, 6, 1, ""}, {4, "a/c", 7, 5, 2, "two"}};
constexpr PageCodec kCodecs[] = {PageCodec::kZstd, PageCodec::kLz4};

// Makes a record of values. The body is "onetwo" unless it is given.
std::string RecordOf(ValuesHeader header, const std::string& body = "onetwo") {
  std::string stored;
  EXPECT_TRUE(PageCompressor(PageCodec::kLz4).Compress(body, &stored).ok());
  header.stored_bytes += static_cast<std::uint32_t>(stored.size());
  std::string record;
  AppendHeader(header, &record);
  record += stored;
  AppendLittle(&record, Crc32(record));
  return record;
}

// Returns the header of the values of kRows, without stored_bytes.
ValuesHeader HeaderFor(const StoredPage& page) {
  ValuesHeader header;
  header.rows = 3;
  header.value_bytes = 6;
  header.keys_checksum = ChecksumOf(page.keys);
  return header;
}

// Expects that a page is refused if its values are wanted, and that the error says this of it.
void ExpectFault(const StoredPage& page, const std::string& what) {
  const Status status = Page::Decode(page, PageParts::kAll).status();
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
}

TEST(PageValues, TheRecordsAreThoseOfTheFormat) {
  for (const PageCodec codec : kCodecs) {
    const StoredPage page = ApartPage(kRows, codec);
    const PageHeader keys = ReadHeader(page.keys).value();
    EXPECT_EQ(keys.kind, PageKind::kPacked);
    EXPECT_EQ(keys.form, PageForm::kApart);
    EXPECT_EQ(keys.rows, 3U);
    EXPECT_EQ(keys.value_bytes, 6U);
    EXPECT_EQ(page.keys[1], 2) << "the version";
    EXPECT_EQ(page.values.substr(0, 4), std::string("\3\2", 2) + static_cast<char>(codec) + '\0');
    const ValuesHeader values = ReadValuesHeader(page.values).value();
    EXPECT_EQ(values.codec, codec);
    EXPECT_EQ(values.rows, 3U);
    EXPECT_EQ(values.value_bytes, 6U);
    EXPECT_EQ(values.keys_checksum, Crc32(page.keys.substr(0, page.keys.size() - kCrcBytes)));
    std::string body(6, '\0');
    const std::string stored = page.values.substr(kValuesHeaderBytes, values.stored_bytes);
    ASSERT_TRUE(Decompress(codec, stored, body.data(), body.size()).ok());
    EXPECT_EQ(body, "onetwo");
  }
}

// The body of the keys is that of a page that is one record, without the values.
TEST(PageValues, TheKeysAreTheColumnsOfOneRecord) {
  const auto body_of = [](const std::string& page) {
    const PageHeader header = ReadHeader(page).value();
    std::string body(header.body_bytes, '\0');
    const std::string stored = page.substr(kHeaderBytes, header.stored_bytes);
    EXPECT_TRUE(Decompress(header.codec, stored, body.data(), body.size()).ok());
    return body;
  };
  EXPECT_EQ(body_of(ApartPage(kRows, PageCodec::kLz4).keys) + "onetwo",
            body_of(PackedPage(kRows, PageCodec::kLz4)));
}

TEST(PageValues, WithoutThemThereIsNoWholePage) {
  const StoredPage page = ApartPage(kRows, PageCodec::kLz4);
  ExpectFault({page.keys}, "its values are missing");
  EXPECT_TRUE(Page::Decode({page.keys}, PageParts::kKeys).ok());
  Rows rows = kRows;
  rows[0].value = "a value that is longer than a header, so that nothing but its kind betrays it";
  const StoredPage longer = ApartPage(rows, PageCodec::kLz4);
  ExpectFault({longer.values, longer.keys}, "its kind, codec or version is unknown");
}

TEST(PageValues, ThoseOfAnotherPageAreRefused) {
  const StoredPage page = ApartPage(kRows, PageCodec::kLz4);
  Rows others = kRows;
  others[0].time = 9;
  const StoredPage other = ApartPage(others, PageCodec::kLz4);
  ExpectStored(other, others);
  ExpectFault({page.keys, other.values}, "its values are those of another page");
  ExpectFault({other.keys, page.values}, "its values are those of another page");
  ExpectFault({PackedPage(kRows, PageCodec::kLz4), page.values},
              "it has values of its own and others");
}

TEST(PageValues, EmptyOnesNeedNoRecord) {
  const Rows rows = WithoutValues(kRows);
  const StoredPage page = ApartPage(rows, PageCodec::kLz4);
  ExpectStored(page, rows);
  ExpectStored({page.keys}, rows);
}

TEST(PageValues, MayHaveAnotherCodecThanTheKeys) {
  StoredPage page = ApartPage(kRows, PageCodec::kZstd);
  page.values = RecordOf(HeaderFor(page));
  ExpectStored(page, kRows);
}

TEST(PageValues, IsDecodedUnlessOneThingIsWrong) {
  StoredPage page = ApartPage(kRows, PageCodec::kLz4);
  const auto fault = [&](const std::string& what, auto change) {
    ValuesHeader header = HeaderFor(page);
    change(&header);
    page.values = RecordOf(header);
    ExpectFault(page, what);
  };
  page.values = RecordOf(HeaderFor(page));
  ExpectStored(page, kRows);
  const std::string foreign = "its values are those of another page";
  fault(foreign, [](ValuesHeader* header) { header->rows = 2; });
  fault(foreign, [](ValuesHeader* header) { header->value_bytes = 5; });
  fault(foreign, [](ValuesHeader* header) { header->keys_checksum += 1; });
  const std::string malformed = "the header of its values is malformed";
  fault(malformed, [](ValuesHeader* header) { header->stored_bytes = 1; });
  fault(malformed, [](ValuesHeader* header) { header->value_bytes = kPageBytesMax + 1; });
  const std::string unknown = "the kind, codec or version of its values is unknown";
  fault(unknown, [](ValuesHeader* header) { header->codec = PageCodec::kNone; });
  fault(unknown, [](ValuesHeader* header) { header->codec = PageCodec{4}; });
  page.values = RecordOf(HeaderFor(page), "onetw");
  ExpectFault(page, "it does not decompress");
}

TEST(PageValues, ClaimsOfSizesAreCheckedBeforeTheyAreBelieved) {
  Rows rows = kRows;
  rows[0].value = std::string(4'000, 'x');
  StoredPage page = ApartPage(rows, PageCodec::kLz4);
  ValuesHeader header = HeaderFor(page);
  header.value_bytes = 4'003;
  page.values = RecordOf(header, "onetwo");
  ExpectFault(page, "its size is wrong");
}

TEST(PageValues, EveryFlippedBitIsCorruption) {
  for (const PageCodec codec : kCodecs) {
    const StoredPage page = ApartPage(kRows, codec);
    for (const bool in_values : {false, true}) {
      const std::size_t bytes = in_values ? page.values.size() : page.keys.size();
      for (std::size_t i = 0; i < 8 * bytes; ++i) {
        StoredPage flipped = page;
        char& byte = (in_values ? flipped.values : flipped.keys)[i / 8];
        byte = static_cast<char>(byte ^ (1 << i % 8));
        const Status status = Page::Decode(flipped, PageParts::kAll).status();
        EXPECT_EQ(status.code(), Code::kCorruption) << in_values << " " << i;
      }
    }
  }
}

TEST(PageValues, EveryTruncationIsCorruption) {
  const StoredPage page = ApartPage(kRows, PageCodec::kLz4);
  for (std::size_t size = 0; size < page.values.size(); ++size) {
    const std::string cut = page.values.substr(0, size);
    EXPECT_EQ(Page::Decode({page.keys, cut}, PageParts::kAll).status().code(), Code::kCorruption);
    if (size < kCrcBytes) continue;
    EXPECT_EQ(Page::Decode({page.keys, WithChecksum(cut)}, PageParts::kAll).status().code(),
              Code::kCorruption)
        << size;
  }
}

TEST(PageValues, WhatPassesTheChecksumIsRefusedOrSafeToRead) {
  const StoredPage page = ApartPage(kRows, PageCodec::kLz4);
  for (std::size_t i = 0; i < page.values.size() - kCrcBytes; ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      StoredPage changed = page;
      changed.values[i] = static_cast<char>(byte);
      changed.values = WithChecksum(changed.values);
      const auto decoded = Page::Decode(changed, PageParts::kAll);
      if (decoded.ok()) {
        EXPECT_EQ(FaultOf(**decoded), nullptr) << i;
      } else {
        EXPECT_EQ(decoded.status().code(), Code::kCorruption) << i;
      }
    }
  }
}

}  // namespace
}  // namespace topicdb::columnar
