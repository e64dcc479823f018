#include "arrow/arrow_bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace topicdb {
namespace {

constexpr const char* kLong = "longer than the twelve bytes of a view";

// An Arrow array and its schema. The array borrows the buffers that SetBuffers is given.
struct Column {
  explicit Column(const char* format) { schema.format = format; }
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;

  void SetBuffers(std::int64_t length, std::vector<const void*> wanted) {
    buffers = std::move(wanted);
    array.length = length;
    array.buffers = buffers.data();
    array.n_buffers = static_cast<std::int64_t>(buffers.size());
    array.null_count = buffers.empty() || buffers[0] == nullptr ? 0 : -1;
  }

  ArrowSchema schema{};
  ArrowArray array{};
  std::vector<const void*> buffers;
};

// Returns the rows as text: "-" for null, and "! why" for a row that cannot be read. If the column
// cannot be read at all, returns only the reason.
std::vector<std::string> Rows(const Column& column) {
  const auto type = ArrowBytesType::Of(column.schema);
  if (!type.has_value()) return {"no bytes"};
  auto reader = ArrowBytesReader::Make(*type, column.array);
  if (!reader.ok()) return {reader.status().message()};
  std::vector<std::string> rows;
  for (std::size_t row = 0; row < reader->length(); ++row) {
    std::optional<std::string_view> bytes;
    if (const char* why = reader->Read(row, &bytes)) {
      rows.push_back(std::string("! ") + why);
    } else {
      rows.push_back(bytes.has_value() ? std::string(*bytes) : "-");
    }
  }
  return rows;
}

using Texts = std::vector<std::string>;

const std::int32_t kOffsets[] = {0, 1, 1, 3};
const std::uint8_t kAllButTheSecond = 0b101;

class Abc : public Column {
 public:
  explicit Abc(const char* format = "u") : Column(format) {
    SetBuffers(3, {nullptr, kOffsets, "abc"});
  }
};

struct View {
  std::int32_t length = 0;
  char prefix[4] = {};
  std::int32_t buffer = 0;
  std::int32_t begin = 0;
};

View ViewOf(const std::string& text, std::int32_t buffer = 0, std::int32_t begin = 0) {
  View view;
  view.length = static_cast<std::int32_t>(text.size());
  if (text.size() <= 12) {
    std::memcpy(&view.prefix, text.data(), text.size());
  } else {
    std::memcpy(&view.prefix, text.data(), 4);
    view.buffer = buffer;
    view.begin = begin;
  }
  return view;
}

TEST(ArrowBytes, OffsetsOf32And64Bits) {
  EXPECT_EQ(Rows(Abc()), (Texts{"a", "", "bc"}));
  const std::int64_t offsets[] = {0, 1, 1, 3};
  Column large("Z");
  large.SetBuffers(3, {&kAllButTheSecond, offsets, "abc"});
  EXPECT_EQ(Rows(large), (Texts{"a", "-", "bc"}));
  large.array.offset = 1;
  large.array.length = 2;
  EXPECT_EQ(Rows(large), (Texts{"-", "bc"}));
}

TEST(ArrowBytes, Views) {
  const std::string other = "x" + std::string(kLong);
  const View views[] = {ViewOf("exactly12345"), ViewOf(kLong), ViewOf(""), ViewOf(kLong, 1, 1)};
  const std::int64_t sizes[] = {static_cast<std::int64_t>(std::strlen(kLong)),
                                static_cast<std::int64_t>(other.size())};
  Column column("vu");
  column.SetBuffers(4, {nullptr, views, kLong, other.data(), sizes});
  EXPECT_EQ(Rows(column), (Texts{"exactly12345", kLong, "", kLong}));
  Column without_buffers("vz");
  without_buffers.SetBuffers(1, {nullptr, views, nullptr});
  EXPECT_EQ(Rows(without_buffers), (Texts{"exactly12345"}));
}

TEST(ArrowBytes, FixedSize) {
  Column column("w:2");
  column.SetBuffers(3, {&kAllButTheSecond, "aabbcc"});
  EXPECT_EQ(Rows(column), (Texts{"aa", "-", "cc"}));
  Column empty("w:0");
  empty.SetBuffers(2, {nullptr, nullptr});
  EXPECT_EQ(Rows(empty), (Texts{"", ""}));
}

template <typename Index>
Texts ThroughDictionary(const char* format, std::array<Index, 3> indexes) {
  Abc values;
  Column column(format);
  column.schema.dictionary = &values.schema;
  column.array.dictionary = &values.array;
  column.SetBuffers(3, {nullptr, indexes.data()});
  return Rows(column);
}

TEST(ArrowBytes, DictionariesWithEveryKindOfIndex) {
  const Texts expected{"bc", "a", "bc"};
  EXPECT_EQ(ThroughDictionary<std::int8_t>("c", {2, 0, 2}), expected);
  EXPECT_EQ(ThroughDictionary<std::uint8_t>("C", {2, 0, 2}), expected);
  EXPECT_EQ(ThroughDictionary<std::int16_t>("s", {2, 0, 2}), expected);
  EXPECT_EQ(ThroughDictionary<std::uint16_t>("S", {2, 0, 2}), expected);
  EXPECT_EQ(ThroughDictionary<std::int32_t>("i", {2, 0, 2}), expected);
  EXPECT_EQ(ThroughDictionary<std::uint32_t>("I", {2, 0, 2}), expected);
  EXPECT_EQ(ThroughDictionary<std::int64_t>("l", {2, 0, 2}), expected);
  EXPECT_EQ(ThroughDictionary<std::uint64_t>("L", {2, 0, 2}), expected);
  EXPECT_EQ(ThroughDictionary<std::int32_t>("g", {2, 0, 2}), Texts{"no bytes"});
}

TEST(ArrowBytes, NullsOfADictionaryAndOfItsIndexes) {
  Abc values;
  values.SetBuffers(3, {&kAllButTheSecond, kOffsets, "abc"});
  const std::int32_t indexes[] = {1, 2, 0};
  Column column("i");
  column.schema.dictionary = &values.schema;
  column.array.dictionary = &values.array;
  column.SetBuffers(3, {&kAllButTheSecond, indexes});
  EXPECT_EQ(Rows(column), (Texts{"-", "-", "a"}));
}

// A run-end encoded column over another one: its first row three times, its second once, its third
// twice.
class Runs : public Column {
 public:
  explicit Runs(Column* values) : Column("+r"), ends_("i") {
    ends_.SetBuffers(3, {nullptr, kEnds});
    schema_children_ = {&ends_.schema, &values->schema};
    array_children_ = {&ends_.array, &values->array};
    schema.n_children = array.n_children = 2;
    schema.children = schema_children_.data();
    array.children = array_children_.data();
    SetBuffers(6, {});
  }
  ArrowArray& ends() { return ends_.array; }

 private:
  static constexpr std::int32_t kEnds[] = {3, 4, 6};
  Column ends_;
  std::array<ArrowSchema*, 2> schema_children_{};
  std::array<ArrowArray*, 2> array_children_{};
};

TEST(ArrowBytes, RunEnds) {
  Abc values;
  values.SetBuffers(3, {&kAllButTheSecond, kOffsets, "abc"});
  Runs runs(&values);
  EXPECT_EQ(Rows(runs), (Texts{"a", "a", "a", "-", "bc", "bc"}));
  runs.array.offset = 2;
  runs.array.length = 4;
  EXPECT_EQ(Rows(runs), (Texts{"a", "-", "bc", "bc"}));
}

TEST(ArrowBytes, RunsAreFoundInAnyOrder) {
  Abc values;
  Runs runs(&values);
  const ArrowBytesType type = ArrowBytesType::Of(runs.schema).value();
  auto reader = ArrowBytesReader::Make(type, runs.array);
  ASSERT_TRUE(reader.ok());
  const char* const expected[] = {"a", "a", "a", "", "bc", "bc"};
  for (const std::size_t row : {5, 0, 4, 3, 2, 1, 5, 3}) {
    std::optional<std::string_view> bytes;
    ASSERT_EQ(reader->Read(row, &bytes), nullptr);
    EXPECT_EQ(bytes, expected[row]);
  }
}

TEST(ArrowBytes, RunsOfADictionary) {
  Abc words;
  const std::int8_t indexes[] = {2, 2, 0};
  Column column("c");
  column.schema.dictionary = &words.schema;
  column.array.dictionary = &words.array;
  column.SetBuffers(3, {nullptr, indexes});
  EXPECT_EQ(Rows(Runs(&column)), (Texts{"bc", "bc", "bc", "bc", "a", "a"}));
}

TEST(ArrowBytes, TellsTextFromBytes) {
  for (const char* format : {"u", "U", "vu"}) {
    EXPECT_TRUE(ArrowBytesType::Of(Column(format).schema)->is_text) << format;
  }
  for (const char* format : {"z", "Z", "vz", "w:3"}) {
    EXPECT_FALSE(ArrowBytesType::Of(Column(format).schema)->is_text) << format;
  }
  for (const char* format : {"", "l", "+s", "+r", "w:", "w:x", "w:-1", "w:99999999999999999999"}) {
    EXPECT_FALSE(ArrowBytesType::Of(Column(format).schema).has_value()) << format;
  }
}

// From here on: the reader reports what an array says wrongly of itself, and never follows it.

TEST(ArrowBytes, OffsetsThatGoBackwardsAreRefused) {
  const std::int32_t backwards[] = {2, 1, 1, -5};
  Column column("z");
  column.SetBuffers(3, {nullptr, backwards, "abc"});
  EXPECT_EQ(Rows(column), (Texts{"! its offsets in the Arrow array go backwards", "",
                                 "! its offsets in the Arrow array go backwards"}));
  const std::int32_t two[] = {0, 1};
  column.SetBuffers(1, {nullptr, two, nullptr});
  EXPECT_EQ(Rows(column), Texts{"! the Arrow array has no bytes for it"});
}

TEST(ArrowBytes, ViewsOutsideTheirBuffersAreRefused) {
  View views[] = {ViewOf(kLong, 1), ViewOf(kLong, -1), ViewOf(kLong, 0, 1), ViewOf(kLong, 0, -1),
                  ViewOf("a")};
  views[4].length = -1;
  const std::int64_t size = static_cast<std::int64_t>(std::strlen(kLong));
  Column column("vz");
  column.SetBuffers(5, {nullptr, views, kLong, &size});
  const std::string missing = "! it is in a buffer that the Arrow array does not have";
  const std::string past = "! it passes the end of its buffer in the Arrow array";
  EXPECT_EQ(Rows(column),
            (Texts{missing, missing, past, past, "! its length in the Arrow array is negative"}));
}

TEST(ArrowBytes, IndexesOutsideTheirDictionaryAreRefused) {
  const std::string why = "! its index passes the end of the Arrow array's dictionary";
  EXPECT_EQ(ThroughDictionary<std::int32_t>("i", {3, -1, 0}), (Texts{why, why, "a"}));
  EXPECT_EQ(ThroughDictionary<std::uint64_t>("L", {UINT64_MAX, 1ULL << 63U, 3}),
            (Texts{why, why, why}));
}

TEST(ArrowBytes, RowsBehindTheLastRunAreRefused) {
  Abc values;
  Runs runs(&values);
  const std::string why = "! it is behind the last run of the Arrow array";
  runs.ends().length = 2;
  EXPECT_EQ(Rows(runs), (Texts{"a", "a", "a", "", why, why}));
  runs.ends().length = 3;
  values.array.length = 1;
  EXPECT_EQ(Rows(runs), (Texts{"a", "a", "a", why, why, why}));
}

TEST(ArrowBytes, ArraysWithoutTheirPartsAreRefused) {
  const auto refusal = [](const Column& column) { return Rows(column).at(0); };
  const std::string start = "an Arrow array is not as its schema says: ";
  Abc plain;
  plain.array.n_buffers = 2;
  EXPECT_EQ(refusal(plain), start + "buffers are missing");
  plain.SetBuffers(3, {nullptr, nullptr, "abc"});
  EXPECT_EQ(refusal(plain), start + "the buffer of its rows is missing");
  plain.array.length = -1;
  EXPECT_EQ(refusal(plain), start + "its length or offset is not possible");
  plain.array.length = plain.array.offset = INT64_MAX;
  EXPECT_EQ(refusal(plain), start + "its length or offset is not possible");
  const std::int32_t indexes[] = {0};
  Column dictionary("i");
  dictionary.schema.dictionary = &plain.schema;
  dictionary.SetBuffers(1, {nullptr, indexes});
  EXPECT_EQ(refusal(dictionary), start + "its dictionary is missing");
  Abc values;
  Runs runs(&values);
  runs.array.n_children = 1;
  EXPECT_EQ(refusal(runs), start + "it has no runs");
  const View view = ViewOf(kLong);
  Column views("vu");
  views.SetBuffers(1, {nullptr, &view, kLong, nullptr});
  EXPECT_EQ(refusal(views), start + "the sizes of its buffers are missing");
}

}  // namespace
}  // namespace topicdb
