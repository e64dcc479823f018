#include "layout/skipstream/skipstream_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "layout/skipstream/skipstream_layout.h"
#include "rocks/rocks_compat.h"
#include "rocks/rocks_options.h"
#include "test_directory.h"

namespace topicdb::skipstream {
namespace {

constexpr StreamId kStream{7};

// A RocksDB with one stream, of the structure "+/+".
class SkipstreamReaderTest : public testing::Test {
 protected:
  SkipstreamReaderTest() {
    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::DB* db = nullptr;
    EXPECT_TRUE(rocksdb::DB::Open(options, directory_ / "db", &db).ok());
    db_.reset(db);
  }

  void Put(const std::string& first, const std::string& second, std::int64_t time,
           std::uint64_t serial, const std::string& value) {
    const std::vector<std::string_view> words{first, second};
    rocksdb::WriteBatch batch;
    const auto writer = layout_.NewWriter({family(), nullptr}, nullptr, {}, &batch);
    ASSERT_TRUE(writer->Add({kStream, {}, words, time, Serial{serial}, 0, value}).ok());
    ASSERT_TRUE(writer->Finish().ok());
    ASSERT_TRUE(db_->Write({}, &batch).ok());
  }

  std::unique_ptr<SkipstreamReader> Reader(const std::string& filter, Position position = {}) {
    const Structure structure{{{Filter::LevelKind::kPlus, ""}, {Filter::LevelKind::kPlus, ""}}};
    ReadRequest request{std::vector<StreamId>{kStream},
                        structure,
                        Filter::Parse(filter).value(),
                        {},
                        std::move(position)};
    return std::make_unique<SkipstreamReader>(RocksSource{db_.get(), nullptr, {family(), nullptr}},
                                              std::move(request), 8);
  }

  static std::vector<std::string> ReadAll(SkipstreamReader& reader, std::size_t rows_max,
                                          std::size_t examined_max = 1000) {
    std::vector<std::string> values;
    while (true) {
      Batch batch;
      const auto outcome = reader.Read({rows_max, 1 << 20, examined_max}, &batch);
      EXPECT_TRUE(outcome.ok()) << outcome.status().message();
      for (std::size_t row = 0; row < batch.size(); ++row) values.emplace_back(batch.value(row));
      if (!outcome.ok() || *outcome == ReadOutcome::kExhausted) return values;
    }
  }

  rocksdb::ColumnFamilyHandle* family() const { return db_->DefaultColumnFamily(); }

  const TestDirectory directory_;
  const SkipstreamLayout layout_{8};
  std::unique_ptr<rocksdb::DB> db_;
};

TEST_F(SkipstreamReaderTest, AGroupLargerThanMemoryIsReadInPasses) {
  std::vector<std::string> expected;
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back("n" + std::to_string(i));
  std::mt19937 random(3);
  std::shuffle(names.begin(), names.end(), random);
  for (std::size_t i = 0; i < names.size(); ++i) {
    Put(names[i], "x", 5, i + 1, names[i]);
    expected.push_back(names[i]);
  }
  Put("a", "x", 4, 200, "before");
  Put("a", "x", 6, 201, "after");
  expected.insert(expected.begin(), "before");
  expected.push_back("after");
  for (const std::size_t rows_max : {1, 3, 1000}) {
    for (const std::size_t group_rows : {1, 2, 7, 1000}) {
      const auto reader = Reader("#");
      reader->SetGroupLimits(group_rows, 1 << 20);
      EXPECT_EQ(ReadAll(*reader, rows_max), expected) << rows_max << " " << group_rows;
    }
  }
  const auto by_bytes = Reader("#");
  by_bytes->SetGroupLimits(1000, 20);
  EXPECT_EQ(ReadAll(*by_bytes, 10), expected);
}

TEST_F(SkipstreamReaderTest, TheIndexJoinFindsWhatAScanFinds) {
  std::mt19937 random(5);
  std::vector<std::string> expected;
  for (std::uint64_t i = 0; i < 500; ++i) {
    const std::string first = std::to_string(random() % 5);
    const std::string second = std::to_string(random() % 7);
    const std::string value = std::to_string(i);
    Put(first, second, static_cast<std::int64_t>(i), i + 1, value);
    if (first == "3" && second == "4") expected.push_back(value);
  }
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(ReadAll(*Reader("3/4"), 3), expected);
  EXPECT_TRUE(ReadAll(*Reader("3/no"), 3).empty());
  const std::size_t no_limit = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(ReadAll(*Reader("3/4"), 3, no_limit), expected);
}

TEST_F(SkipstreamReaderTest, DamageIsCorruption) {
  const auto code = [&](const std::string& filter) {
    Batch batch;
    return Reader(filter)->Read({10, 1 << 20, 1000}, &batch).status().code();
  };
  std::string index_key;
  AppendIndexPrefix(&index_key, kStream, 0, "ghost");
  AppendTime(&index_key, 5, 8);
  index_key += std::string("ghost\0x\0", 8);
  ASSERT_TRUE(db_->Put({}, index_key, "").ok());
  EXPECT_EQ(code("ghost/+"), Code::kCorruption);

  std::string data_key;
  AppendDataPrefix(&data_key, kStream);
  AppendTime(&data_key, 5, 8);
  ASSERT_TRUE(db_->Put({}, data_key + std::string("one word\0", 9), "\x01\x01\x01").ok());
  EXPECT_EQ(code("#"), Code::kCorruption);
  ASSERT_TRUE(db_->Delete({}, data_key + std::string("one word\0", 9)).ok());
  ASSERT_TRUE(db_->Put({}, data_key + std::string("a\0b\0", 4), "\x02\x01\x01").ok());
  EXPECT_EQ(code("#"), Code::kCorruption);  // a value of another version
}

}  // namespace
}  // namespace topicdb::skipstream
