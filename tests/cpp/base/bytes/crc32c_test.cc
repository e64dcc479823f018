#include "base/bytes/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace topicdb {
namespace {

// The values come from RFC 3720, B.4. That of "123456789" is the check value of the algorithm.
TEST(Crc32c, KnownValues) {
  EXPECT_EQ(Crc32c(""), 0U);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43U);
  std::string ascending;
  for (char byte = 0; byte < 32; ++byte) ascending.push_back(byte);
  EXPECT_EQ(Crc32c(ascending), 0x46DD794EU);
}

TEST(Crc32c, GoesOnFromASeed) {
  const std::string bytes = "every length has bytes that the tables take, and some that are left";
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    EXPECT_EQ(Crc32c(bytes.substr(size), Crc32c(bytes.substr(0, size))), Crc32c(bytes));
  }
}

}  // namespace
}  // namespace topicdb
