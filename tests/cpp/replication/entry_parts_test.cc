#include "replication/entry_parts.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace topicdb::replication {
namespace {

constexpr std::size_t kBytesMax = 100;

Entry Batch(std::uint64_t number, std::string_view body) {
  Entry entry;
  entry.kind = EntryKind::kBatch;
  entry.epoch = 4;
  entry.number = number;
  entry.body = body;
  return entry;
}

std::vector<std::string> Divided(const Entry& entry) {
  return DivideEntry(entry, Encode(entry), kBytesMax);
}

// Adds entries, of which only the last one may make a whole one. Returns that.
std::optional<std::string> Joined(PartJoiner* joiner, const std::vector<std::string>& entries) {
  std::optional<std::string> whole;
  for (const std::string& entry : entries) {
    EXPECT_FALSE(whole.has_value());
    auto added = joiner->Add(entry);
    EXPECT_TRUE(added.ok()) << added.status().message();
    whole = std::move(*added);
  }
  return whole;
}

TEST(EntryParts, EveryLengthComesBack) {
  PartJoiner joiner;
  for (std::size_t length = 0; length < 400; ++length) {
    const std::string body(length, static_cast<char>('a' + length % 26));
    const Entry entry = Batch(length + 1, body);
    const std::vector<std::string> parts = Divided(entry);
    for (const std::string& part : parts) EXPECT_LE(part.size(), kBytesMax);
    EXPECT_EQ(parts.size() > 1, Encode(entry).size() > kBytesMax);
    EXPECT_EQ(Joined(&joiner, parts), Encode(entry));
    EXPECT_EQ(joiner.bytes(), 0U);
  }
}

TEST(EntryParts, WhatALostLeaderHasBegunIsDropped) {
  const std::string body(300, 'x');
  const auto begun = Divided(Batch(7, body));
  const auto next = Divided(Batch(8, body));
  ASSERT_GT(begun.size(), 3U);
  Entry lead;
  lead.kind = EntryKind::kLead;
  for (std::size_t there = 1; there < begun.size(); ++there) {
    PartJoiner joiner;
    const std::vector<std::string> first(begun.begin(), begun.begin() + there);
    EXPECT_EQ(Joined(&joiner, first), std::nullopt);
    EXPECT_GT(joiner.bytes(), 0U);
    EXPECT_EQ(Joined(&joiner, {Encode(lead)}), Encode(lead));
    EXPECT_EQ(joiner.bytes(), 0U);
    // The rest, should it come after all, makes no entry.
    EXPECT_EQ(Joined(&joiner, {begun.begin() + there, begun.end()}), std::nullopt);
    EXPECT_EQ(Joined(&joiner, next), Encode(Batch(8, body)));
    // Parts of another entry do not continue it either.
    EXPECT_EQ(Joined(&joiner, first), std::nullopt);
    EXPECT_EQ(Joined(&joiner, next), Encode(Batch(8, body)));
  }
}

TEST(EntryParts, PartsOfTwoEntriesAreNotMixed) {
  const std::string body(300, 'x');
  const auto parts = Divided(Batch(7, body));
  for (const Entry& other : {Batch(8, body), [&] {
                               Entry entry = Batch(7, body);
                               entry.epoch = 5;
                               return entry;
                             }()}) {
    auto mixed = Divided(other);
    mixed[0] = parts[0];
    PartJoiner joiner;
    EXPECT_EQ(Joined(&joiner, mixed), std::nullopt);
  }
}

TEST(EntryParts, PartsMayComeAgainFromTheFirstOneOn) {
  const std::string body(300, 'x');
  const Entry entry = Batch(7, body);
  const auto parts = Divided(entry);
  PartJoiner joiner;
  EXPECT_EQ(Joined(&joiner, {parts[0], parts[1]}), std::nullopt);
  EXPECT_EQ(Joined(&joiner, parts), Encode(entry));
}

TEST(EntryParts, ADamagedPartIsRefused) {
  const std::string body(300, 'x');
  std::string part = Divided(Batch(7, body))[0];
  part.back() ^= 1;
  PartJoiner joiner;
  EXPECT_EQ(joiner.Add(part).status().code(), Code::kCorruption);
}

// Whoever gets it back decodes it.
TEST(EntryParts, WhatIsNoPartComesBackAsItIs) {
  PartJoiner joiner;
  for (const std::string bytes : {"", "no entry"}) EXPECT_EQ(Joined(&joiner, {bytes}), bytes);
}

}  // namespace
}  // namespace topicdb::replication
