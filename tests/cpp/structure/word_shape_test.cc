#include "structure/word_shape.h"

#include <gtest/gtest.h>

namespace topicdb {
namespace {

TEST(WordShape, IsEqualForWordsOfAKind) {
  EXPECT_EQ(WordShape("host12"), WordShape("host7"));
  EXPECT_EQ(WordShape("tasmota_A1B2C3"), WordShape("tasmota_00FF12"));
  EXPECT_EQ(WordShape("0x00158d0001a2b3c4"), WordShape("0x0017880103f1e2d3"));
  EXPECT_NE(WordShape("host1"), WordShape("rack1"));
  EXPECT_NE(WordShape("STATE"), WordShape("SENSOR"));
  EXPECT_EQ(WordShape(""), "");
}

}  // namespace
}  // namespace topicdb
