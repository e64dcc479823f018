#include "store/catalog/family_names.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace topicdb {
namespace {

constexpr SlabId kSlab{0, RetentionClassId{1}, Generation{11}};

TEST(FamilyNames, AreThoseThatDatabasesHave) {
  EXPECT_EQ(FamilyNames(LayoutKind::kSkipstream, kSlab),
            (std::vector<std::string>{"class1.generation11"}));
  EXPECT_EQ(FamilyNames(LayoutKind::kColumnar, kSlab),
            (std::vector<std::string>{"class1.generation11.blocks", "class1.generation11.pages"}));
}

TEST(FamilyNames, DifferBySlabButNotByShard) {
  EXPECT_NE(FamilyName(kSlab), FamilyName({0, RetentionClassId{11}, Generation{1}}));
  EXPECT_EQ(FamilyName(kSlab),
            FamilyName({9, RetentionClassId{1}, Generation{11}}));  // each shard is a RocksDB
}

TEST(FamilyNames, TellTheSlab) {
  for (const std::string& name :
       {FamilyName(kSlab), BlocksFamilyName(kSlab), PagesFamilyName(kSlab)}) {
    SlabId slab;
    ASSERT_TRUE(DecodeFamilyName(name, &slab)) << name;
    EXPECT_EQ(slab, kSlab);
    EXPECT_EQ(IsBlocksFamily(name), name.ends_with("blocks"));
    EXPECT_EQ(IsPagesFamily(name), name.ends_with("pages"));
  }
}

TEST(FamilyNames, AreNotMadeOfAnythingElse) {
  SlabId slab;
  for (const char* name : {"", "default", "class", "class1", "class1.generation",
                           "class1.generation1x", "class.generation1", "class1.generation1.other",
                           "class4294967296.generation1", "xclass1.generation1"}) {
    EXPECT_FALSE(DecodeFamilyName(name, &slab)) << name;
  }
}

}  // namespace
}  // namespace topicdb
