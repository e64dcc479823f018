#include "store/slab/family_stock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rocks/drop_families.h"
#include "rocks/logged_database.h"

namespace topicdb {
namespace {

using Names = std::vector<std::string>;

TEST(FamilyUse, IsThatOfTheName) {
  EXPECT_EQ(FamilyUseOf("class1.generation2.blocks"), rocks::FamilyUse::kBlocks);
  EXPECT_EQ(FamilyUseOf("class1.generation2.pages"), rocks::FamilyUse::kPages);
  EXPECT_EQ(FamilyUseOf("class1.generation2"), rocks::FamilyUse::kKeys);
  EXPECT_EQ(FamilyUseOf("default"), rocks::FamilyUse::kKeys);
}

class FamilyStockTest : public ::testing::Test {
 protected:
  rocksdb::Status Take(const Names& names, const Names& ahead, FamiliesByName* families) {
    return stock_.Take(&database_.db(), names, ahead, families);
  }
  // Does what a SlabMaker does with what is in stock when nobody needs it any more.
  rocksdb::Status DropAll() {
    const rocksdb::Status status = rocks::DropFamilies(&database_.db(), stock_.handles());
    stock_.Clear();
    return status;
  }
  // Returns which of these families RocksDB has.
  Names Existing(const Names& names) {
    Names all;
    EXPECT_TRUE(rocksdb::DB::ListColumnFamilies({}, database_.path(), &all).ok());
    Names found;
    for (const std::string& name : names) {
      if (std::find(all.begin(), all.end(), name) != all.end()) found.push_back(name);
    }
    return found;
  }

  const rocks::SharedResources resources_ = rocks::MakeSharedResources(1 << 20, 1 << 20);
  rocks::LoggedDatabase database_;
  FamilyStock stock_{resources_};
};

TEST_F(FamilyStockTest, MakesWhatIsMissingAndWhatComesNext) {
  FamiliesByName families;
  ASSERT_TRUE(Take({"a", "b"}, {"c", "d"}, &families).ok());
  EXPECT_EQ(families.size(), 2U);
  EXPECT_EQ(families.at("a")->get()->GetName(), "a");
  EXPECT_EQ(Existing({"a", "b", "c", "d"}), (Names{"a", "b", "c", "d"}));
  ASSERT_TRUE(database_.db().Put({}, families.at("b")->get(), "key", "value").ok());
}

TEST_F(FamilyStockTest, WithAllInStockMakesNoneAhead) {
  FamiliesByName families;
  ASSERT_TRUE(Take({"a"}, {"b"}, &families).ok());
  ASSERT_TRUE(Take({"b"}, {"c"}, &families).ok());
  EXPECT_EQ(families.size(), 2U);
  EXPECT_TRUE(Existing({"c"}).empty()) << "that would have taken a call";
  ASSERT_TRUE(Take({"c"}, {"d"}, &families).ok());
  EXPECT_EQ(Existing({"c", "d"}), (Names{"c", "d"}));
}

TEST_F(FamilyStockTest, MakesNoneTwice) {
  FamiliesByName families;
  ASSERT_TRUE(Take({"a"}, {"b", "c"}, &families).ok());
  ASSERT_TRUE(Take({"b", "d"}, {"c", "e"}, &families).ok()) << "b and c are there";
  EXPECT_EQ(families.size(), 3U);
}

TEST_F(FamilyStockTest, TakesInFamiliesThatNobodyUses) {
  FamiliesByName families;
  ASSERT_TRUE(Take({"a", "b"}, {}, &families).ok());
  const rocksdb::ColumnFamilyHandle* handle = families.at("a")->get();
  stock_.Put(std::move(families));
  FamiliesByName again;
  ASSERT_TRUE(Take({"a"}, {"c"}, &again).ok());
  EXPECT_EQ(again.at("a")->get(), handle);
  EXPECT_TRUE(Existing({"c"}).empty());
}

TEST_F(FamilyStockTest, DropsWhatItHas) {
  FamiliesByName families;
  ASSERT_TRUE(Take({"a"}, {"b", "c"}, &families).ok());
  ASSERT_TRUE(DropAll().ok());
  EXPECT_EQ(Existing({"a", "b", "c"}), Names{"a"});
  ASSERT_TRUE(DropAll().ok()) << "nothing is left";
  ASSERT_TRUE(Take({"b"}, {}, &families).ok()) << "it can be made anew";
  EXPECT_EQ(Existing({"b"}), Names{"b"});
}

TEST_F(FamilyStockTest, WhatItGivesUpStaysInRocksDb) {
  FamiliesByName families;
  ASSERT_TRUE(Take({"a"}, {"b"}, &families).ok());
  stock_.Clear();
  EXPECT_EQ(Existing({"a", "b"}), (Names{"a", "b"}));
  ASSERT_TRUE(DropAll().ok());
  EXPECT_EQ(Existing({"b"}), Names{"b"}) << "it is not in stock any more";
}

TEST_F(FamilyStockTest, FailsIfRocksDbHasOneThatItDoesNotKnow) {
  FamiliesByName families;
  EXPECT_FALSE(Take({"a", "other"}, {}, &families).ok());
  EXPECT_FALSE(families.contains("other"));
}

}  // namespace
}  // namespace topicdb
