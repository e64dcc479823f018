#include "base/bytes/coding.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace topicdb {
namespace {

TEST(Coding, VarintsRoundTrip) {
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128},
                                    std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    std::string bytes;
    AppendVarint(&bytes, value);
    Decoder decoder(bytes);
    EXPECT_EQ(decoder.Varint(), value);
    EXPECT_TRUE(decoder.Finished());
  }
}

TEST(Coding, AVarintOfMoreThan64BitsIsMalformed) {
  Decoder eleven_bytes(std::string_view("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11));
  eleven_bytes.Varint();
  EXPECT_FALSE(eleven_bytes.ok());
  Decoder bit_65(std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10));
  bit_65.Varint();
  EXPECT_FALSE(bit_65.ok());
}

TEST(Coding, BigEndianSortsAsTheNumbersDo) {
  std::string low;
  std::string high;
  AppendBig<std::uint64_t>(&low, 255);
  AppendBig<std::uint64_t>(&high, 256);
  EXPECT_LT(low, high);
  EXPECT_EQ(ReadBig<std::uint64_t>(high), 256U);
}

TEST(Coding, AFailedDecoderStaysFailedAndGivesZeros) {
  Decoder decoder("ab");
  EXPECT_EQ(decoder.Little<std::uint32_t>(), 0U);
  EXPECT_FALSE(decoder.ok());
  EXPECT_EQ(decoder.Little<std::uint8_t>(), 0U);
  EXPECT_FALSE(decoder.Finished());
}

TEST(Coding, PrefixedBytesLongerThanTheRestFail) {
  std::string bytes;
  AppendVarint(&bytes, std::numeric_limits<std::uint64_t>::max());
  Decoder decoder(bytes);
  EXPECT_TRUE(decoder.Prefixed().empty());
  EXPECT_FALSE(decoder.ok());
}

TEST(Coding, RandomBytesAreNeverReadPastTheEnd) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 24, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const std::string exact(bytes);  // has just these bytes, so ASan notices an over-read
    Decoder decoder(exact);
    while (decoder.ok() && !decoder.rest().empty()) {
      decoder.Varint();
      decoder.Prefixed();
      decoder.Little<std::uint16_t>();
    }
  }
}

}  // namespace
}  // namespace topicdb
