// Tests the arrays and schemas that Arrow's C interfaces export. The tests in Python read them with
// pyarrow.

#include "topicdb/arrow.h"

#include <gtest/gtest.h>

#include "test_directory.h"
#include "topicdb/database.h"

namespace topicdb {
namespace {

std::shared_ptr<const Batch> ExampleBatch() {
  auto batch = std::make_shared<Batch>();
  batch->Append({"a/b", 5, "value"}, kNoSerial);
  batch->Append({"c", 6, ""}, kNoSerial);
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
  batch->Append({"a", 5, "plain"}, kNoSerial);
  batch->Append({"b", 6, envelope.Encode()}, kNoSerial);
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

  // A column that a consumer moves out lives on.
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

TEST(ArrowExport, HasTheColumnsThatWereChosen) {
  EXPECT_EQ(ArrowColumns::Of({"topic", "size"}).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(ArrowColumns().NeedValues());
  const ArrowColumns keys = ArrowColumns::Of({"timestamp", "topic"}).value();
  EXPECT_FALSE(keys.NeedValues());
  EXPECT_FALSE(ArrowColumns::Of({}).value().NeedValues());
  EXPECT_TRUE(ArrowColumns::Of({"topic", "qos"}).value().NeedValues());
  ArrowSchema schema;
  ExportSchema(&schema, ValueForm::kProperties, {}, keys);
  ASSERT_EQ(schema.n_children, 2);
  EXPECT_STREQ(schema.children[0]->name, "topic") << "in the order of the schema";
  EXPECT_STREQ(schema.children[1]->name, "timestamp");
  schema.release(&schema);

  const auto stored = BatchWithProperties();
  const ArrowColumns some = ArrowColumns::Of({"qos", "value"}).value();
  ArrowArray array;
  ExportBatch(PayloadsOf(stored), stored, &array, some);
  ASSERT_EQ(array.n_children, 2);
  EXPECT_EQ(array.length, 2);
  EXPECT_EQ(array.children[0]->n_buffers, 3) << "the values";
  EXPECT_EQ(array.children[1]->n_buffers, 2) << "numbers";
  array.release(&array);
  ExportSchema(&schema, ValueForm::kProperties, {}, some);
  ASSERT_EQ(schema.n_children, 2);
  EXPECT_STREQ(schema.children[0]->name, "value");
  EXPECT_STREQ(schema.children[1]->name, "qos");
  schema.release(&schema);
  ExportBatch(ExampleBatch(), nullptr, &array, ArrowColumns::Of({}).value());
  EXPECT_EQ(array.n_children, 0);
  EXPECT_EQ(array.length, 2);
  array.release(&array);
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

}  // namespace
}  // namespace topicdb
