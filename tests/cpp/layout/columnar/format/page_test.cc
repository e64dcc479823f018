#include "layout/columnar/format/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "layout/columnar/format/page_examples.h"
#include "layout/columnar/format/page_format.h"
#include "layout/columnar/format/touch_page.h"

namespace topicdb::columnar {
namespace {

constexpr std::int64_t kTimeMax = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kSerialMax = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t kIndexMax = std::numeric_limits<std::uint32_t>::max();
constexpr PageCodec kCodecs[] = {PageCodec::kZstd, PageCodec::kLz4};

Rows InCommitOrder(Rows rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::pair(a.serial, a.index) < std::pair(b.serial, b.index);
  });
  return rows;
}

Rows Sorted(Rows rows) {
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::shared_ptr<const Page> DecodeOk(const std::string& bytes) {
  const auto page = Page::Decode(bytes);
  EXPECT_TRUE(page.ok()) << page.status().message();
  return page.ok() ? *page : nullptr;
}

Extent ExtentOf(const Rows& rows) {
  const Serial serial{rows[0].serial};
  Extent extent{rows[0].time, rows[0].time, serial, serial};
  for (const Row& row : rows) extent.Include(row.time, Serial{row.serial});
  return extent;
}

void ExpectPage(const std::string& bytes, const Rows& rows) {
  const auto page = DecodeOk(bytes);
  ASSERT_NE(page, nullptr);
  EXPECT_TRUE(RowsOf(*page) == rows);  // EXPECT_EQ would print large values
  EXPECT_EQ(page->extent(), ExtentOf(rows));
  EXPECT_EQ(FaultOf(*page), nullptr);
}

void ExpectRoundTrips(const Rows& rows) {
  const Rows committed = InCommitOrder(rows);
  ExpectPage(PlainPage(committed), committed);
  const Rows sorted = Sorted(rows);
  for (const PageCodec codec : kCodecs) ExpectPage(PackedPage(sorted, codec), sorted);
}

// Returns rows whose topics share letters, whose streams share topics, and that differ in every
// column.
Rows Example() {
  return {{1, "a/b", 5, 3, 0, "one"},       {1, "a/bc", 4, 3, 1, ""},
          {1, "a/b", 9, 7, 2, "two"},       {2, "a/b", 1'000'000, 4, 0, "three"},
          {70'000, "/", 0, 300, 9, "four"}, {1, "a/b", 9, 7, 4, std::string(40, 'x')}};
}

// Returns one page of each form, by the name of the form.
std::map<std::string, std::string> ExamplePages() {
  return {{"plain", PlainPage(InCommitOrder(Example()))},
          {"zstd", PackedPage(Sorted(Example()), PageCodec::kZstd)},
          {"lz4", PackedPage(Sorted(Example()), PageCodec::kLz4)}};
}

std::string WithChecksum(std::string page) {
  page.resize(page.size() - kCrcBytes);
  AppendLittle(&page, Crc32(page));
  return page;
}

// Expects that a page whose checksum is right is either refused or safe to read.
void ExpectRefusedOrSafe(const std::string& bytes, const std::string& what) {
  const auto page = Page::Decode(bytes);
  if (page.ok()) {
    EXPECT_EQ(FaultOf(**page), nullptr) << what;
  } else {
    EXPECT_EQ(page.status().code(), Code::kCorruption) << what;
  }
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

std::string Varints(const std::vector<std::uint64_t>& numbers) {
  std::string bytes;
  for (const std::uint64_t number : numbers) AppendVarint(&bytes, number);
  return bytes;
}

std::string PackedPageOf(PageHeader header, const std::string& body) {
  header.kind = PageKind::kPacked;
  header.codec = PageCodec::kLz4;
  header.body_bytes = static_cast<std::uint32_t>(body.size());
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
  std::string times = Varints({ZigZag(0), ZigZag(1)});
  std::string serials = Varints({ZigZag(0), ZigZag(1)});
  std::string indexes = Varints({ZigZag(0), ZigZag(0)});
  std::string lengths = Varints({2, 1});
  PageHeader header = [] {
    PageHeader made;
    made.rows = 2;
    made.topics = 1;
    made.extent = {5, 6, Serial{8}, Serial{9}};
    made.value_bytes = 3;
    return made;
  }();

  std::string Bytes() const {
    return PackedPageOf(header, PackedBody({topics, times, serials, indexes, lengths}, "abc"));
  }
};

TEST(Page, OneMessageRoundTrips) { ExpectRoundTrips({{1, "a", 1, 1, 0, "v"}}); }

TEST(Page, MessagesOfManyTopicsRoundTrip) { ExpectRoundTrips(Example()); }

TEST(Page, EmptyLevelsAndValuesRoundTrip) {
  Rows rows;
  for (const char* topic : {"/", "//", "/a", "a/", "a//b", "$sys/x", "\xc3\xa9/\xf0\x9f\x8c\x8d"}) {
    rows.push_back({3, topic, 10, 1, static_cast<std::uint32_t>(rows.size()), ""});
  }
  ExpectRoundTrips(rows);
}

TEST(Page, ATopicThatRepeatsInAPlainPageRoundTrips) {
  Rows rows;
  for (std::uint32_t i = 0; i < 100; ++i) rows.push_back({1, "same", 100 - i, 1, i, "v"});
  ExpectRoundTrips(rows);
  EXPECT_EQ(DecodeOk(PlainPage(rows))->topics(), 100U);
  EXPECT_EQ(DecodeOk(PackedPage(Sorted(rows), PageCodec::kLz4))->topics(), 1U);
}

TEST(Page, ATopicOfSeveralRowsIsStoredOnceIfTheBuilderIsToldOnce) {
  PlainPageBuilder builder;
  const std::uint32_t topic = builder.AddTopic(StreamId{4}, "t/u");
  builder.AddRow(topic, 2, Serial{1}, 0, "x");
  builder.AddRow(topic, 1, Serial{1}, 1, "y");
  std::string bytes;
  for (const std::string_view part : builder.Encode()) bytes.append(part);
  ExpectPage(bytes, {{4, "t/u", 2, 1, 0, "x"}, {4, "t/u", 1, 1, 1, "y"}});
  EXPECT_EQ(DecodeOk(bytes)->topics(), 1U);
  EXPECT_EQ(builder.Streams(), std::vector<StreamId>{StreamId{4}});
}

TEST(Page, ABuilderMayBeUsedAgain) {
  PlainPageBuilder builder;
  for (const std::uint64_t serial : {5, 2}) {
    builder.Clear();
    builder.AddRow(builder.AddTopic(StreamId{1}, "t"), 7, Serial{serial}, 3, "v");
    std::string bytes;
    for (const std::string_view part : builder.Encode()) bytes.append(part);
    ExpectPage(bytes, {{1, "t", 7, serial, 3, "v"}});
  }
  PackedPageEncoder encoder(PageCodec::kZstd);
  std::string bytes = "before";
  for (const std::int64_t time : {5, 2}) {
    const std::size_t begin = bytes.size();
    const PackedRow row{StreamId{1}, "t", time, Serial{7}, 3, "v"};
    ASSERT_TRUE(encoder.Encode({&row, 1}, &bytes).ok());
    ExpectPage(bytes.substr(begin), {{1, "t", time, 7, 3, "v"}});
  }
}

TEST(Page, TheSmallestAndLargestNumbersRoundTrip) {
  ExpectRoundTrips({{1, "a", 0, 1, 0, "first"},
                    {1, "a", kTimeMax, 1, kIndexMax, "last"},
                    {kIndexMax, "a", kTimeMax, kSerialMax, kIndexMax, "far"},
                    {kIndexMax, "b", 0, kSerialMax, 0, "back"}});
  ExpectRoundTrips({{1, "a", kTimeMax, kSerialMax, kIndexMax, ""}});
}

TEST(Page, SerialRunsThatAlternateRoundTrip) {
  // If the rows are sorted by topic, those of several commits take turns.
  Rows rows;
  for (std::uint32_t i = 0; i < 60; ++i) {
    rows.push_back({1 + i % 3, "t" + std::to_string(i % 4), i % 7, 10 + i / 4, 5 * (i % 4), "v"});
  }
  ExpectRoundTrips(rows);
  // Indexes that fall make runs of one row.
  for (std::uint32_t i = 0; i < 60; ++i) rows[i].index = 60 - i;
  ExpectPage(PlainPage(rows), rows);
}

TEST(Page, LongTopicsAndLargeValuesRoundTrip) {
  std::mt19937_64 random(1);
  std::string noise(3 << 20, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  const std::string topic(65'535, 't');
  ExpectRoundTrips({{1, topic, 1, 1, 0, noise},
                    {1, topic + "u", 2, 1, 1, std::string(5 << 20, 'x')},
                    {1, topic.substr(1), 3, 1, 2, ""},
                    {2, "short", 4, 1, 3, noise.substr(7)}});
}

TEST(Page, RandomMessagesRoundTrip) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 30; ++round) {
    Rows rows;
    const std::size_t count = 1 + random() % 3'000;
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto time = static_cast<std::int64_t>(random() >> (1 + random() % 63));
      const std::string topic = "t/" + std::to_string(random() % 50);
      rows.push_back({static_cast<std::uint32_t>(1 + random() % 4), topic, time,
                      1 + (random() >> random() % 64), static_cast<std::uint32_t>(random()),
                      std::string(random() % 20, static_cast<char>('a' + i % 26))});
      rows.back().serial = std::max<std::uint64_t>(rows.back().serial, 1);  // 1 + (2^64 - 1) is 0
    }
    ExpectRoundTrips(rows);
  }
}

TEST(Page, EveryFlippedBitIsCorruption) {
  for (const auto& [form, bytes] : ExamplePages()) {
    for (std::size_t i = 0; i < 8 * bytes.size(); ++i) {
      std::string flipped = bytes;
      flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << i % 8));
      EXPECT_EQ(Page::Decode(flipped).status().code(), Code::kCorruption) << form << " " << i;
    }
  }
}

TEST(Page, EveryTruncationIsCorruption) {
  for (const auto& [form, bytes] : ExamplePages()) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const std::string cut = bytes.substr(0, size);
      EXPECT_EQ(Page::Decode(cut).status().code(), Code::kCorruption) << form << " " << size;
      if (size < kCrcBytes) continue;
      EXPECT_EQ(Page::Decode(WithChecksum(cut)).status().code(), Code::kCorruption)
          << form << " " << size;
    }
    EXPECT_EQ(Page::Decode(WithChecksum(bytes + "more")).status().code(), Code::kCorruption);
  }
}

TEST(Page, WhatPassesTheChecksumIsRefusedOrSafeToRead) {
  for (const auto& [form, bytes] : ExamplePages()) {
    for (std::size_t i = 0; i < bytes.size() - kCrcBytes; ++i) {
      for (int byte = 0; byte < 256; ++byte) {
        std::string changed = bytes;
        changed[i] = static_cast<char>(byte);
        ExpectRefusedOrSafe(WithChecksum(changed), form + " " + std::to_string(i));
      }
    }
  }
}

TEST(Page, ManyChangesAtOnceAreRefusedOrSafeToRead) {
  std::mt19937_64 random(3);
  for (const auto& [form, bytes] : ExamplePages()) {
    for (int round = 0; round < 20'000; ++round) {
      std::string changed = bytes;
      for (std::uint64_t left = 2 + random() % 4; left > 0; --left) {
        changed[random() % changed.size()] = static_cast<char>(random() >> 3);
      }
      ExpectRefusedOrSafe(WithChecksum(changed), form + " round " + std::to_string(round));
    }
  }
}

TEST(Page, ChangedColumnsOfAPackedPageAreRefusedOrSafeToRead) {
  const Handmade whole;
  const std::string body =
      PackedBody({whole.topics, whole.times, whole.serials, whole.indexes, whole.lengths}, "abc");
  for (std::size_t i = 0; i < body.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = body;
      changed[i] = static_cast<char>(byte);
      ExpectRefusedOrSafe(PackedPageOf(whole.header, changed), std::to_string(i));
    }
  }
}

TEST(Page, AHandmadePageIsDecodedUnlessOneThingIsWrong) {
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
  EXPECT_EQ(code([](Handmade* p) { p->indexes = Varints({0, ZigZag(-1)}); }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->topics = Varints({0, 0, 1}) + "t\2"; }), Code::kCorruption);
  EXPECT_EQ(code([](Handmade* p) { p->topics = Varints({1, 1, 1}) + "t\2"; }), Code::kCorruption);
  // A time is below 0, and the bounds in the header fit it.
  EXPECT_EQ(code([](Handmade* p) {
              p->header.extent.first_time = -1;
              p->times = Varints({0, ZigZag(7)});
            }),
            Code::kCorruption);
}

// The sum of the lengths exceeds 64 bits, and what is left of it is the right sum.
TEST(Page, LengthsThatWrapAreCorruption) {
  Handmade page;
  page.lengths = Varints({3, kSerialMax - 1, 2});
  page.times += '\0';
  page.serials += '\0';
  page.indexes += '\0';
  page.topics = Varints({1, 0, 1}) + "t" + Varints({3});
  page.header.rows = 3;
  EXPECT_EQ(Page::Decode(page.Bytes()).status().code(), Code::kCorruption);
}

}  // namespace
}  // namespace topicdb::columnar
