// Tests the columns of packed pages. page_test.cc tests what both forms of a page have in common.

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "layout/columnar/format/block_format.h"
#include "layout/columnar/format/expect_page.h"

namespace topicdb::columnar {
namespace {

constexpr std::int64_t kTimeMax = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kSerialMax = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kStreamMax = std::numeric_limits<std::uint32_t>::max();

std::string Varints(const std::vector<std::uint64_t>& numbers) {
  std::string bytes;
  for (const std::uint64_t number : numbers) AppendVarint(&bytes, number);
  return bytes;
}

std::string ZigZags(const std::vector<std::int64_t>& numbers) {
  std::string bytes;
  for (const std::int64_t number : numbers) AppendVarint(&bytes, ZigZag(number));
  return bytes;
}

// Makes the body of a packed page. Each column is a string of varints; the values follow them.
std::string PackedBody(const std::vector<std::string>& columns, const std::string& values) {
  std::string body;
  for (const std::string& column : columns) {
    AppendLittle(&body, static_cast<std::uint32_t>(column.size()));
  }
  for (const std::string& column : columns) body += column;
  return body + values;
}

// Makes a page of a body. The header claims that the body has `claimed` bytes, if that is given.
std::string PackedPageOf(PageHeader header, const std::string& body,
                         std::optional<std::uint32_t> claimed = {}) {
  header.kind = PageKind::kPacked;
  header.codec = PageCodec::kLz4;
  header.body_bytes = claimed.value_or(static_cast<std::uint32_t>(body.size()));
  std::string stored;
  EXPECT_TRUE(PageCompressor(header.codec).Compress(body, &stored).ok());
  header.stored_bytes = static_cast<std::uint32_t>(stored.size());
  std::string page;
  AppendHeader(header, &page);
  page += stored;
  AppendLittle(&page, Crc32(page));
  return page;
}

// A packed page with two messages, "ab" and "c", of one topic. Tests change its columns and header.
struct Handmade {
  std::string topics = Varints({1, 0, 1}) + "t" + Varints({2});
  std::string times = ZigZags({0, 1});
  std::string serials = ZigZags({0, 1});
  std::string indexes = ZigZags({0, 0});
  std::string lengths = Varints({2, 1});
  PageHeader header = [] {
    PageHeader made;
    made.rows = 2;
    made.topics = 1;
    made.extent = {5, 6, Serial{8}, Serial{9}};
    made.value_bytes = 3;
    return made;
  }();

  std::string Body() const { return PackedBody({topics, times, serials, indexes, lengths}, "abc"); }
  std::string Bytes() const { return PackedPageOf(header, Body()); }
};

// Expects that a page is refused, and that the error says this of it.
void ExpectFault(const std::string& bytes, const std::string& what) {
  const Status status = Page::Decode(bytes).status();
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
}

TEST(PackedPage, VarintsOfEverySizeAreRead) {
  std::vector<std::uint64_t> numbers;
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t power = std::uint64_t{1} << bit;
    for (const std::uint64_t number : {power, power - 1, power + power / 3}) {
      numbers.push_back(number);
    }
  }
  const std::string all = Varints(numbers);
  VarintReader reader(all);
  for (const std::uint64_t number : numbers) EXPECT_EQ(reader.Next(), number);
  EXPECT_TRUE(reader.Finished());
  for (const std::uint64_t number : numbers) {
    const std::string alone = Varints({number});
    VarintReader last(alone);
    EXPECT_EQ(last.Next(), number);
    EXPECT_TRUE(last.Finished());
    VarintReader cut(std::string_view(alone).substr(0, alone.size() - 1));
    EXPECT_EQ(cut.Next(), 0U);
    EXPECT_FALSE(cut.ok());
  }
  VarintReader long_one(std::string_view("\x81\x82\x83\x84\x85\x86\x87\x88\x89\x02", 10));
  long_one.Next();
  EXPECT_FALSE(long_one.ok()) << "it has more than 64 bits";
}

TEST(PackedPage, ItsColumnsAreThoseOfTheFormat) {
  const Rows rows{
      {3, "a/b", 10, 5, 0, "one"}, {3, "a/b", 12, 6, 1, ""}, {4, "a/c", 7, 5, 2, "two"}};
  for (const PageCodec codec : {PageCodec::kZstd, PageCodec::kLz4}) {
    const std::string bytes = PackedPage(rows, codec);
    const PageHeader header = ReadHeader(bytes).value();
    EXPECT_EQ(header.kind, PageKind::kPacked);
    EXPECT_EQ(header.codec, codec);
    EXPECT_EQ(header.rows, 3U);
    EXPECT_EQ(header.topics, 2U);
    EXPECT_EQ(header.extent, (Extent{7, 12, Serial{5}, Serial{6}}));
    EXPECT_EQ(header.value_bytes, 6U);
    std::string body(header.body_bytes, '\0');
    const std::string stored = bytes.substr(kHeaderBytes, header.stored_bytes);
    ASSERT_TRUE(Decompress(codec, stored, body.data(), body.size()).ok());
    const std::string topics =
        Varints({3, 0, 3}) + "a/b" + Varints({2, 1, 2, 1}) + "c" + Varints({1});
    EXPECT_EQ(body, PackedBody({topics, ZigZags({3, 2, -3}), ZigZags({0, 1, -1}),
                                ZigZags({0, 1, 1}), Varints({3, 0, 3})},
                               "onetwo"));
  }
}

TEST(PackedPage, AnEncoderMayBeUsedAgainAndAppends) {
  PackedPageEncoder encoder(PageCodec::kZstd);
  std::string bytes = "before";
  for (const std::int64_t time : {5, 2}) {
    const std::size_t begin = bytes.size();
    const PackedRow row{StreamId{1}, "t", time, Serial{7}, 3, "v"};
    ASSERT_TRUE(encoder.Encode({&row, 1}, &bytes).ok());
    ExpectPage(bytes.substr(begin), {{1, "t", time, 7, 3, "v"}});
  }
  EXPECT_TRUE(bytes.starts_with("before"));
}

TEST(PackedPage, ChangedColumnsAreRefusedOrSafeToRead) {
  const Handmade whole;
  const std::string body = whole.Body();
  for (std::size_t i = 0; i < body.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = body;
      changed[i] = static_cast<char>(byte);
      ExpectRefusedOrSafe(PackedPageOf(whole.header, changed), std::to_string(i));
    }
  }
}

TEST(PackedPage, IsDecodedUnlessOneThingIsWrong) {
  const auto code = [](auto change) {
    Handmade page;
    change(&page);
    return Page::Decode(page.Bytes()).status().code();
  };
  ExpectPage(Handmade().Bytes(), {{1, "t", 5, 8, 0, "ab"}, {1, "t", 6, 9, 0, "c"}});
  EXPECT_EQ(code([](Handmade* p) { p->header.extent.first_time = 4; }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->header.extent.last_serial = Serial{10}; }),
            Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->header.rows = 1; }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->header.rows = 3; }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->header.topics = 2; }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->header.value_bytes = 2; }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->topics += '\0'; }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->lengths += '\0'; }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->lengths = Varints({2, 0}); }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->indexes = ZigZags({0, -1}); }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->topics = Varints({0, 0, 1}) + "t\2"; }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->topics = Varints({1, 1, 1}) + "t\2"; }), Code::kCorruption);
  // A time is below 0, and the bounds in the header fit it.
  EXPECT_EQ(code([](Handmade* p) {
              p->header.extent.first_time = -1;
              p->times = ZigZags({0, 7});
            }),
            Code::kCorruption);
}

TEST(PackedPage, IsDecodedWithTimesAloneUnlessOneOfThemIsWrong) {
  const auto code = [](auto change) {
    Handmade page;
    change(&page);
    return Page::Decode({page.Bytes()}, PageParts::kTimes).status().code();
  };
  const auto page = Page::Decode({Handmade().Bytes()}, PageParts::kTimes).value();
  ExpectTimes(*page, {{1, "t", 5, 8, 0, "ab"}, {1, "t", 6, 9, 0, "c"}});
  EXPECT_FALSE(page->has_serials());
  EXPECT_EQ(code([](Handmade* p) { p->header.extent.first_time = 4; }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->header.extent.last_time = 7; }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->header.rows = 1; }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->header.topics = 2; }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->topics += '\0'; }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->times += '\0'; }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) {
              p->header.extent.first_time = -1;
              p->times = ZigZags({0, 7});
            }),
            Code::kCorruption);
}

// The sum of the lengths exceeds 64 bits, and what is left of it is the right sum.
TEST(PackedPage, LengthsThatWrapAreCorruption) {
  Handmade page;
  page.lengths = Varints({3, kSerialMax - 1, 2});
  page.times += '\0';
  page.serials += '\0';
  page.indexes += '\0';
  page.topics = Varints({1, 0, 1}) + "t" + Varints({3});
  page.header.rows = 3;
  ExpectFault(page.Bytes(), "its columns are malformed");
}

TEST(PackedPage, AStreamOfMoreThan32BitsIsCorruption) {
  Handmade page;
  page.header.topics = 2;
  const auto topics = [](std::uint64_t first, std::uint64_t further) {
    return Varints({first, 0, 1}) + "t" + Varints({1, further, 0, 1}) + "u" + Varints({1});
  };
  page.topics = topics(1, kStreamMax - 1);
  ExpectPage(page.Bytes(), {{1, "t", 5, 8, 0, "ab"},
                            {static_cast<std::uint32_t>(kStreamMax), "u", 6, 9, 0, "c"}});
  page.topics = topics(1, kStreamMax);
  ExpectFault(page.Bytes(), "its topics are malformed");
  page.topics = topics(kStreamMax + 2, 0);
  ExpectFault(page.Bytes(), "its topics are malformed");
}

TEST(PackedPage, ClaimsOfSizesAreCheckedBeforeTheyAreBelieved) {
  const Handmade whole;
  ExpectFault(PackedPageOf(whole.header, whole.Body(), kPageBytesMax), "its size is wrong");
  ExpectFault(
      PackedPageOf(whole.header, whole.Body(), static_cast<std::uint32_t>(whole.Body().size() + 1)),
      "it does not decompress");
  Handmade many;
  many.header.rows = kPageRowsMax;
  ExpectFault(many.Bytes(), "its columns do not fit its header");
  std::string body = whole.Body();
  body[3] = '\x7f';  // the size of the column of topics
  ExpectFault(PackedPageOf(whole.header, body), "its columns do not fit its header");
}

// A page of a staged block: groups stand for streams, and all serials are kStagedSerial.
const Rows kStaged{{1, "a", 5, 1, 0, "x"}, {1, "b", 6, 1, 1, "y"}, {2, "c", 7, 1, 2, "z"}};

Placement PlacementOf(std::int64_t time_shift) {
  return {kStagedPagesMin,
          Serial{77},
          time_shift,
          {{1, StreamId{11}, {{"b", StreamId{12}}}}, {2, StreamId{20}, {}}}};
}

TEST(PackedPage, APlacementGivesStreamsTimesAndTheSerial) {
  const std::string bytes = PackedPage(kStaged, PageCodec::kLz4);
  const Placement placement = PlacementOf(100);
  const auto page = Page::Decode(bytes, &placement);
  ASSERT_TRUE(page.ok()) << page.status().message();
  EXPECT_EQ(
      RowsOf(**page),
      (Rows{{11, "a", 105, 77, 0, "x"}, {12, "b", 106, 77, 1, "y"}, {20, "c", 107, 77, 2, "z"}}));
  EXPECT_EQ((*page)->extent(), (Extent{105, 107, Serial{77}, Serial{77}}));
  EXPECT_EQ(RowsOf(*DecodeOk(bytes)), kStaged) << "without the placement it is as it was staged";
}

TEST(PackedPage, APlacementThatDoesNotFitIsCorruption) {
  const std::string bytes = PackedPage(kStaged, PageCodec::kLz4);
  Placement lacks = PlacementOf(0);
  lacks.groups.pop_back();
  EXPECT_EQ(Page::Decode(bytes, &lacks).status().code(), Code::kCorruption);
  Placement late = PlacementOf(kTimeMax - 6);
  EXPECT_EQ(Page::Decode(bytes, &late).status().code(), Code::kCorruption);
  late.time_shift -= 1;
  EXPECT_TRUE(Page::Decode(bytes, &late).ok());
  const Placement fits = PlacementOf(0);
  const std::string other = PackedPage({{1, "a", 1, 5, 0, "x"}}, PageCodec::kLz4);
  EXPECT_EQ(Page::Decode(other, &fits).status().code(), Code::kCorruption) << "it has a serial";
  EXPECT_EQ(Page::Decode(PlainPage(kStaged), &fits).status().code(), Code::kCorruption);
}

}  // namespace
}  // namespace topicdb::columnar
