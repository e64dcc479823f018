#include "base/bytes/checked_record.h"

#include <gtest/gtest.h>

namespace topicdb {
namespace {

TEST(CheckedRecord, OpensAsItWasClosed) {
  const std::string record = CloseRecord("head, body");
  EXPECT_EQ(record.size(), 14U);
  EXPECT_EQ(OpenRecord(record, "head"), ", body");
  EXPECT_EQ(OpenRecord(record, ""), "head, body");
  EXPECT_EQ(OpenRecord(record, "head, body"), "");
  EXPECT_EQ(OpenRecord(record, "other"), std::nullopt);
  EXPECT_EQ(OpenRecord(CloseRecord(""), ""), "");
}

TEST(CheckedRecord, OneThatIsDamagedOrCutDoesNotOpen) {
  const std::string record = CloseRecord("head, body");
  for (std::size_t i = 0; i < record.size(); ++i) {
    std::string damaged = record;
    damaged[i] ^= 1;
    EXPECT_EQ(OpenRecord(damaged, "head"), std::nullopt) << i;
    EXPECT_EQ(OpenRecord(record.substr(0, i), "head"), std::nullopt) << i;
  }
}

}  // namespace
}  // namespace topicdb
