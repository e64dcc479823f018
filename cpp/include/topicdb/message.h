// Messages on their way in (views) and out (batches of columns).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topicdb/byte_buffer.h"
#include "topicdb/options.h"
#include "topicdb/status.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// Stands for a timestamp that is assigned at commit. Such timestamps are unique and increasing
// within a shard.
inline constexpr std::int64_t kAssignTimestamp = -1;

// MQTT's own limit for a payload (268,435,455 bytes, MQTT 5 section 1.5.5).
inline constexpr std::size_t kValueBytesMax = 268'435'455;

// One message for Database::Append. The caller must keep its bytes alive during the call.
struct MessageView {
  std::string_view topic;
  std::int64_t timestamp;  // µs since the epoch, 0 <= t < 2^63, or kAssignTimestamp
  std::string_view value;
};

// The keys of messages on their way in. In a database that shards by key, a message is stored in
// the shard of its key, and a message without a key in the shard of its topic. Keys are not stored.
// The caller must keep their bytes alive during the call.
struct MessageKeys {
  using Each = std::span<const std::optional<std::string_view>>;

  // The key that every message has. Not given together with `each`.
  std::optional<std::string_view> all;
  // The key of each message, in the order of the messages.
  std::optional<Each> each;

  // Returns whether keys are given, even if no message has one.
  bool given() const { return all.has_value() || each.has_value(); }
  // Returns kInvalidArgument if there are more or fewer keys than messages.
  Status CheckCount(std::size_t messages) const;
  // Returns the key of message number `row`, or nothing if it has none.
  std::optional<std::string_view> Of(std::size_t row) const {
    return each.has_value() ? (*each)[row] : all;
  }
};

// Returns kInvalidArgument if the key is empty.
Status CheckKey(std::optional<std::string_view> key);

// The place of a message among those that were committed to a shard: the commit, and the number of
// the message in it.
struct CommitPlace {
  Serial serial;
  std::uint32_t index = 0;
  auto operator<=>(const CommitPlace&) const = default;
};
// Returns the place where the messages begin that were committed after `serial`.
inline CommitPlace BehindCommit(Serial serial) {
  return {serial < kLastSerial ? serial.Next() : kLastSerial, 0};
}

// What an append has stored.
struct Receipt {
  std::vector<std::pair<std::uint32_t, Serial>> serials;  // (shard, serial), by shard
  std::uint64_t count = 0;                                // messages
  Durability durability = Durability::kOs;
  bool repeated = false;  // an append with the same id had stored all of it before
};

// Keeps messages as columns, laid out so that Arrow arrays can point into them. Each
// variable-length column has n + 1 offsets of 32 bits and one run of bytes. The values may lie in
// memory that the batch does not own but keeps alive. Their offsets need not begin at 0 then.
//
// One thread fills a batch. After that, any thread may read it, and nobody changes it. A column
// never has more than 2^31 - 1 bytes: whoever fills the batch must ask Fits() first.
class Batch {
 public:
  static constexpr std::size_t kColumnBytesMax = 0x7fffffff;

  // With `keeps_serials`, the batch also has the serial of each message: that of the commit that
  // brought the message.
  explicit Batch(bool keeps_serials = false) : keeps_serials_(keeps_serials) {}

  std::size_t size() const { return timestamps_.size(); }
  bool empty() const { return timestamps_.empty(); }
  // What a message takes besides its topic and value.
  static constexpr std::size_t kRowBytes = 16;
  std::size_t bytes() const { return topic_bytes_.size() + values_size() + kRowBytes * size(); }

  // REQUIRES for topic, timestamp, value, serial and message: row < size()
  std::string_view topic(std::size_t row) const {
    return Slice(topic_bytes_.view(), topic_offsets_, row);
  }
  std::int64_t timestamp(std::size_t row) const { return timestamps_[row]; }
  std::string_view value(std::size_t row) const {
    return Slice(value_bytes(), value_offsets(), row);
  }
  bool keeps_serials() const { return keeps_serials_; }
  // Returns kNoSerial if the batch keeps no serials, or if a transaction has yet to commit the
  // message.
  Serial serial(std::size_t row) const {
    return keeps_serials_ ? Serial{serials_[row]} : kNoSerial;
  }
  MessageView message(std::size_t row) const { return {topic(row), timestamp(row), value(row)}; }

  std::span<const std::int32_t> topic_offsets() const { return topic_offsets_; }
  std::string_view topic_bytes() const { return topic_bytes_.view(); }
  std::span<const std::int64_t> timestamps() const { return timestamps_; }
  std::span<const std::int32_t> value_offsets() const {
    return owner_ == nullptr ? std::span<const std::int32_t>(value_offsets_) : borrowed_offsets_;
  }
  // Returns the serials as plain numbers, so that arrays can point into them. Empty if the batch
  // keeps no serials.
  std::span<const std::uint64_t> serials() const { return serials_; }
  // The bytes that value_offsets() point into.
  std::string_view value_bytes() const {
    return owner_ == nullptr ? value_bytes_.view() : borrowed_bytes_;
  }

  // Returns whether one more message of these sizes keeps every column within kColumnBytesMax.
  bool Fits(std::size_t topic_bytes, std::size_t value_bytes) const {
    return topic_bytes_.size() + topic_bytes <= kColumnBytesMax &&
           values_size() + value_bytes <= kColumnBytesMax;
  }

  // Makes room for `rows` more messages with this many bytes in all.
  void Reserve(std::size_t rows, std::size_t topic_bytes, std::size_t value_bytes);
  // Copies a message into the batch. REQUIRES: Fits(message.topic.size(), message.value.size())
  void Append(const MessageView& message, Serial serial);

  // Append messages without values: one, or several of one topic. `serials` has those of the
  // messages, or is empty: then they have kNoSerial. BorrowValues or AppendEmptyValues must follow
  // before anything else is done with the batch. REQUIRES (AppendKeys): Fits(all topics, 0)
  void AppendKey(std::string_view topic, std::int64_t timestamp, Serial serial);
  void AppendKeys(std::string_view topic, std::span<const std::int64_t> times,
                  std::span<const std::uint64_t> serials);
  // Gives empty values to messages that have none yet.
  void AppendEmptyValues();
  // Gives values to the messages of a batch that was empty, without copying them: the n + 1 offsets
  // of the values in `bytes`. `owner` keeps both alive.
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
  // Copies the values from the owner's memory, so that Append can add more.
  void CopyBorrowed();

  bool keeps_serials_;
  std::vector<std::uint64_t> serials_;  // empty if the batch keeps none
  std::vector<std::int32_t> topic_offsets_{0};
  ByteBuffer topic_bytes_;
  std::vector<std::int64_t> timestamps_;
  std::vector<std::int32_t> value_offsets_{0};
  ByteBuffer value_bytes_;

  std::shared_ptr<const void> owner_;  // null: the batch owns the values
  std::span<const std::int32_t> borrowed_offsets_;
  std::string_view borrowed_bytes_;
};

}  // namespace topicdb
