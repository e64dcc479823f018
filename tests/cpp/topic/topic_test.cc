#include "topicdb/topic.h"

#include <gtest/gtest.h>

namespace topicdb {
namespace {

TEST(Topic, ValidAndInvalidNames) {
  for (const std::string_view topic :
       {"a", "/", "//", "a//b", "$SYS/x", " ", "\x01", "ü/€/\U0001F600"}) {
    EXPECT_TRUE(CheckTopic(topic).ok()) << topic;
  }
  EXPECT_TRUE(CheckTopic(std::string(65'535, 'x')).ok());
  const std::vector<std::string> invalid = {
      "",          "a/+",      "a#",           std::string("a\0b", 3), std::string(65'536, 'x'),
      "\xff",      "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",     "\xe2\x82",
      "a/\xc3\x28"};
  for (const std::string& topic : invalid) {
    EXPECT_EQ(CheckTopic(topic).code(), Code::kTopic) << topic.substr(0, 10);
  }
}

TEST(Topic, ShardsAreThoseOfCrc32) {
  EXPECT_EQ(ShardOfTopic("123456789", 7), 0xcbf43926U % 7);
  EXPECT_EQ(ShardOfTopic("anything", 1), 0U);
}

}  // namespace
}  // namespace topicdb
