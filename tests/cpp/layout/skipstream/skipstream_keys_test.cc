#include "layout/skipstream/skipstream_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace topicdb::skipstream {
namespace {

using Words = std::vector<std::string_view>;

std::string Suffix(std::int64_t timestamp, const Words& words, std::uint32_t timestamp_bytes = 8) {
  std::string out;
  AppendTime(&out, timestamp, timestamp_bytes);
  AppendWords(&out, words);
  return out;
}

TEST(SkipstreamKeys, AreTheBytesThatTheFormatDraws) {
  std::string data;
  AppendDataPrefix(&data, StreamId{0x01020304});
  EXPECT_EQ(data, std::string("\1\2\3\4\0\0", 6));
  EXPECT_EQ(Suffix(0x0102030405060708, {"ab", ""}),
            std::string("\1\2\3\4\5\6\7\10", 8) + std::string("ab\0\0", 4));
  EXPECT_EQ(Suffix(0, {"k"}, 0), std::string("k\0", 2));

  std::string index;
  AppendIndexPrefix(&index, StreamId{0x01020304}, 2, "");
  // XXH3 64 of no bytes is 2d06800538d394c2 (xxHash's own sanity checks).
  EXPECT_EQ(index, std::string("\1\2\3\4\0\3\x2d\x06\x80\x05\x38\xd3\x94\xc2", 14));
}

TEST(SkipstreamKeys, SuffixesRoundTripAndOrderByTimeThenWords) {
  std::mt19937_64 random(1);
  std::vector<std::pair<std::int64_t, Words>> messages;
  const Words pool = {"", "a", "aa", "b", "\x01", "\xff"};
  for (int i = 0; i < 300; ++i) {
    const auto time = static_cast<std::int64_t>(random() >> 1 >> (random() % 63));
    messages.push_back({time, {pool[random() % pool.size()], pool[random() % pool.size()]}});
  }
  std::sort(messages.begin(), messages.end());
  std::string previous;
  for (const auto& [time, words] : messages) {
    const std::string suffix = Suffix(time, words);
    EXPECT_LE(previous, suffix);
    previous = suffix;
    DecodedSuffix decoded;
    ASSERT_TRUE(DecodeSuffix(suffix, 8, &decoded));
    EXPECT_EQ(decoded.timestamp, time);
    EXPECT_EQ(decoded.words, words);
  }
}

TEST(SkipstreamKeys, MalformedSuffixesAreRefused) {
  DecodedSuffix decoded;
  const std::string whole = Suffix(7, {"a", "b"});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const bool ends_with_a_word = size == 8 || size == 10;  // fewer words are no fault
    EXPECT_EQ(DecodeSuffix(whole.substr(0, size), 8, &decoded), ends_with_a_word) << size;
  }
  EXPECT_FALSE(DecodeSuffix(std::string("\x80\0\0\0\0\0\0\0", 8), 8, &decoded));  // 2^63
  EXPECT_TRUE(DecodeSuffix("", 0, &decoded));
  EXPECT_FALSE(DecodeSuffix("a", 0, &decoded));
}

TEST(SkipstreamKeys, ValuesRoundTripAndMalformedOnesAreRefused) {
  for (const Serial serial : {Serial{1}, Serial{300}, kLastSerial}) {
    for (const std::uint32_t index : {0U, 127U, ~0U}) {
      std::string bytes;
      AppendValueHeader(&bytes, serial, index);
      const std::size_t header_bytes = bytes.size();
      bytes += "value";
      DecodedValue decoded;
      ASSERT_TRUE(DecodeValue(bytes, &decoded));
      EXPECT_EQ(decoded.serial, serial);
      EXPECT_EQ(decoded.index, index);
      EXPECT_EQ(decoded.value, "value");
      for (std::size_t size = 0; size < header_bytes; ++size) {
        EXPECT_FALSE(DecodeValue(bytes.substr(0, size), &decoded)) << size;
      }
      bytes[0] = 2;
      EXPECT_FALSE(DecodeValue(bytes, &decoded));
    }
  }
  DecodedValue decoded;
  EXPECT_FALSE(DecodeValue("\1\1\x80\x80\x80\x80\x10", &decoded));  // an index of 2^32
  EXPECT_TRUE(DecodeValue("\1\1\xff\xff\xff\xff\x0f", &decoded));
}

}  // namespace
}  // namespace topicdb::skipstream
