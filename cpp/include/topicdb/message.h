// Messages going in (views) and coming out (batches of columns).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topicdb/options.h"

namespace topicdb {

// A timestamp to be assigned at commit: unique and increasing within the shard.
inline constexpr std::int64_t kAssignTimestamp = -1;

// MQTT's own limit of a payload (268,435,455 bytes, MQTT 5 section 1.5.5).
inline constexpr std::size_t kValueBytesMax = 268'435'455;

// One message handed to Database::Append. Borrows its bytes for the call.
struct MessageView {
  std::string_view topic;
  std::int64_t timestamp;  // µs since the epoch, 0 <= t < 2^63, or kAssignTimestamp
  std::string_view value;
};

// What an append reached.
struct Receipt {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> serials;  // (shard, serial), by shard
  std::uint64_t count = 0;                                       // messages
  Durability durability = Durability::kOs;
};

// Messages as columns, laid out so that Arrow arrays can point into them: n + 1 offsets of 32 bits
// and one run of bytes for each variable-length column.
//
// Filled by one thread, then only read (from any thread). Bytes of a column never exceed 2^31 - 1:
// who fills it asks Fits() first.
class Batch {
 public:
  static constexpr std::size_t kColumnBytesMax = 0x7fffffff;

  std::size_t size() const { return timestamps_.size(); }
  bool empty() const { return timestamps_.empty(); }
  std::size_t bytes() const { return topic_bytes_.size() + value_bytes_.size() + 16 * size(); }

  // REQUIRES: row < size()
  std::string_view topic(std::size_t row) const { return Slice(topic_bytes_, topic_offsets_, row); }
  std::int64_t timestamp(std::size_t row) const { return timestamps_[row]; }
  std::string_view value(std::size_t row) const { return Slice(value_bytes_, value_offsets_, row); }
  MessageView message(std::size_t row) const { return {topic(row), timestamp(row), value(row)}; }

  const std::vector<std::int32_t>& topic_offsets() const { return topic_offsets_; }
  const std::string& topic_bytes() const { return topic_bytes_; }
  const std::vector<std::int64_t>& timestamps() const { return timestamps_; }
  const std::vector<std::int32_t>& value_offsets() const { return value_offsets_; }
  const std::string& value_bytes() const { return value_bytes_; }

  // Whether one more message of these sizes keeps every column within kColumnBytesMax.
  bool Fits(std::size_t topic_bytes, std::size_t value_bytes) const {
    return topic_bytes_.size() + topic_bytes <= kColumnBytesMax &&
           value_bytes_.size() + value_bytes <= kColumnBytesMax;
  }

  // REQUIRES: Fits(message.topic.size(), message.value.size())
  void Append(const MessageView& message);

  // The parts of a topic are appended one by one: AppendTopicBytes*, then FinishRow.
  void AppendTopicBytes(std::string_view bytes) { topic_bytes_.append(bytes); }
  void FinishRow(std::int64_t timestamp, std::string_view value);

 private:
  static std::string_view Slice(const std::string& bytes, const std::vector<std::int32_t>& offsets,
                                std::size_t row) {
    const auto begin = static_cast<std::size_t>(offsets[row]);
    const auto end = static_cast<std::size_t>(offsets[row + 1]);
    return std::string_view(bytes).substr(begin, end - begin);
  }

  std::vector<std::int32_t> topic_offsets_{0};
  std::string topic_bytes_;
  std::vector<std::int64_t> timestamps_;
  std::vector<std::int32_t> value_offsets_{0};
  std::string value_bytes_;
};

}  // namespace topicdb
