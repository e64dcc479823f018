// A slab of the layout skipstream in a RocksDB of its own, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "layout/skipstream/skipstream_keys.h"
#include "layout/skipstream/skipstream_layout.h"
#include "rocks/rocks_compat.h"
#include "test_directory.h"

namespace topicdb::skipstream {

// All messages are of one stream, whose topics have two levels that vary.
class SkipstreamSlab {
 public:
  static constexpr StreamId kStream{7};

  explicit SkipstreamSlab(std::uint32_t timestamp_bytes = 8)
      : timestamp_bytes_(timestamp_bytes), layout_(timestamp_bytes) {
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    EXPECT_TRUE(rocks::Open(options, directory_ / "db", {{"default", {}}}, &handles_, &db_).ok());
  }
  ~SkipstreamSlab() {
    for (auto* handle : handles_) EXPECT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
  }
  SkipstreamSlab(const SkipstreamSlab&) = delete;
  SkipstreamSlab& operator=(const SkipstreamSlab&) = delete;

  void Put(const std::string& first, const std::string& second, std::int64_t time,
           std::uint64_t serial, const std::string& value) {
    const std::vector<std::string_view> words{first, second};
    rocksdb::WriteBatch batch;
    const auto writer = layout_.NewWriter(source().families, nullptr, {}, &batch);
    ASSERT_TRUE(writer->Add({kStream, {}, words, time, Serial{serial}, 0, value}).ok());
    ASSERT_TRUE(writer->Finish().ok());
    ASSERT_TRUE(db_->Write({}, &batch).ok());
  }

  static Structure StructureOfStream() {
    return {{{Filter::LevelKind::kPlus, ""}, {Filter::LevelKind::kPlus, ""}}};
  }
  static ReadRequest Request(const std::string& filter, const TimeRange& range = {}) {
    ReadRequest request;
    request.streams = std::vector<StreamId>{kStream};
    request.structure = StructureOfStream();
    request.filter = Filter::Parse(filter).value();
    request.range = range;
    return request;
  }

  // Returns the key of a message.
  std::string Key(const std::string& first, const std::string& second, std::int64_t time) const {
    std::string key;
    AppendDataPrefix(&key, kStream);
    return key + Suffix(first, second, time);
  }
  std::string Suffix(const std::string& first, const std::string& second, std::int64_t time) const {
    std::string suffix;
    AppendTime(&suffix, time, timestamp_bytes_);
    AppendWords(&suffix, std::vector<std::string_view>{first, second});
    return suffix;
  }
  std::size_t CountKeys() {
    std::size_t count = 0;
    const std::unique_ptr<rocksdb::Iterator> keys(db_->NewIterator({}));
    for (keys->SeekToFirst(); keys->Valid(); keys->Next()) ++count;
    return count;
  }

  rocksdb::DB& db() { return *db_; }
  const SkipstreamLayout& layout() const { return layout_; }
  RocksSource source() const { return {db_.get(), nullptr, {handles_.at(0), nullptr}}; }

 private:
  const TestDirectory directory_;
  const std::uint32_t timestamp_bytes_;
  const SkipstreamLayout layout_;
  std::unique_ptr<rocksdb::DB> db_;
  rocks::FamilyHandles handles_;
};

}  // namespace topicdb::skipstream
