#include "base/bytes/utf8.h"

#include <gtest/gtest.h>

namespace topicdb {
namespace {

TEST(Utf8, TextsOfAllLengthsAreUtf8) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("a\u00e9\u20ac\U0001f600"));
  EXPECT_TRUE(IsUtf8(std::string_view("\0", 1)));
  EXPECT_EQ(Utf8SequenceLength("\u20ac..."), 3U);
}

TEST(Utf8, WhatIsCutOffOrTooLongOrASurrogateIsNone) {
  for (const char* bytes :
       {"\xff", "\xc3", "a\xe2\x82", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"}) {
    EXPECT_FALSE(IsUtf8(bytes)) << bytes;
  }
  EXPECT_EQ(Utf8SequenceLength(""), 0U);
}

}  // namespace
}  // namespace topicdb
