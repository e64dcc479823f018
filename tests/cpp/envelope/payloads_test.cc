#include "topicdb/envelope.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "envelope/golden_envelope.h"

namespace topicdb {
namespace {

std::shared_ptr<Batch> BatchOf(const std::vector<std::string>& values) {
  auto batch = std::make_shared<Batch>(true);
  std::int64_t time = 0;
  for (const std::string& value : values) {
    batch->Append({"t/" + std::to_string(time), time, value},
                  Serial{100 + static_cast<std::uint64_t>(time)});
    ++time;
  }
  return batch;
}

TEST(Payloads, ABatchWithoutEnvelopesIsTheSame) {
  for (const auto& batch : {BatchOf({}), BatchOf({"a", "", "\xf5TDE"}),
                            BatchOf({std::string(kGolden.substr(0, 50)), "plain"})}) {
    EXPECT_EQ(PayloadsOf(batch), batch);
  }
}

TEST(Payloads, OthersHavePayloadsAsValues) {
  const auto stored = BatchOf({"plain", std::string(kGolden), *EscapedValue(kGolden), "\xf5TDE"});
  const auto payloads = PayloadsOf(stored);
  ASSERT_EQ(payloads->size(), 4U);
  EXPECT_EQ(payloads->value(0), "plain");
  EXPECT_EQ(payloads->value(1), "21.5");
  EXPECT_EQ(payloads->value(2), kGolden);
  EXPECT_EQ(payloads->value(3), "\xf5TDE");
  EXPECT_EQ(payloads->topic(3), "t/3");
  EXPECT_EQ(payloads->timestamp(3), 3);
  EXPECT_EQ(payloads->serial(3), Serial{103});
  EXPECT_EQ(stored->value(1), kGolden);
}

TEST(Payloads, ValuesMayBeBorrowed) {
  const std::string bytes = "xplain" + std::string(kGolden);
  const std::vector<std::int32_t> offsets{1, 6, static_cast<std::int32_t>(bytes.size())};
  auto stored = std::make_shared<Batch>();
  stored->AppendKey("a", 1, kNoSerial);
  stored->AppendKey("b", 2, kNoSerial);
  stored->BorrowValues(std::make_shared<int>(), offsets, bytes);
  const auto payloads = PayloadsOf(stored);
  EXPECT_EQ(payloads->value(0), "plain");
  EXPECT_EQ(payloads->value(1), "21.5");
}

}  // namespace
}  // namespace topicdb
