// Messages going in (views) and coming out (batches of columns).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topicdb/byte_buffer.h"
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

// Place of a message among those that were committed to a shard: the commit, and its place in that.
struct CommitPlace {
  std::uint64_t serial = 0;
  std::uint32_t index = 0;
  auto operator<=>(const CommitPlace&) const = default;
};
// Where the messages begin that were committed after `serial`.
inline CommitPlace BehindCommit(std::uint64_t serial) {
  return {serial + (serial < std::numeric_limits<std::uint64_t>::max() ? 1 : 0), 0};
}

// What an append reached.
struct Receipt {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> serials;  // (shard, serial), by shard
  std::uint64_t count = 0;                                       // messages
  Durability durability = Durability::kOs;
  bool repeated = false;  // all of it was stored before, by an append with the same id
};

// Messages as columns, laid out so that Arrow arrays can point into them: n + 1 offsets of 32 bits
// and one run of bytes for each variable-length column. Values may lie in memory that the batch
// only keeps alive; their offsets then need not begin at 0.
//
// Filled by one thread, then only read (from any thread). Bytes of a column never exceed 2^31 - 1:
// who fills it asks Fits() first.
class Batch {
 public:
  static constexpr std::size_t kColumnBytesMax = 0x7fffffff;

  // With serials it also has, of each message, that of the commit that brought it.
  explicit Batch(bool keeps_serials = false) : keeps_serials_(keeps_serials) {}

  std::size_t size() const { return timestamps_.size(); }
  bool empty() const { return timestamps_.empty(); }
  // What a message takes beside topic and value.
  static constexpr std::size_t kRowBytes = 16;
  std::size_t bytes() const { return topic_bytes_.size() + values_size() + kRowBytes * size(); }

  // REQUIRES: row < size()
  std::string_view topic(std::size_t row) const {
    return Slice(topic_bytes_.view(), topic_offsets_, row);
  }
  std::int64_t timestamp(std::size_t row) const { return timestamps_[row]; }
  std::string_view value(std::size_t row) const {
    return Slice(value_bytes(), value_offsets(), row);
  }
  bool keeps_serials() const { return keeps_serials_; }
  // 0 if the batch does not keep them, or a transaction has yet to commit the message.
  std::uint64_t serial(std::size_t row) const { return keeps_serials_ ? serials_[row] : 0; }
  MessageView message(std::size_t row) const { return {topic(row), timestamp(row), value(row)}; }

  std::span<const std::int32_t> topic_offsets() const { return topic_offsets_; }
  std::string_view topic_bytes() const { return topic_bytes_.view(); }
  std::span<const std::int64_t> timestamps() const { return timestamps_; }
  std::span<const std::int32_t> value_offsets() const {
    return owner_ == nullptr ? std::span<const std::int32_t>(value_offsets_) : borrowed_offsets_;
  }
  // Empty if they are not kept.
  std::span<const std::uint64_t> serials() const { return serials_; }
  // What value_offsets() count in.
  std::string_view value_bytes() const {
    return owner_ == nullptr ? value_bytes_.view() : borrowed_bytes_;
  }

  // Whether one more message of these sizes keeps every column within kColumnBytesMax.
  bool Fits(std::size_t topic_bytes, std::size_t value_bytes) const {
    return topic_bytes_.size() + topic_bytes <= kColumnBytesMax &&
           values_size() + value_bytes <= kColumnBytesMax;
  }

  // Makes room for more messages, of so many bytes together.
  void Reserve(std::size_t rows, std::size_t topic_bytes, std::size_t value_bytes);
  // REQUIRES: Fits(message.topic.size(), message.value.size())
  void Append(const MessageView& message, std::uint64_t serial);

  // Fills an empty batch without a copy of the values: AppendKey for each message, then this once
  // with the n + 1 offsets of their values in `bytes`. `owner` keeps both alive.
  void AppendKey(std::string_view topic, std::int64_t timestamp, std::uint64_t serial);
  void BorrowValues(std::shared_ptr<const void> owner, std::span<const std::int32_t> offsets,
                    std::string_view bytes);

 private:
  static std::string_view Slice(std::string_view bytes, std::span<const std::int32_t> offsets,
                                std::size_t row) {
    const auto begin = static_cast<std::size_t>(offsets[row]);
    const auto end = static_cast<std::size_t>(offsets[row + 1]);
    return bytes.substr(begin, end - begin);
  }
  std::size_t values_size() const {
    return static_cast<std::size_t>(value_offsets().back() - value_offsets().front());
  }
  void CopyBorrowed();

  bool keeps_serials_;
  std::vector<std::uint64_t> serials_;  // empty if they are not kept
  std::vector<std::int32_t> topic_offsets_{0};
  ByteBuffer topic_bytes_;
  std::vector<std::int64_t> timestamps_;
  std::vector<std::int32_t> value_offsets_{0};
  ByteBuffer value_bytes_;

  std::shared_ptr<const void> owner_;  // null: the values are the batch's own
  std::span<const std::int32_t> borrowed_offsets_;
  std::string_view borrowed_bytes_;
};

}  // namespace topicdb
