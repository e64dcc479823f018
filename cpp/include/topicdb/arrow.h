// Messages as Arrow data, by the C data interface alone: no Arrow library is needed.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "topicdb/arrow_abi.h"
#include "topicdb/envelope.h"
#include "topicdb/message.h"
#include "topicdb/types/read.h"
#include "topicdb/scan.h"
#include "topicdb/status.h"

namespace topicdb {

// struct<topic: string, timestamp: timestamp[us, UTC], value: binary>, none of them nullable; with
// ValueForm::kProperties also the columns of docs/properties.md, which are null where a message has
// no such property. `out` must be released by who gets it.
void ExportSchema(ArrowSchema* out, ValueForm form = ValueForm::kStored);
// Arrays that point into the batch and keep it alive until they are released (from any thread).
void ExportBatch(std::shared_ptr<const Batch> batch, ArrowArray* out);
// The same; unless `stored` is null also the columns of the properties that its values have. Its
// messages are those of `batch`, as they are stored.
void ExportBatch(const std::shared_ptr<const Batch>& batch,
                 const std::shared_ptr<const Batch>& stored, ArrowArray* out);
// A stream over the rest of a scan. Its calls may come from any thread, one at a time.
void ExportStream(std::shared_ptr<Scan> scan, const PageLimits& limits, ValueForm form,
                  ArrowArrayStream* out);

struct ArrowBytesType;

// Messages of Arrow data, for Database::Append. Columns are found by name: topic (strings),
// timestamp (timestamp of any unit with a zone, int64 µs; null: assigned at commit) and value
// (binary or strings). Strings and binary may be in any of Arrow's encodings: plain, large, views,
// fixed size, dictionaries, run ends. Other columns are refused, and so are nulls in topic and
// value.
class ArrowMessages {
 public:
  // Takes the schema's facts; does not keep or release it. kInvalidArgument names the column, what
  // it should be and what it is.
  static Result<ArrowMessages> Make(const ArrowSchema& schema);

  // Adds views of the array's messages to `out`; they live as long as the array.
  // kInvalidArgument names the row (counted from `first_row`).
  Status Append(const ArrowArray& array, std::size_t first_row,
                std::vector<MessageView>* out) const;

 private:
  struct Column {
    std::size_t index = 0;
    std::shared_ptr<const ArrowBytesType> type;
  };
  struct TimeColumn {
    std::size_t index = 0;
    std::int64_t multiply = 1;  // to µs
    std::int64_t divide = 1;
  };

  Column topic_;
  Column value_;
  std::optional<TimeColumn> timestamp_;  // absent: every timestamp is assigned
  std::size_t columns_ = 0;
};

}  // namespace topicdb
