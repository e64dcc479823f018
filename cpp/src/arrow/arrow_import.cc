#include <optional>
#include <string_view>

#include "arrow/arrow_bytes.h"
#include "topicdb/arrow.h"

namespace topicdb {

namespace {

// Returns the error for a column that has the wrong type.
Status WrongType(const std::string& column, const char* expected, const ArrowSchema& found) {
  std::string type = std::string("Arrow format '") + found.format + "'";
  if (found.dictionary != nullptr) type = "a dictionary with indexes of " + type;
  return InvalidArgument("column '" + column + "': expected " + expected + ", got " + type);
}

// Sets by what the numbers of a timestamp column, such as 'tsu:UTC', are multiplied or divided to
// be µs. Returns false if the format is not one of a timestamp.
bool TimestampScale(std::string_view format, std::int64_t* multiply, std::int64_t* divide) {
  *multiply = *divide = 1;
  if (format == "l") return true;  // int64: µs
  if (!format.starts_with("ts") || format.size() < 5 || format[3] != ':') return false;
  switch (format[2]) {
    case 's':
      *multiply = 1'000'000;
      return true;
    case 'm':
      *multiply = 1'000;
      return true;
    case 'u':
      return true;
    case 'n':
      *divide = 1'000;
      return true;
    default:
      return false;
  }
}

// Returns how a column of strings or bytes encodes its rows, or null if it is another column.
std::shared_ptr<const ArrowBytesType> BytesTypeOf(const ArrowSchema& schema) {
  std::optional<ArrowBytesType> type = ArrowBytesType::Of(schema);
  if (!type.has_value()) return nullptr;
  return std::make_shared<const ArrowBytesType>(*std::move(type));
}

}  // namespace

Result<ArrowMessages> ArrowMessages::Make(const ArrowSchema& schema) {
  if (std::string_view(schema.format) != "+s") {
    return InvalidArgument(
        "expected Arrow data with columns (a table or record batch), got a single array");
  }
  ArrowMessages result;
  result.columns_ = static_cast<std::size_t>(schema.n_children);
  bool has_topic = false;
  bool has_value = false;
  for (std::size_t i = 0; i < result.columns_; ++i) {
    const ArrowSchema& child = *schema.children[i];
    const std::string name = child.name == nullptr ? "" : child.name;
    const std::string_view format = child.format;
    const bool duplicate = (name == "topic" && has_topic) || (name == "value" && has_value) ||
                           (name == "key" && result.key_.has_value()) ||
                           (name == "timestamp" && result.timestamp_.has_value());
    if (duplicate) return InvalidArgument("column '" + name + "' is there twice");
    if (name == "topic") {
      result.topic_ = {i, BytesTypeOf(child)};
      if (result.topic_.type == nullptr || !result.topic_.type->is_text) {
        return WrongType(name, "strings, in any of Arrow's encodings", child);
      }
      has_topic = true;
    } else if (name == "value") {
      result.value_ = {i, BytesTypeOf(child)};
      if (result.value_.type == nullptr) {
        return WrongType(name, "binary or strings, in any of Arrow's encodings", child);
      }
      has_value = true;
    } else if (name == "key") {
      result.key_ = Column{i, BytesTypeOf(child)};
      if (result.key_->type == nullptr) {
        return WrongType(name, "strings or binary, in any of Arrow's encodings", child);
      }
    } else if (name == "timestamp") {
      TimeColumn column;
      column.index = i;
      if (child.dictionary != nullptr ||
          !TimestampScale(format, &column.multiply, &column.divide)) {
        return WrongType(name, "a timestamp with a time zone, or int64 microseconds", child);
      }
      result.timestamp_ = column;
    } else {
      return InvalidArgument("column '" + name +
                             "' is unknown: expected topic, timestamp, value and key");
    }
  }
  if (!has_topic) return InvalidArgument("column 'topic' is missing");
  if (!has_value) return InvalidArgument("column 'value' is missing");
  return result;
}

Status ArrowMessages::AppendKeys(const ArrowArray& array, std::size_t first_row,
                                 std::vector<std::optional<std::string_view>>* keys) const {
  TOPICDB_ASSIGN_OR_RETURN(ArrowBytesReader reader,
                           ArrowBytesReader::Make(*key_->type, *array.children[key_->index]));
  const auto base = static_cast<std::size_t>(array.offset);
  const auto length = static_cast<std::size_t>(array.length);
  if (base + length > reader.length()) {
    return InvalidArgument("an Arrow array has more rows than its keys");
  }
  std::optional<std::string_view> key;
  for (std::size_t row = 0; row < length; ++row) {
    if (const char* why = reader.Read(base + row, &key)) {
      return InvalidArgument("row " + std::to_string(first_row + row) + ": key: " + why);
    }
    keys->push_back(key);
  }
  return Status::Ok();
}

Status ArrowMessages::Append(const ArrowArray& array, std::size_t first_row,
                             std::vector<MessageView>* out,
                             std::vector<std::optional<std::string_view>>* keys) const {
  if (array.n_children < 0 || static_cast<std::size_t>(array.n_children) != columns_ ||
      array.children == nullptr) {
    return InvalidArgument("an Arrow array does not have the columns of its schema");
  }
  TOPICDB_ASSIGN_OR_RETURN(ArrowBytesReader topics,
                           ArrowBytesReader::Make(*topic_.type, *array.children[topic_.index]));
  TOPICDB_ASSIGN_OR_RETURN(ArrowBytesReader values,
                           ArrowBytesReader::Make(*value_.type, *array.children[value_.index]));
  const auto base = static_cast<std::size_t>(array.offset);
  const auto length = static_cast<std::size_t>(array.length);
  if (array.offset < 0 || array.length < 0 || base + length > topics.length() ||
      base + length > values.length()) {
    return InvalidArgument("an Arrow array has more rows than its columns");
  }
  if (timestamp_.has_value()) {
    const ArrowArray& times = *array.children[timestamp_->index];
    if (times.offset < 0 || times.n_buffers < 2 ||
        static_cast<std::int64_t>(base + length) > times.length ||
        (length > 0 && times.buffers[1] == nullptr)) {
      return InvalidArgument("an Arrow array has more rows than its timestamps");
    }
  }
  const auto fault = [&](std::size_t row, const std::string& what) {
    return InvalidArgument("row " + std::to_string(first_row + row) + ": " + what);
  };
  std::optional<std::string_view> topic;
  std::optional<std::string_view> value;
  for (std::size_t row = 0; row < length; ++row) {
    if (IsNullAt(array, base + row)) return fault(row, "the row is null");
    if (const char* why = topics.Read(base + row, &topic))
      return fault(row, std::string("topic: ") + why);
    if (const char* why = values.Read(base + row, &value))
      return fault(row, std::string("value: ") + why);
    if (!topic.has_value()) return fault(row, "topic is null");
    if (!value.has_value()) return fault(row, "value is null");
    MessageView message{*topic, kAssignTimestamp, *value};
    if (timestamp_.has_value()) {
      const ArrowArray& times = *array.children[timestamp_->index];
      const std::size_t time_row = base + row + static_cast<std::size_t>(times.offset);
      if (!IsNullAt(times, time_row)) {
        const std::int64_t raw = static_cast<const std::int64_t*>(times.buffers[1])[time_row];
        std::int64_t scaled = 0;
        if (raw < 0 || __builtin_mul_overflow(raw, timestamp_->multiply, &scaled)) {
          return fault(row, "timestamp " + std::to_string(raw) + " is outside 0 <= t < 2**63 µs");
        }
        message.timestamp = scaled / timestamp_->divide;
      }
    }
    out->push_back(message);
  }
  return key_.has_value() ? AppendKeys(array, first_row, keys) : Status::Ok();
}

}  // namespace topicdb
