#include "rocks/drop_families.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "test_directory.h"

namespace topicdb::rocks {
namespace {

class DropFamiliesTest : public ::testing::Test {
 protected:
  DropFamiliesTest() {
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    const rocksdb::ColumnFamilyOptions family;
    const Families families{
        {rocksdb::kDefaultColumnFamilyName, family}, {"a", family}, {"b", family}, {"c", family}};
    EXPECT_TRUE(rocks::Open(options, path(), families, &handles_, &db_).ok());
  }
  ~DropFamiliesTest() override {
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
      EXPECT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
    }
  }

  std::string path() { return directory_ / "db"; }
  std::vector<std::string> Stored() {
    std::vector<std::string> names;
    EXPECT_TRUE(rocksdb::DB::ListColumnFamilies({}, path(), &names).ok());
    return names;
  }

  TestDirectory directory_;
  std::unique_ptr<rocksdb::DB> db_;
  FamilyHandles handles_;
};

TEST_F(DropFamiliesTest, DropsThem) {
  EXPECT_TRUE(DropFamilies(db_.get(), {handles_[1], handles_[3]}).ok());
  EXPECT_EQ(Stored(), (std::vector<std::string>{"default", "b"}));
}

TEST_F(DropFamiliesTest, PassesOverThoseThatAnEarlierCallDropped) {
  for (const std::size_t gone : {1, 3}) {
    ASSERT_TRUE(db_->DropColumnFamily(handles_[gone]).ok());
  }
  const FamilyHandles all(handles_.begin() + 1, handles_.end());
  EXPECT_TRUE(DropFamilies(db_.get(), all).ok());
  EXPECT_EQ(Stored(), std::vector<std::string>{"default"});
  EXPECT_TRUE(DropFamilies(db_.get(), all).ok());
}

TEST_F(DropFamiliesTest, RefusesTheDefaultFamily) {
  EXPECT_TRUE(DropFamilies(db_.get(), handles_).IsInvalidArgument());
}

}  // namespace
}  // namespace topicdb::rocks
