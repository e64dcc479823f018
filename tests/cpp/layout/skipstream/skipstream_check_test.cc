#include "layout/skipstream/skipstream_check.h"

#include <gtest/gtest.h>

#include "layout/skipstream/skipstream_keys.h"
#include "layout/skipstream/skipstream_layout.h"
#include "rocks/rocks_compat.h"
#include "test_directory.h"

namespace topicdb::skipstream {
namespace {

constexpr StreamId kStream{7};

// A RocksDB with messages of the structure "+/+".
class SkipstreamCheck : public ::testing::Test {
 protected:
  SkipstreamCheck() {
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    EXPECT_TRUE(rocks::Open(options, directory_ / "db", {{"default", {}}}, &handles_, &db_).ok());
    for (int i = 0; i < 20; ++i) Put("a" + std::to_string(i % 3), "b", i);
  }
  ~SkipstreamCheck() override {
    for (auto* handle : handles_) EXPECT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
  }
  SkipstreamCheck(const SkipstreamCheck&) = delete;
  SkipstreamCheck& operator=(const SkipstreamCheck&) = delete;

  void Put(const std::string& first, const std::string& second, std::int64_t time) {
    const std::vector<std::string_view> words{first, second};
    rocksdb::WriteBatch batch;
    const auto writer = layout_.NewWriter({handles_[0], nullptr}, nullptr, {}, &batch);
    ASSERT_TRUE(writer->Add({kStream, {}, words, time, Serial{1}, 0, "value"}).ok());
    ASSERT_TRUE(writer->Finish().ok());
    ASSERT_TRUE(db_->Write({}, &batch).ok());
  }

  std::string Find(bool deep = true) {
    SlabCheck check;
    check.deep = deep;
    check.serial_max = serial_max_;
    check.stream_of = [&](std::string_view) { return stream_; };
    check.structure_of = [&](StreamId stream) -> std::optional<Structure> {
      if (stream != kStream) return std::nullopt;
      return Structure{{{Filter::LevelKind::kPlus, ""}, {Filter::LevelKind::kPlus, ""}}};
    };
    std::string all;
    check.report = [&](const Finding& finding) { all += finding.what + "\n"; };
    check.checked = [](std::uint64_t) { return false; };
    const auto counts = layout_.Check({db_.get(), nullptr, {handles_[0], nullptr}}, check);
    EXPECT_TRUE(counts.ok());
    messages_ = counts->messages;
    return all;
  }

  // Returns the first key of this level, or an empty one if there is none.
  std::string KeyOf(std::uint16_t level) {
    const std::unique_ptr<rocksdb::Iterator> keys(db_->NewIterator({}));
    for (keys->SeekToFirst(); keys->Valid(); keys->Next()) {
      if (keys->key()[5] == static_cast<char>(level)) return keys->key().ToString();
    }
    return {};
  }

  const TestDirectory directory_;
  const SkipstreamLayout layout_{8};
  std::unique_ptr<rocksdb::DB> db_;
  rocks::FamilyHandles handles_;
  Serial serial_max_{1};
  StreamId stream_ = kStream;
  std::uint64_t messages_ = 0;
};

TEST_F(SkipstreamCheck, FindsNothingInWhatIsWhole) {
  EXPECT_EQ(Find(), "");
  EXPECT_EQ(messages_, 20U);
  EXPECT_EQ(Find(/*deep=*/false), "");
  EXPECT_EQ(messages_, 20U);
}

TEST_F(SkipstreamCheck, AMissingIndexEntry) {
  ASSERT_TRUE(db_->Delete({}, KeyOf(1)).ok());
  EXPECT_NE(Find().find("a message of topic 'a0/b' has no index entry"), std::string::npos);
}

TEST_F(SkipstreamCheck, AMissingMessage) {
  ASSERT_TRUE(db_->Delete({}, KeyOf(kDataLevel)).ok());
  const std::string found = Find();
  EXPECT_NE(found.find("an index entry of stream 7 has no message"), std::string::npos) << found;
  EXPECT_EQ(messages_, 19U);
}

TEST_F(SkipstreamCheck, AMalformedMessage) {
  ASSERT_TRUE(db_->Put({}, KeyOf(kDataLevel), "\x09").ok());
  EXPECT_NE(Find(false).find("a message of stream 7 is malformed"), std::string::npos);
}

TEST_F(SkipstreamCheck, AKeyThatIsNone) {
  ASSERT_TRUE(db_->Put({}, "key", "").ok());
  EXPECT_NE(Find(false).find("a key that is none of a message"), std::string::npos);
}

TEST_F(SkipstreamCheck, ASerialThatIsStillToCome) {
  serial_max_ = kNoSerial;
  EXPECT_NE(Find(false).find("a message has serial 1"), std::string::npos);
}

TEST_F(SkipstreamCheck, ATopicThatTheStructuresPutElsewhere) {
  stream_ = StreamId{8};
  EXPECT_NE(Find().find("topic 'a0/b' is of another stream"), std::string::npos);
}

TEST_F(SkipstreamCheck, AStreamThatTheStructuresDoNotKnow) {
  std::string key;
  AppendDataPrefix(&key, StreamId{9});
  AppendTime(&key, 1, 8);
  ASSERT_TRUE(db_->Put({}, key, "").ok());
  EXPECT_NE(Find(false).find("do not know stream 9"), std::string::npos);
}

}  // namespace
}  // namespace topicdb::skipstream
