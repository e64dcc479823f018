#include "layout/columnar/format/block_filter.h"

#include <gtest/gtest.h>

#include <string>

namespace topicdb::columnar {
namespace {

constexpr std::uint32_t kKeys = 10'000;

std::string Word(std::uint32_t number) { return "word " + std::to_string(number); }

TEST(BlockFilter, KnowsEveryKeyThatWasAdded) {
  FilterBuilder streams;
  FilterBuilder words;
  for (std::uint32_t i = 0; i < kKeys; ++i) {
    streams.Add(StreamHash(StreamId{i}));
    words.Add(WordHash(i % 5, Word(i)));
  }
  const std::string stream_filter = streams.Build();
  const std::string word_filter = words.Build();
  for (std::uint32_t i = 0; i < kKeys; ++i) {
    EXPECT_TRUE(MayContain(stream_filter, StreamHash(StreamId{i}))) << i;
    EXPECT_TRUE(MayContain(word_filter, WordHash(i % 5, Word(i)))) << i;
  }
}

TEST(BlockFilter, SeldomTakesOthersForKeys) {
  FilterBuilder streams;
  FilterBuilder words;
  for (std::uint32_t i = 0; i < kKeys; ++i) {
    streams.Add(StreamHash(StreamId{i}));
    words.Add(WordHash(0, Word(i)));
  }
  const std::string stream_filter = streams.Build();
  const std::string word_filter = words.Build();
  std::uint32_t wrong = 0;
  for (std::uint32_t i = 0; i < kKeys; ++i) {
    wrong += MayContain(stream_filter, StreamHash(StreamId{kKeys + i})) ? 1 : 0;
    wrong += MayContain(word_filter, WordHash(0, Word(kKeys + i))) ? 1 : 0;
    wrong += MayContain(word_filter, WordHash(1, Word(i))) ? 1 : 0;  // the word is at another level
  }
  EXPECT_LT(wrong, 3 * kKeys / 20);
  EXPECT_LE(word_filter.size(), kKeys * 10 / 8 + 32);
}

// Filters are on disk. With other bits, reads would not find messages that are there.
TEST(BlockFilter, IsTheBytesThatTheFormatDraws) {
  FilterBuilder builder;
  builder.AddWords("a/b");
  builder.Add(StreamHash(StreamId{7}));
  std::string hex;
  for (const unsigned char byte : builder.Build()) {
    for (const int digit : {byte >> 4, byte & 15}) hex += "0123456789abcdef"[digit];
  }
  EXPECT_EQ(hex, "200100800300000200001080800008008000280000040018000040c040120000");
}

TEST(BlockFilter, BytesThatAreNoFilterSayMaybe) {
  EXPECT_TRUE(MayContain("", StreamHash(StreamId{1})));
  EXPECT_TRUE(MayContain(std::string(31, '\0'), StreamHash(StreamId{1})));
  EXPECT_TRUE(MayContain(std::string(33, '\0'), StreamHash(StreamId{1})));
  EXPECT_FALSE(MayContain(std::string(32, '\0'), StreamHash(StreamId{1})));
}

TEST(BlockFilter, OfNothingContainsNothing) {
  EXPECT_FALSE(MayContain(FilterBuilder().Build(), StreamHash(StreamId{1})));
}

TEST(BlockFilter, OfTopicsContainsEachWordAtItsLevel) {
  FilterBuilder builder;
  for (const char* topic : {"a/b/c", "a/b/d", "/", "a", "b/b//"}) builder.AddWords(topic);
  const std::string filter = builder.Build();
  for (const auto& [depth, word] : std::initializer_list<std::pair<std::size_t, const char*>>{
           {0, "a"}, {0, ""}, {0, "b"}, {1, "b"}, {1, ""}, {2, "c"}, {2, "d"}, {2, ""}, {3, ""}}) {
    EXPECT_TRUE(MayContain(filter, WordHash(depth, word))) << depth << " " << word;
  }
  EXPECT_FALSE(MayContain(filter, WordHash(1, "a")));
  EXPECT_FALSE(MayContain(filter, WordHash(0, "c")));
}

TEST(BlockFilter, ABuilderForgetsWhatItBuilt) {
  FilterBuilder builder;
  builder.AddWords("a/b");
  const std::string first = builder.Build();
  builder.AddWords("a/c");
  const std::string second = builder.Build();
  EXPECT_TRUE(MayContain(second, WordHash(0, "a")));
  EXPECT_TRUE(MayContain(second, WordHash(1, "c")));
  EXPECT_FALSE(MayContain(second, WordHash(1, "b")));
  builder.AddWords("a/b");
  EXPECT_EQ(builder.Build(), first);
}

TEST(BlockFilter, IsBoundedAndStillKnowsItsKeys) {
  FilterBuilder builder;
  for (std::uint32_t i = 0; i < 20 * kKeys; ++i) builder.Add(StreamHash(StreamId{i}));
  const std::string filter = builder.Build();
  EXPECT_LE(filter.size(), std::size_t{64} << 10);
  for (std::uint32_t i = 0; i < 20 * kKeys; ++i)
    ASSERT_TRUE(MayContain(filter, StreamHash(StreamId{i})));
}

}  // namespace
}  // namespace topicdb::columnar
