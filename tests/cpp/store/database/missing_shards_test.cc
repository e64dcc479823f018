#include "store/database/missing_shards.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace topicdb {
namespace {

std::vector<std::uint32_t> NumbersIn(const MissingShards& missing) {
  std::vector<std::uint32_t> numbers;
  for (const auto& [shard, reason] : missing.reasons()) numbers.push_back(shard);
  return numbers;
}

std::vector<Filter> Filters(const std::vector<std::string>& texts) {
  std::vector<Filter> filters;
  for (const std::string& text : texts) filters.push_back(Filter::Parse(text).value());
  return filters;
}

class MissingShardsTest : public ::testing::Test {
 protected:
  MissingShardsTest() {
    missing_.Add(1, Corruption("shard 1 is damaged"));
    missing_.Add(3, StorageFault("shard 3 cannot be read"));
  }

  std::vector<std::uint32_t> For(const std::vector<std::string>& filters) const {
    return NumbersIn(missing_.For(Filters(filters)));
  }

  MissingShards missing_;
};

using Numbers = std::vector<std::uint32_t>;

// A transaction may have written any topic to any shard.
TEST_F(MissingShardsTest, EachFilterNeedsAll) {
  for (const std::string filter : {"#", "t/+", "t/0", "t/0/#", "+", "$SYS/#", "$topicdb/map/m"}) {
    EXPECT_EQ(For({filter}), (Numbers{1, 3})) << filter;
  }
  EXPECT_EQ(NumbersIn(missing_.For({Filter::Everything()})), (Numbers{1, 3}));
}

TEST_F(MissingShardsTest, NoFilterNeedsNone) { EXPECT_EQ(For({}), Numbers{}); }

TEST_F(MissingShardsTest, TheFaultNamesTheDatabaseTheShardsAndTheFirstReason) {
  const Status both = missing_.Fault("fleet.db", "; and so on");
  EXPECT_EQ(both.code(), Code::kMissingShard);
  EXPECT_EQ(both.message(),
            "fleet.db was opened without shards 1, 3 (shard 1 is damaged); and so on");
  EXPECT_EQ(missing_.Only(3).Fault("fleet.db").message(),
            "fleet.db was opened without shard 3 (shard 3 cannot be read)");
  EXPECT_TRUE(missing_.Only(2).Fault("fleet.db").ok());
  EXPECT_TRUE(MissingShards().Fault("fleet.db").ok());
}

TEST_F(MissingShardsTest, KnowsWhichThereAre) {
  EXPECT_FALSE(missing_.empty());
  EXPECT_EQ(missing_.size(), 2U);
  EXPECT_TRUE(missing_.Has(1));
  EXPECT_FALSE(missing_.Has(0));
  EXPECT_EQ(missing_.reasons().at(3).code(), Code::kStorage);
  EXPECT_TRUE(MissingShards().empty());
}

TEST(MayLeaveOut, IsTrueOfDamageAndFalseOfEverythingElse) {
  EXPECT_TRUE(MayLeaveOut(Corruption("a damaged file")));
  EXPECT_TRUE(MayLeaveOut(StorageFault("opening x/CURRENT: Input/output error")));
  for (const Status& other :
       {StorageFault("opening x/CURRENT: Permission denied"),
        StorageFault("opening x/CURRENT: No space left on device"),
        StorageFault("shard 1 of x is being changed too fast to be opened for reading"),
        Locked("by another process"), InvalidArgument("no"), SchemaFault("newer"), Forked("yes"),
        ReadOnly("yes"), NotFound("none"), Interrupted()}) {
    EXPECT_FALSE(MayLeaveOut(other)) << other.message();
  }
}

}  // namespace
}  // namespace topicdb
