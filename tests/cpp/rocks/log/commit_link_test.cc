#include "rocks/log/commit_link.h"

#include <gtest/gtest.h>

#include <string>

namespace topicdb::rocks {
namespace {

TEST(CommitLink, IsDecodedAsItWasEncoded) {
  const std::string record = std::string("a batch\x03\x10") + Encode({7, 99});
  const auto link = LinkOf(record);
  ASSERT_TRUE(link.has_value());
  EXPECT_EQ(link->number, 7U);
  EXPECT_EQ(link->session, 99U);
  EXPECT_FALSE(LinkOf("a batch").has_value());
  EXPECT_FALSE(LinkOf(record.substr(0, record.size() - 1)).has_value());
}

}  // namespace
}  // namespace topicdb::rocks
