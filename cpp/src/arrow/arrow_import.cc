#include <string_view>

#include "topicdb/arrow.h"

namespace topicdb {

namespace {

bool IsNull(const ArrowArray& array, std::size_t row) {
  if (array.null_count == 0 || array.buffers[0] == nullptr) return false;
  const auto* bits = static_cast<const std::uint8_t*>(array.buffers[0]);
  return (bits[row / 8] >> (row % 8) & 1) == 0;
}

template <typename Offset>
std::string_view BytesAt(const ArrowArray& array, std::size_t row) {
  const auto* offsets = static_cast<const Offset*>(array.buffers[1]);
  const auto begin = static_cast<std::size_t>(offsets[row]);
  const auto size = static_cast<std::size_t>(offsets[row + 1]) - begin;
  if (size == 0) return "";
  return {static_cast<const char*>(array.buffers[2]) + begin, size};
}

Status WrongType(const std::string& column, const char* expected, const ArrowSchema& found) {
  std::string type = std::string("Arrow format '") + found.format + "'";
  if (found.dictionary != nullptr) type = "a dictionary of " + type;
  return InvalidArgument("column '" + column + "': expected " + expected + ", got " + type);
}

// 'tsu:UTC' and the like: multiplies or divides to µs; false if it is no such type.
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
    const bool plain = child.dictionary == nullptr;
    const bool duplicate = (name == "topic" && has_topic) || (name == "value" && has_value) ||
                           (name == "timestamp" && result.timestamp_.has_value());
    if (duplicate) return InvalidArgument("column '" + name + "' is there twice");
    if (name == "topic") {
      if (!plain || (format != "u" && format != "U")) {
        return WrongType(name, "string or large_string", child);
      }
      result.topic_ = {i, format == "U"};
      has_topic = true;
    } else if (name == "value") {
      const bool large = format == "U" || format == "Z";
      if (!plain || (format != "u" && format != "z" && !large)) {
        return WrongType(name, "binary, string or a large one of them", child);
      }
      result.value_ = {i, large};
      has_value = true;
    } else if (name == "timestamp") {
      TimeColumn column;
      column.index = i;
      if (!plain || !TimestampScale(format, &column.multiply, &column.divide)) {
        return WrongType(name, "a timestamp with a time zone, or int64 microseconds", child);
      }
      result.timestamp_ = column;
    } else {
      return InvalidArgument("column '" + name +
                             "' is unknown: expected topic, timestamp and value");
    }
  }
  if (!has_topic) return InvalidArgument("column 'topic' is missing");
  if (!has_value) return InvalidArgument("column 'value' is missing");
  return result;
}

Status ArrowMessages::Append(const ArrowArray& array, std::size_t first_row,
                             std::vector<MessageView>* out) const {
  if (static_cast<std::size_t>(array.n_children) != columns_) {
    return InvalidArgument("an Arrow array does not have the columns of its schema");
  }
  const ArrowArray& topics = *array.children[topic_.index];
  const ArrowArray& values = *array.children[value_.index];
  const auto base = static_cast<std::size_t>(array.offset);
  const auto length = static_cast<std::size_t>(array.length);
  const auto fault = [&](std::size_t row, const std::string& what) {
    return InvalidArgument("row " + std::to_string(first_row + row) + ": " + what);
  };
  for (std::size_t row = 0; row < length; ++row) {
    const std::size_t topic_row = base + row + static_cast<std::size_t>(topics.offset);
    const std::size_t value_row = base + row + static_cast<std::size_t>(values.offset);
    if (IsNull(array, base + row)) return fault(row, "the row is null");
    if (IsNull(topics, topic_row)) return fault(row, "topic is null");
    if (IsNull(values, value_row)) return fault(row, "value is null");
    MessageView message;
    message.topic = topic_.large ? BytesAt<std::int64_t>(topics, topic_row)
                                 : BytesAt<std::int32_t>(topics, topic_row);
    message.value = value_.large ? BytesAt<std::int64_t>(values, value_row)
                                 : BytesAt<std::int32_t>(values, value_row);
    message.timestamp = kAssignTimestamp;
    if (timestamp_.has_value()) {
      const ArrowArray& times = *array.children[timestamp_->index];
      const std::size_t time_row = base + row + static_cast<std::size_t>(times.offset);
      if (!IsNull(times, time_row)) {
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
  return Status::Ok();
}

}  // namespace topicdb
