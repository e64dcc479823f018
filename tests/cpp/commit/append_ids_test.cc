#include "commit/append_ids.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace topicdb {
namespace {

KnownAppend Known(std::uint64_t serial) { return {Serial{serial}, 1, {}}; }

TEST(AppendIds, TheLastOnesAreKnown) {
  AppendIds ids;
  EXPECT_FALSE(ids.Find("a").has_value());
  ids.Add("a", Known(3));
  ids.Add("b", Known(4));
  EXPECT_EQ(ids.Find("a"), Known(3));
  EXPECT_TRUE(ids.ForgottenAfter(kAppendIdsMax - 2).empty());
  EXPECT_EQ(ids.ForgottenAfter(kAppendIdsMax - 1), std::vector<Serial>{Serial{3}});
  EXPECT_EQ(ids.ForgottenAfter(2 * kAppendIdsMax), (std::vector<Serial>{Serial{3}, Serial{4}}));
  for (std::size_t i = 2; i <= kAppendIdsMax; ++i)
    ids.Add("more" + std::to_string(i), Known(i + 3));
  EXPECT_EQ(ids.size(), kAppendIdsMax);
  EXPECT_FALSE(ids.Find("a").has_value());
  EXPECT_EQ(ids.Find("b"), Known(4));
}

TEST(AppendIds, TheDigestIsOfTopicsTimesAndValuesInTheirOrder) {
  const std::vector<MessageView> messages{{"a", 1, "x"}, {"b", kAssignTimestamp, "y"}};
  const AppendDigest digest = DigestOf(messages);
  EXPECT_EQ(DigestOf(messages), digest);
  const std::vector<std::vector<MessageView>> others{
      {},
      {{"a", 1, "x"}},
      {{"b", kAssignTimestamp, "y"}, {"a", 1, "x"}},
      {{"a", 1, "x"}, {"b", 2, "y"}},
      {{"a", 1, "xb"}, {"", kAssignTimestamp, "y"}},
      {{"ax", 1, ""}, {"b", kAssignTimestamp, "y"}},
      {{"a", 1, "x"}, {"b", kAssignTimestamp, "z"}},
  };
  for (const auto& other : others) EXPECT_NE(DigestOf(other), digest);
}

TEST(AppendIds, TheDigestIsOfKeysToo) {
  const std::vector<MessageView> messages{{"a", 1, "x"}, {"b", 2, "y"}};
  using Each = std::vector<std::optional<std::string_view>>;
  const auto digest_of = [&](const Each& each) {
    MessageKeys keys;
    keys.each = MessageKeys::Each(each);
    return DigestOf(messages, keys);
  };
  MessageKeys all;
  all.all = "k";
  EXPECT_EQ(DigestOf(messages, all), digest_of({"k", "k"}));
  EXPECT_EQ(DigestOf(messages), digest_of({std::nullopt, std::nullopt}));
  const std::vector<Each> different{
      {std::nullopt, std::nullopt},
      {"k", std::nullopt},
      {std::nullopt, "k"},
      {"k", "k"},
      {"a", "b"},
      {"k", "l"},
      {"ka", "k"},
  };
  std::set<AppendDigest> digests;
  for (const Each& each : different) digests.insert(digest_of(each));
  EXPECT_EQ(digests.size(), different.size());
}

// Databases store digests, so the digest of the same messages must stay the same for ever.
TEST(AppendIds, TheDigestNeverChanges) {
  const std::vector<MessageView> messages{{"a/b", 1'700'000'000'000'000, "value"}};
  const AppendDigest digest = DigestOf(messages);
  std::string hex;
  for (const std::uint8_t byte : digest) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  EXPECT_EQ(hex, "4d816de458303c20de31146254d45de5");
}

TEST(AppendIds, AnotherAppendIsToldByItsId) {
  const AppendId append{"some id", {1}, 2};
  EXPECT_TRUE(CheckSameAppend(append, {Serial{7}, 2, {1}}).ok());
  for (const KnownAppend& other :
       {KnownAppend{Serial{7}, 3, {1}}, KnownAppend{Serial{7}, 2, {2}}}) {
    const Status status = CheckSameAppend(append, other);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find("'some id'"), std::string::npos);
  }
  EXPECT_FALSE(CheckAppendId("").ok());
  EXPECT_TRUE(CheckAppendId(std::string(kAppendIdBytesMax, 'x')).ok());
  EXPECT_FALSE(CheckAppendId(std::string(kAppendIdBytesMax + 1, 'x')).ok());
}

}  // namespace
}  // namespace topicdb
