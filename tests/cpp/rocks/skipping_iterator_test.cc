#include "rocks/skipping_iterator.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>

#include "rocks/rocks_compat.h"
#include "test_directory.h"

namespace topicdb::rocks {
namespace {

constexpr int kKeys = 20'000;
constexpr std::size_t kValueBytes = 40;

std::string Key(int i) {
  char text[16];
  std::snprintf(text, sizeof(text), "key%08d", i * 7);
  return text;
}

// A RocksDB with one table file of many blocks.
class SkippingIteratorTest : public ::testing::Test {
 protected:
  void Open() {
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    rocksdb::ColumnFamilyOptions family;
    family.compression = rocksdb::kNoCompression;
    family.disable_auto_compactions = true;
    const Families families{{rocksdb::kDefaultColumnFamilyName, family}};
    ASSERT_TRUE(rocks::Open(options, directory_ / "", families, &handles_, &db_).ok());
  }
  void Close() {
    if (db_ == nullptr) return;
    ASSERT_TRUE(db_->DestroyColumnFamilyHandle(handles_[0]).ok());
    db_.reset();
    handles_.clear();
  }
  void SetUp() override {
    Open();
    for (int i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(db_->Put({}, Key(i), std::string(kValueBytes, 'v')).ok());
    }
    ASSERT_TRUE(db_->Flush({}).ok());
    Close();
  }
  void TearDown() override { Close(); }

  std::filesystem::path Table() const {
    for (const auto& entry : std::filesystem::directory_iterator(directory_ / "")) {
      if (entry.path().extension() == ".sst") return entry.path();
    }
    return {};
  }
  void ChangeByte(std::streamoff place) const {
    std::fstream file(Table(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(place);
    const int byte = file.get();
    file.seekp(place);
    file.put(static_cast<char>(byte ^ 1));
  }
  // Changes a byte at this hundredth of the table file.
  void Damage(int hundredth) const {
    ChangeByte(static_cast<std::streamoff>(std::filesystem::file_size(Table())) * hundredth / 100);
  }

  // Returns the keys from `from` on, and sets `gaps`.
  std::set<std::string> Read(const std::string& from, std::vector<KeyGap>* gaps) {
    std::set<std::string> keys;
    SkippingIterator records(db_.get(), nullptr, handles_[0]);
    for (records.Seek(from); records.Valid(); records.Next()) {
      EXPECT_TRUE(keys.empty() || *keys.rbegin() < records.key());
      keys.emplace(records.key());
      EXPECT_EQ(records.value(), std::string(kValueBytes, 'v'));
    }
    EXPECT_TRUE(records.status().ok());
    *gaps = records.gaps();
    return keys;
  }

  TestDirectory directory_;
  FamilyHandles handles_;
  std::unique_ptr<rocksdb::DB> db_;
};

TEST_F(SkippingIteratorTest, WithoutDamageAllIsReadAndThereIsNoGap) {
  Open();
  std::vector<KeyGap> gaps;
  EXPECT_EQ(Read("", &gaps).size(), static_cast<std::size_t>(kKeys));
  EXPECT_TRUE(gaps.empty());
  EXPECT_EQ(Read(Key(kKeys / 2), &gaps).size(), static_cast<std::size_t>(kKeys / 2));
}

TEST_F(SkippingIteratorTest, OnlyTheKeysOfDamagedBlocksAreMissing) {
  Damage(20);
  Damage(50);
  Damage(51);
  Open();
  std::vector<KeyGap> gaps;
  const std::set<std::string> keys = Read("", &gaps);
  ASSERT_EQ(gaps.size(), 3U);
  constexpr std::size_t kBlockKeysMax = 4'096 / kValueBytes;
  EXPECT_GE(keys.size(), kKeys - 3 * kBlockKeysMax);
  for (int i = 0; i < kKeys; ++i) {
    const bool is_in_gap = std::any_of(gaps.begin(), gaps.end(), [&](const KeyGap& gap) {
      return gap.begin <= Key(i) && Key(i) < gap.end;
    });
    EXPECT_NE(keys.contains(Key(i)), is_in_gap) << i;
  }
}

TEST_F(SkippingIteratorTest, TheFirstBlock) {
  Damage(0);
  Open();
  std::vector<KeyGap> gaps;
  const std::set<std::string> keys = Read("", &gaps);
  ASSERT_EQ(gaps.size(), 1U);
  EXPECT_EQ(gaps[0].begin, "");
  EXPECT_EQ(gaps[0].end, *keys.begin());
  EXPECT_EQ(*keys.rbegin(), Key(kKeys - 1));
}

TEST_F(SkippingIteratorTest, ASeekIntoADamagedBlockGoesToTheNextOne) {
  Damage(50);
  Open();
  std::vector<KeyGap> gaps;
  Read("", &gaps);
  ASSERT_EQ(gaps.size(), 1U);
  const KeyGap gap = gaps[0];
  EXPECT_EQ(*Read(gap.begin, &gaps).begin(), gap.end);
  EXPECT_EQ(gaps.size(), 1U);
}

TEST_F(SkippingIteratorTest, TheLastBlock) {
  std::ifstream file(Table(), std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  ChangeByte(static_cast<std::streamoff>(bytes.rfind(std::string(kValueBytes, 'v'))));
  Open();
  std::vector<KeyGap> gaps;
  const std::set<std::string> keys = Read("", &gaps);
  EXPECT_FALSE(keys.contains(Key(kKeys - 1)));
  ASSERT_EQ(gaps.size(), 1U);
  EXPECT_EQ(gaps[0].begin, *keys.rbegin() + '\0');
  EXPECT_EQ(gaps[0].end, "");
}

}  // namespace
}  // namespace topicdb::rocks
