// Tests how the bodies of packed pages are compressed.

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "layout/columnar/format/page_format.h"

namespace topicdb::columnar {
namespace {

constexpr PageCodec kCodecs[] = {PageCodec::kZstd, PageCodec::kLz4};

std::string Noise(std::size_t size) {
  std::mt19937_64 random(1);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Returns bodies that can be compressed well, a little and not at all.
std::vector<std::string> Bodies() {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "value " + std::to_string(i) + "\n";
  return {"x", std::string(1 << 20, 'z'), text, Noise(300'000)};
}

std::string Compressed(PageCodec codec, const std::string& body) {
  std::string stored;
  EXPECT_TRUE(PageCompressor(codec).Compress(body, &stored).ok());
  return stored;
}

// Decompresses to exactly `size` bytes, in memory of this size, so that a sanitizer notices more.
Result<std::string> Decompressed(PageCodec codec, const std::string& stored, std::size_t size) {
  const auto memory = std::make_unique<char[]>(size);
  const Status status = Decompress(codec, stored, memory.get(), size);
  return status.ok() ? Result<std::string>(std::string(memory.get(), size)) : status;
}

TEST(PageCodec, GivesBackWhatItCompressed) {
  for (const PageCodec codec : kCodecs) {
    for (const std::string& body : Bodies()) {
      const auto found = Decompressed(codec, Compressed(codec, body), body.size());
      ASSERT_TRUE(found.ok()) << found.status().message();
      EXPECT_TRUE(*found == body);
    }
  }
}

TEST(PageCodec, OneCompressorTakesBodyAfterBodyAndAppends) {
  for (const PageCodec codec : kCodecs) {
    PageCompressor compressor(codec);
    EXPECT_EQ(compressor.codec(), codec);
    std::string stored = "head";
    for (const std::string& body : Bodies()) {
      const std::size_t begin = stored.size();
      ASSERT_TRUE(compressor.Compress(body, &stored).ok());
      EXPECT_TRUE(stored.substr(begin) == Compressed(codec, body)) << "no body depends on others";
    }
    EXPECT_TRUE(stored.starts_with("head"));
  }
}

TEST(PageCodec, MakesTextSmaller) {
  const std::string text = Bodies()[2];
  for (const PageCodec codec : kCodecs) {
    EXPECT_LT(Compressed(codec, text).size(), text.size() * 3 / 4);
  }
}

TEST(PageCodec, AnotherSizeIsCorruption) {
  for (const PageCodec codec : kCodecs) {
    for (const std::string& body : Bodies()) {
      const std::string stored = Compressed(codec, body);
      for (const std::size_t size : {body.size() - 1, body.size() + 1}) {
        EXPECT_EQ(Decompressed(codec, stored, size).status().code(), Code::kCorruption);
      }
    }
  }
}

TEST(PageCodec, WhatIsCutOffIsCorruption) {
  for (const PageCodec codec : kCodecs) {
    const std::string body = Bodies()[2].substr(0, 500);
    const std::string stored = Compressed(codec, body);
    for (std::size_t size = 0; size < stored.size(); ++size) {
      const auto found = Decompressed(codec, stored.substr(0, size), body.size());
      EXPECT_EQ(found.status().code(), Code::kCorruption) << size;
    }
  }
}

TEST(PageCodec, WhatIsNotCompressedAtAllIsCorruption) {
  for (const PageCodec codec : kCodecs) {
    EXPECT_EQ(Decompressed(codec, Noise(2'000), 4'000).status().code(), Code::kCorruption);
  }
}

TEST(PageCodec, EveryBodyThatThereCanBeIsOfAPossibleSize) {
  for (const PageCodec codec : kCodecs) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{1} << 10, std::size_t{1} << 24}) {
      const std::string body(size, 'z');  // nothing compresses better
      EXPECT_TRUE(IsPossibleSize(codec, Compressed(codec, body).size(), size)) << size;
    }
  }
}

TEST(PageCodec, ASizeThatNothingCompressesSoWellIsImpossible) {
  for (const PageCodec codec : kCodecs) {
    EXPECT_FALSE(IsPossibleSize(codec, 1'000, std::size_t{1} << 30));
    EXPECT_FALSE(IsPossibleSize(codec, 0, 1 << 20));
  }
  EXPECT_TRUE(IsPossibleSize(PageCodec::kZstd, 100, 1 << 20));
  EXPECT_FALSE(IsPossibleSize(PageCodec::kLz4, 100, 1 << 20));
}

}  // namespace
}  // namespace topicdb::columnar
