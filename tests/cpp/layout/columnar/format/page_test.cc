#include "layout/columnar/format/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "layout/columnar/format/expect_page.h"

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

void ExpectRoundTrips(const Rows& rows) {
  const Rows committed = InCommitOrder(rows);
  ExpectPage(PlainPage(committed), committed);
  const Rows sorted = Sorted(rows);
  for (const PageCodec codec : kCodecs) {
    ExpectPage(PackedPage(sorted, codec), sorted);
    ExpectStored(ApartPage(sorted, codec), sorted);
  }
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

}  // namespace
}  // namespace topicdb::columnar
