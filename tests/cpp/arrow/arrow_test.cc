// Arrow data in and out by the C interfaces; the tests in Python read and write it with pyarrow.

#include "topicdb/arrow.h"

#include <gtest/gtest.h>

#include "test_directory.h"
#include "topicdb/database.h"

namespace topicdb {
namespace {

std::shared_ptr<const Batch> ExampleBatch() {
  auto batch = std::make_shared<Batch>();
  batch->Append({"a/b", 5, "value"}, 0);
  batch->Append({"c", 6, ""}, 0);
  return batch;
}

template <typename T>
T Item(const ArrowArray& column, std::size_t buffer, std::size_t i) {
  return static_cast<const T*>(column.buffers[buffer])[i];
}

TEST(ArrowExport, TheSchemaNamesTheColumns) {
  ArrowSchema schema;
  ExportSchema(&schema);
  ASSERT_EQ(schema.n_children, 3);
  EXPECT_STREQ(schema.format, "+s");
  EXPECT_STREQ(schema.children[0]->name, "topic");
  EXPECT_STREQ(schema.children[0]->format, "u");
  EXPECT_STREQ(schema.children[1]->name, "timestamp");
  EXPECT_STREQ(schema.children[1]->format, "tsu:UTC");
  EXPECT_STREQ(schema.children[2]->name, "value");
  EXPECT_STREQ(schema.children[2]->format, "z");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(schema.children[i]->flags & ARROW_FLAG_NULLABLE, 0);
  schema.release(&schema);
  EXPECT_EQ(schema.release, nullptr);
}

TEST(ArrowExport, ArraysPointIntoTheBatchAndKeepIt) {
  std::shared_ptr<const Batch> batch = ExampleBatch();
  const std::weak_ptr<const Batch> watched = batch;
  const void* const bytes = batch->value_bytes().data();
  ArrowArray array;
  ExportBatch(std::move(batch), &array);
  ASSERT_EQ(array.length, 2);
  const ArrowArray& topics = *array.children[0];
  EXPECT_EQ(std::string(static_cast<const char*>(topics.buffers[2]), 4), "a/bc");
  EXPECT_EQ(Item<std::int32_t>(topics, 1, 1), 3);
  EXPECT_EQ(Item<std::int64_t>(*array.children[1], 1, 1), 6);
  EXPECT_EQ(array.children[2]->buffers[2], bytes);

  // A consumer may move a column out and release the rest.
  ArrowArray moved = *array.children[2];
  array.children[2]->release = nullptr;
  array.release(&array);
  EXPECT_EQ(array.release, nullptr);
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(Item<std::int32_t>(moved, 1, 2), 5);
  moved.release(&moved);
  EXPECT_TRUE(watched.expired());
}

std::shared_ptr<const Batch> BatchWithProperties() {
  Envelope envelope;
  envelope.payload = "21.5";
  envelope.qos = 1;
  envelope.content_type = "text/plain";
  envelope.user_properties = {{"unit", "K"}, {"unit", "C"}};
  auto batch = std::make_shared<Batch>();
  batch->Append({"a", 5, "plain"}, 0);
  batch->Append({"b", 6, envelope.Encode()}, 0);
  return batch;
}

TEST(ArrowExport, PropertiesAreColumnsThatMayBeNull) {
  ArrowSchema schema;
  ExportSchema(&schema, ValueForm::kProperties);
  ASSERT_EQ(schema.n_children, 14);
  EXPECT_STREQ(schema.children[3]->name, "qos");
  EXPECT_STREQ(schema.children[13]->name, "received");
  for (int i = 3; i < 14; ++i) EXPECT_NE(schema.children[i]->flags & ARROW_FLAG_NULLABLE, 0);
  EXPECT_STREQ(schema.children[11]->children[0]->children[1]->name, "value");
  schema.release(&schema);

  const auto stored = BatchWithProperties();
  ArrowArray array;
  ExportBatch(PayloadsOf(stored), stored, &array);
  ASSERT_EQ(array.n_children, 14);
  const ArrowArray& qos = *array.children[3];
  EXPECT_EQ(qos.null_count, 1);
  EXPECT_EQ(Item<std::uint8_t>(qos, 0, 0) & 3, 2);
  EXPECT_EQ(Item<std::int32_t>(qos, 1, 1), 1);
  EXPECT_EQ(array.children[5]->null_count, 2);  // client_id
  const ArrowArray& type = *array.children[8];
  EXPECT_EQ(Item<std::int32_t>(type, 1, 1), 0);
  EXPECT_EQ(std::string(static_cast<const char*>(type.buffers[2]), 10), "text/plain");
  const ArrowArray& users = *array.children[11];
  EXPECT_EQ(Item<std::int32_t>(users, 1, 1), 0);
  EXPECT_EQ(Item<std::int32_t>(users, 1, 2), 2);
  EXPECT_EQ(users.children[0]->length, 2);
  EXPECT_EQ(Item<std::int64_t>(*array.children[13], 1, 1), 6);  // the timestamp

  // A column may be moved out and live on.
  ArrowArray moved = *array.children[8];
  array.children[8]->release = nullptr;
  array.release(&array);
  EXPECT_EQ(std::string(static_cast<const char*>(moved.buffers[2]), 10), "text/plain");
  moved.release(&moved);
}

TEST(ArrowExport, ValuesOfAStreamAreOfTheFormThatIsAskedFor) {
  const TestDirectory directory;
  auto database = Database::Open(directory / "db", {}).value();
  const auto stored = BatchWithProperties();
  const std::vector<MessageView> messages{stored->message(0), stored->message(1)};
  ASSERT_TRUE(database->Append(messages).ok());
  for (const ValueForm form : {ValueForm::kStored, ValueForm::kPayload, ValueForm::kProperties}) {
    ArrowArrayStream stream;
    ExportStream(database->NewScan(Filter::Parse("#").value(), {}).value(), {}, form, &stream);
    ArrowSchema schema;
    ASSERT_EQ(stream.get_schema(&stream, &schema), 0);
    ArrowArray array;
    ASSERT_EQ(stream.get_next(&stream, &array), 0);
    EXPECT_EQ(array.n_children, schema.n_children);
    EXPECT_EQ(array.n_children, form == ValueForm::kProperties ? 14 : 3);
    const ArrowArray& values = *array.children[2];
    const auto size = static_cast<std::size_t>(Item<std::int32_t>(values, 1, 2) -
                                               Item<std::int32_t>(values, 1, 1));
    EXPECT_EQ(size, form == ValueForm::kStored ? messages[1].value.size() : 4U);
    array.release(&array);
    schema.release(&schema);
    stream.release(&stream);
  }
}

TEST(ArrowExport, AStreamEndsWithAReleasedArrayAndTellsItsError) {
  const TestDirectory directory;
  auto database = Database::Open(directory / "db", {}).value();
  const std::vector<MessageView> messages{{"a", 1, "1"}, {"a", 2, "2"}, {"a", 3, "3"}};
  ASSERT_TRUE(database->Append(messages).ok());
  const auto stream_of = [&](ArrowArrayStream* out) {
    ExportStream(database->NewScan(Filter::Parse("#").value(), {}).value(), {2},
                 ValueForm::kPayload, out);
  };

  ArrowArrayStream stream;
  stream_of(&stream);
  std::int64_t rows = 0;
  while (true) {
    ArrowArray array;
    ASSERT_EQ(stream.get_next(&stream, &array), 0);
    if (array.release == nullptr) break;
    rows += array.length;
    array.release(&array);
  }
  EXPECT_EQ(rows, 3);
  EXPECT_EQ(stream.get_last_error(&stream), nullptr);
  stream.release(&stream);

  stream_of(&stream);
  ASSERT_TRUE(database->Close().ok());
  ArrowArray array;
  EXPECT_NE(stream.get_next(&stream, &array), 0);
  EXPECT_NE(std::string(stream.get_last_error(&stream)).find("closed"), std::string::npos);
  stream.release(&stream);
}

// A record batch of three columns that borrows its bytes from its arguments.
class ImportedBatch {
 public:
  ImportedBatch() {
    const char* const names[] = {"topic", "timestamp", "value"};
    const char* const formats[] = {"u", "tsu:UTC", "z"};
    for (std::size_t i = 0; i < 3; ++i) {
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
  // bits: a set one is a value, from the lowest
  void SetValidity(std::size_t i, const std::uint8_t* bits) {
    buffers_[i][0] = bits;
    arrays_[i].null_count = -1;  // not counted
  }

  Status Import(std::vector<MessageView>* out, std::size_t first_row = 0) {
    TOPICDB_ASSIGN_OR_RETURN(const ArrowMessages messages, ArrowMessages::Make(schema_));
    return messages.Append(array_, first_row, out);
  }
  std::string Refusal(std::size_t first_row = 0) {
    std::vector<MessageView> out;
    const Status status = Import(&out, first_row);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message();
  }

 private:
  std::int32_t offsets_[4] = {0, 1, 2, 3};
  std::int64_t times_[3] = {10, 20, 30};
  const void* buffers_[3][3] = {};
  const void* no_nulls_ = nullptr;
  ArrowSchema schemas_[3] = {};
  ArrowSchema* schema_pointers_[3] = {};
  ArrowSchema schema_ = {};
  ArrowArray arrays_[3] = {};
  ArrowArray* array_pointers_[3] = {};
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
  negative.times()[2] = -1;  // not taken for "assign one"
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
