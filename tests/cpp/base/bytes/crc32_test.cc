#include "base/bytes/crc32.h"

#include <gtest/gtest.h>

namespace topicdb {
namespace {

TEST(Crc32, IsThatOfZlib) {
  EXPECT_EQ(Crc32("123456789"), 0xcbf43926U);
  EXPECT_EQ(Crc32("6789", Crc32("12345")), Crc32("123456789"));
  EXPECT_EQ(Crc32("", 5), 5U);
}

}  // namespace
}  // namespace topicdb
