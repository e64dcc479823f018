#include "rocks/salvage.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "rocks/log/log_files.h"
#include "rocks/log/log_reader.h"
#include "rocks/rocks_compat.h"
#include "rocks/skipping_iterator.h"
#include "test_directory.h"

namespace topicdb::rocks {
namespace {

constexpr std::size_t kCacheBytes = 1 << 20;

// A RocksDB with two column families. Each flush makes a table file in level 0.
class SalvageTest : public ::testing::Test {
 protected:
  void Fill(const std::vector<int>& keys_of_flushes, std::size_t value_bytes) {
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    rocksdb::ColumnFamilyOptions family;
    family.disable_auto_compactions = true;
    const Families families{{rocksdb::kDefaultColumnFamilyName, family}, {"other", family}};
    std::unique_ptr<rocksdb::DB> db;
    FamilyHandles handles;
    ASSERT_TRUE(rocks::Open(options, from(), families, &handles, &db).ok());
    for (const int keys : keys_of_flushes) {
      for (int i = 0; i < keys; ++i) {
        const std::string key = std::to_string(written_++);
        ASSERT_TRUE(db->Put({}, handles[1], key, std::string(value_bytes, 'v')).ok());
      }
      ASSERT_TRUE(db->Flush({}, handles[1]).ok());
    }
    ASSERT_TRUE(db->Put({}, handles[0], "logged", "").ok());
    for (auto* handle : handles) ASSERT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
  }
  std::string from() const { return directory_ / "from"; }
  std::string copy() const { return directory_ / "copy"; }

  std::vector<std::filesystem::path> Tables() const {
    std::set<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(from())) {
      if (entry.path().extension() == ".sst") found.insert(entry.path());
    }
    return {found.begin(), found.end()};
  }

  Result<std::unique_ptr<Salvage>> Open() const {
    return Salvage::Open(from(), copy(), MakeSharedResources(kCacheBytes, kCacheBytes));
  }
  static std::size_t CountKeys(const Salvage& salvage, const std::string& family) {
    SkippingIterator records(salvage.db(), nullptr, salvage.families().at(family));
    std::size_t keys = 0;
    for (records.Seek({}); records.Valid(); records.Next()) ++keys;
    return keys;
  }

  TestDirectory directory_;
  int written_ = 0;
};

TEST_F(SalvageTest, OfWhatIsWholeNothingIsLost) {
  Fill({100, 100}, 10);
  const auto salvage = Open();
  ASSERT_TRUE(salvage.ok()) << salvage.status().message();
  EXPECT_TRUE((*salvage)->lost().empty());
  EXPECT_EQ(CountKeys(**salvage, "other"), 200U);
  EXPECT_EQ(CountKeys(**salvage, rocksdb::kDefaultColumnFamilyName), 1U);
}

TEST_F(SalvageTest, AMissingTableTakesNoOtherWithIt) {
  Fill({100, 50, 25}, 10);
  std::filesystem::remove(Tables()[1]);
  const auto salvage = Open();
  ASSERT_TRUE(salvage.ok()) << salvage.status().message();
  ASSERT_EQ((*salvage)->lost().size(), 1U);
  EXPECT_TRUE((*salvage)->MayLack("other"));
  EXPECT_FALSE((*salvage)->MayLack(rocksdb::kDefaultColumnFamilyName));
  EXPECT_EQ(CountKeys(**salvage, "other"), 125U);
  EXPECT_FALSE(std::filesystem::exists(from() + "/" + (*salvage)->lost()[0].name));
}

// The salvage puts an empty table in the place of a damaged one. It must be exactly as long.
TEST_F(SalvageTest, ATableOfAnyLengthIsReplaced) {
  for (std::size_t bytes = 0; bytes < 300; bytes += 7) Fill({1}, bytes);
  Fill({2, 500}, 20'000);
  const std::size_t all = static_cast<std::size_t>(written_);
  const auto tables = Tables();
  for (std::size_t i = 0; i < tables.size(); i += 2) {
    std::fstream file(tables[i], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-20, std::ios::end);
    file.write("damaged footer", 14);
  }
  const auto salvage = Open();
  ASSERT_TRUE(salvage.ok()) << salvage.status().message();
  EXPECT_EQ((*salvage)->lost().size(), (tables.size() + 1) / 2);
  EXPECT_LT(CountKeys(**salvage, "other"), all);
  EXPECT_GE(CountKeys(**salvage, "other"), tables.size() / 2);
}

TEST_F(SalvageTest, WithoutAManifestTheTablesAreListed) {
  Fill({100, 50}, 10);
  for (const auto& entry : std::filesystem::directory_iterator(from())) {
    if (entry.path().filename().string().starts_with("MANIFEST-")) {
      std::filesystem::remove(entry.path());
    }
  }
  const auto salvage = Open();
  ASSERT_TRUE(salvage.ok()) << salvage.status().message();
  EXPECT_TRUE((*salvage)->has_new_manifest());
  EXPECT_EQ(CountKeys(**salvage, "other"), 150U);
  EXPECT_EQ(CountKeys(**salvage, rocksdb::kDefaultColumnFamilyName), 1U);
}

// The process was killed before an edit named the table.
TEST_F(SalvageTest, ATableThatNoEditNamesYetIsNoLoss) {
  Fill({100, 50}, 10);
  std::filesystem::copy_file(Tables().back(), from() + "/000900.sst");
  const auto salvage = Open();
  ASSERT_TRUE(salvage.ok()) << salvage.status().message();
  EXPECT_FALSE((*salvage)->has_new_manifest());
  EXPECT_TRUE((*salvage)->lost().empty());
  EXPECT_EQ(CountKeys(**salvage, "other"), 150U);
}

TEST_F(SalvageTest, AManifestWithoutItsEndIsMadeAnew) {
  Fill({100, 50}, 10);
  const std::filesystem::path manifest = ManifestOf(from());
  const std::uintmax_t before = std::filesystem::file_size(manifest);
  ASSERT_EQ(Tables().size(), 2U);
  // Cuts the manifest off before the edit that names the second table, whose last key is 149.
  LogReader log(manifest);
  std::uint64_t end = 0;
  while (log.Next() == LogStep::kRecord) {
    const bool names_last = log.record().find("149") != std::string::npos;
    if (names_last) end = log.record_begin();
  }
  ASSERT_GT(end, 0U);
  ASSERT_LT(end, before);
  std::filesystem::resize_file(manifest, end);
  const auto salvage = Open();
  ASSERT_TRUE(salvage.ok()) << salvage.status().message();
  EXPECT_TRUE((*salvage)->has_new_manifest());
  EXPECT_EQ(CountKeys(**salvage, "other"), 150U);
}

TEST_F(SalvageTest, ANewFamilyIsEmptyAndTheOthersStay) {
  Fill({100}, 10);
  const auto salvage = Open();
  ASSERT_TRUE(salvage.ok()) << salvage.status().message();
  ASSERT_TRUE((*salvage)->AddFamilies({"new"}).ok());
  EXPECT_EQ(CountKeys(**salvage, "new"), 0U);
  EXPECT_EQ(CountKeys(**salvage, "other"), 100U);
  EXPECT_EQ(CountKeys(**salvage, rocksdb::kDefaultColumnFamilyName), 1U);
}

TEST_F(SalvageTest, WhatItIsMadeOfStays) {
  Fill({100}, 10);
  std::filesystem::remove(from() + "/CURRENT");
  ASSERT_TRUE(Open().ok());
  EXPECT_FALSE(std::filesystem::exists(from() + "/CURRENT"));
  EXPECT_EQ(Tables().size(), 1U);
}

}  // namespace
}  // namespace topicdb::rocks
