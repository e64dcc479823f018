// Messages as Arrow data. Uses the C data interface alone, so no Arrow library is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/arrow_abi.h"
#include "topicdb/envelope.h"
#include "topicdb/message.h"
#include "topicdb/scan.h"
#include "topicdb/status.h"
#include "topicdb/types/read.h"

namespace topicdb {

// Some of the columns that messages have as Arrow data. Immutable.
class ArrowColumns {
 public:
  // All columns.
  ArrowColumns() = default;
  // The columns with these names, in whatever order. Columns of properties count as well. Returns
  // kInvalidArgument, which lists the columns that there are, for any other name.
  static Result<ArrowColumns> Of(const std::vector<std::string>& names);

  // Returns whether the column with this number is one of them. Columns of properties follow topic,
  // timestamp and value.
  bool Has(std::size_t column) const { return ((bits_ >> column) & 1U) != 0; }
  // Returns whether the values of messages are needed for any of them.
  bool NeedValues() const { return (bits_ >> kKeyColumns) != 0; }
  // Returns whether the topics of messages are needed.
  bool NeedTopics() const { return Has(0); }

 private:
  static constexpr std::size_t kKeyColumns = 2;  // topic and timestamp
  explicit ArrowColumns(std::uint32_t bits) : bits_(bits) {}

  std::uint32_t bits_ = ~std::uint32_t{0};
};

// Writes the schema struct<topic: string, timestamp: timestamp[us, UTC], value: binary> to `out`,
// or those of the columns that `columns` has. None of these columns is nullable. With
// ValueForm::kProperties the schema also has the columns of docs/concepts/properties.md, which are
// null where a message has no such property. If the messages leave out missing shards, the metadata
// has their numbers: "topicdb.missing_shards", such as "1,3". The caller must release `out`.
void ExportSchema(ArrowSchema* out, ValueForm form = ValueForm::kStored,
                  const MissingReasons& missing = {}, const ArrowColumns& columns = {});
// Writes an array of structs to `out`, with a column for topic, timestamp and value. The columns
// point into the batch, and keep it alive until they are released, which any thread may do. The
// caller must release `out`.
void ExportBatch(std::shared_ptr<const Batch> batch, ArrowArray* out);
// As above, with those of the columns that `columns` has. Unless `stored` is null, `out` also has
// the columns of the properties that its values have.
// REQUIRES: `stored` has the messages of `batch`, as they are stored
void ExportBatch(const std::shared_ptr<const Batch>& batch,
                 const std::shared_ptr<const Batch>& stored, ArrowArray* out,
                 const ArrowColumns& columns = {});
// Writes a stream to `out` that gives these columns of the rest of the scan, in batches within
// `limits`. Any thread may call the stream, but only one at a time. The caller must release `out`.
void ExportStream(std::shared_ptr<Scan> scan, const PageLimits& limits, ValueForm form,
                  ArrowArrayStream* out, const ArrowColumns& columns = {});

struct ArrowBytesType;

// Turns Arrow data into messages for Database::Append. Finds columns by name: topic (strings),
// timestamp (a timestamp of any unit with a zone, or int64 µs; null: assigned at commit), value
// (binary or strings) and key (the same; null: none). Strings and binary may be in any of Arrow's
// encodings: plain, large, views, fixed size, dictionaries, run ends. Refuses other columns, and
// nulls in topic and value. Immutable once made, so threads may call Append at the same time for
// different `out`.
class ArrowMessages {
 public:
  // Copies what it needs of the schema, and neither keeps nor releases the schema. Returns
  // kInvalidArgument with the name of the column, the type it should have and the type it has.
  static Result<ArrowMessages> Make(const ArrowSchema& schema);

  // Returns whether there is a column of keys.
  bool has_keys() const { return key_.has_value(); }
  // Adds views of the array's messages to `out`, and those of their keys to `keys` if there is such
  // a column. The views live as long as the array. Returns kInvalidArgument with the number of the
  // row, counted from `first_row`.
  Status Append(const ArrowArray& array, std::size_t first_row, std::vector<MessageView>* out,
                std::vector<std::optional<std::string_view>>* keys) const;

 private:
  // Where a column of strings is in an array, and how it encodes its rows.
  struct Column {
    std::size_t index = 0;
    std::shared_ptr<const ArrowBytesType> type;
  };
  // Where the column of timestamps is in an array, and its unit.
  struct TimeColumn {
    std::size_t index = 0;
    std::int64_t multiply = 1;  // multiply and divide turn its numbers into µs
    std::int64_t divide = 1;
  };

  // Adds the keys of the array's messages to `keys`.
  Status AppendKeys(const ArrowArray& array, std::size_t first_row,
                    std::vector<std::optional<std::string_view>>* keys) const;

  Column topic_;
  Column value_;
  std::optional<Column> key_;            // absent: no message has a key
  std::optional<TimeColumn> timestamp_;  // absent: every timestamp is assigned at commit
  std::size_t columns_ = 0;
};

}  // namespace topicdb
