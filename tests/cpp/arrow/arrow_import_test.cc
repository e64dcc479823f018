#include "topicdb/arrow.h"

#include <gtest/gtest.h>

#include <optional>
#include <string_view>
#include <vector>

#include "topicdb/message.h"

namespace topicdb {
namespace {

using Keys = std::vector<std::optional<std::string_view>>;

// A record batch with the columns topic, timestamp and value, and three rows. A column of keys is
// prepared, but not a part of it.
class ImportedBatch {
 public:
  ImportedBatch() {
    const char* const names[] = {"topic", "timestamp", "value", "key"};
    const char* const formats[] = {"u", "tsu:UTC", "z", "u"};
    for (std::size_t i = 0; i < kColumns; ++i) {
      schemas_[i].name = names[i];
      schemas_[i].format = formats[i];
      schema_pointers_[i] = &schemas_[i];
      arrays_[i].length = 3;
      array_pointers_[i] = &arrays_[i];
      arrays_[i].buffers = buffers_[i];
      arrays_[i].n_buffers = i == 1 ? 2 : 3;
    }
    buffers_[0][1] = offsets_;
    buffers_[0][2] = "abc";
    buffers_[1][1] = times_;
    buffers_[2][1] = offsets_;
    buffers_[2][2] = "xyz";
    buffers_[3][1] = offsets_;
    buffers_[3][2] = "klm";
    schema_.format = "+s";
    schema_.n_children = 3;
    schema_.children = schema_pointers_;
    array_.length = 3;
    array_.n_children = 3;
    array_.children = array_pointers_;
    array_.buffers = &no_nulls_;
    array_.n_buffers = 1;
  }
  ImportedBatch(const ImportedBatch&) = delete;
  ImportedBatch& operator=(const ImportedBatch&) = delete;

  ArrowSchema& schema() { return schema_; }
  ArrowSchema& column_schema(std::size_t i) { return schemas_[i]; }
  ArrowArray& array() { return array_; }
  ArrowArray& column(std::size_t i) { return arrays_[i]; }
  std::int64_t* times() { return times_; }
  // Makes rows of a column null. Each bit, from the lowest, is 1 if its row has a value. The batch
  // borrows `bits`.
  void SetValidity(std::size_t i, const std::uint8_t* bits) {
    buffers_[i][0] = bits;
    arrays_[i].null_count = -1;  // nobody has counted the nulls
  }

  // Makes the column of keys a part of the batch.
  void AddKeys() { array_.n_children = schema_.n_children = kColumns; }

  Status Import(std::vector<MessageView>* out, std::size_t first_row = 0, Keys* keys = nullptr) {
    TOPICDB_ASSIGN_OR_RETURN(const ArrowMessages messages, ArrowMessages::Make(schema_));
    EXPECT_EQ(messages.has_keys(), schema_.n_children == kColumns);
    Keys found;
    return messages.Append(array_, first_row, out, keys == nullptr ? &found : keys);
  }
  std::string Refusal(std::size_t first_row = 0) {
    std::vector<MessageView> out;
    const Status status = Import(&out, first_row);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message();
  }

 private:
  static constexpr std::int64_t kColumns = 4;

  std::int32_t offsets_[4] = {0, 1, 2, 3};
  std::int64_t times_[3] = {10, 20, 30};
  const void* buffers_[kColumns][3] = {};
  const void* no_nulls_ = nullptr;
  ArrowSchema schemas_[kColumns] = {};
  ArrowSchema* schema_pointers_[kColumns] = {};
  ArrowSchema schema_ = {};
  ArrowArray arrays_[kColumns] = {};
  ArrowArray* array_pointers_[kColumns] = {};
  ArrowArray array_ = {};
};

TEST(ArrowImport, RowsAreViewsOfTheColumns) {
  ImportedBatch batch;
  std::vector<MessageView> out;
  ASSERT_TRUE(batch.Import(&out).ok());
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(out[1].topic, "b");
  EXPECT_EQ(out[1].timestamp, 20);
  EXPECT_EQ(out[1].value, "y");
}

TEST(ArrowImport, KeysAreViewsOfTheirColumnAndMayBeNull) {
  ImportedBatch batch;
  batch.AddKeys();
  constexpr std::uint8_t kFirstAndLast = 0b101;
  batch.SetValidity(3, &kFirstAndLast);
  std::vector<MessageView> out;
  Keys keys;
  ASSERT_TRUE(batch.Import(&out, 0, &keys).ok());
  EXPECT_EQ(out.size(), 3U);
  EXPECT_EQ(keys, (Keys{"k", std::nullopt, "m"}));
  batch.array().offset = 1;
  batch.array().length = 2;
  keys.clear();
  ASSERT_TRUE(batch.Import(&out, 0, &keys).ok());
  EXPECT_EQ(keys, (Keys{std::nullopt, "m"}));
}

TEST(ArrowImport, AColumnOfKeysHasTextOrBytesAndAllRows) {
  ImportedBatch batch;
  batch.AddKeys();
  batch.column(3).length = 2;
  EXPECT_NE(batch.Refusal().find("more rows than its keys"), std::string::npos);
  batch.column_schema(3).format = "z";
  batch.column(3).length = 3;
  std::vector<MessageView> out;
  EXPECT_TRUE(batch.Import(&out).ok());
  batch.column_schema(3).format = "l";
  EXPECT_NE(batch.Refusal().find("column 'key': expected strings or binary"), std::string::npos);
  batch.column_schema(3).format = "u";
  batch.column_schema(3).name = "value";
  EXPECT_NE(batch.Refusal().find("twice"), std::string::npos);
}

TEST(ArrowImport, OffsetsOfTheBatchAndOfItsColumnsAddUp) {
  ImportedBatch batch;
  batch.array().offset = 1;
  batch.array().length = 1;
  batch.column(2).offset = 1;
  std::vector<MessageView> out;
  ASSERT_TRUE(batch.Import(&out).ok());
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].topic, "b");
  EXPECT_EQ(out[0].value, "z");
}

TEST(ArrowImport, TimestampsOfEveryUnitBecomeMicroseconds) {
  const std::pair<const char*, std::int64_t> units[] = {
      {"tss:UTC", 20'000'000}, {"tsm:Europe/Paris", 20'000}, {"tsu:UTC", 20}, {"l", 20}};
  for (const auto& [format, microseconds] : units) {
    ImportedBatch batch;
    batch.column_schema(1).format = format;
    std::vector<MessageView> out;
    ASSERT_TRUE(batch.Import(&out).ok()) << format;
    EXPECT_EQ(out[1].timestamp, microseconds) << format;
  }
  ImportedBatch nanoseconds;
  nanoseconds.column_schema(1).format = "tsn:UTC";
  nanoseconds.times()[1] = 1'999;
  std::vector<MessageView> out;
  ASSERT_TRUE(nanoseconds.Import(&out).ok());
  EXPECT_EQ(out[1].timestamp, 1);
}

TEST(ArrowImport, AMissingTimestampIsAssigned) {
  const std::uint8_t first_and_last = 0b101;
  ImportedBatch batch;
  batch.SetValidity(1, &first_and_last);
  std::vector<MessageView> out;
  ASSERT_TRUE(batch.Import(&out).ok());
  EXPECT_EQ(out[0].timestamp, 10);
  EXPECT_EQ(out[1].timestamp, kAssignTimestamp);
}

TEST(ArrowImport, RowsThatCannotBeAreNamed) {
  const std::uint8_t first_and_last = 0b101;
  for (const std::size_t column : {std::size_t{0}, std::size_t{2}}) {
    ImportedBatch batch;
    batch.SetValidity(column, &first_and_last);
    EXPECT_NE(batch.Refusal(100).find("row 101: "), std::string::npos);
  }
  ImportedBatch negative;
  negative.times()[2] = -1;  // does not mean kAssignTimestamp here
  EXPECT_NE(negative.Refusal().find("row 2: timestamp -1"), std::string::npos);
  ImportedBatch far;
  far.column_schema(1).format = "tss:UTC";
  far.times()[0] = INT64_MAX / 1'000;
  EXPECT_NE(far.Refusal().find("row 0: timestamp"), std::string::npos);
}

TEST(ArrowImport, ColumnsThatDoNotFitAreNamed) {
  const auto refusal = [](auto change) {
    ImportedBatch batch;
    change(batch);
    return batch.Refusal();
  };
  const auto expect = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const auto format = [&](std::size_t column, const char* text) {
    return refusal([&](ImportedBatch& batch) { batch.column_schema(column).format = text; });
  };
  const auto name = [&](std::size_t column, const char* text) {
    return refusal([&](ImportedBatch& batch) { batch.column_schema(column).name = text; });
  };
  expect(format(0, "z"), "'topic': expected strings");
  expect(format(1, "tsu:"), "'timestamp': expected a timestamp with a time zone");
  expect(format(1, "g"), "'timestamp'");
  expect(format(2, "l"), "'value': expected binary");
  expect(name(0, "tpoic"), "'tpoic' is unknown");
  expect(name(1, "topic"), "'topic' is there twice");
  expect(name(2, nullptr), "'' is unknown");
  expect(refusal([](ImportedBatch& batch) { batch.schema().format = "u"; }), "single array");
  expect(refusal([](ImportedBatch& batch) { batch.schema().n_children = 2; }),
         "'value' is missing");
  expect(refusal([](ImportedBatch& batch) { batch.array().n_children = 2; }), "columns");
  expect(refusal([](ImportedBatch& batch) {
           batch.column_schema(0).dictionary = &batch.column_schema(2);
         }),
         "a dictionary with indexes of Arrow format 'u'");
}

}  // namespace
}  // namespace topicdb
