#include <algorithm>

#include "topicdb/message.h"

namespace topicdb {

void Batch::AppendKey(std::string_view topic, std::int64_t timestamp, Serial serial) {
  if (keeps_serials_) serials_.push_back(serial.value());
  topic_bytes_.append(topic);
  topic_offsets_.push_back(static_cast<std::int32_t>(topic_bytes_.size()));
  timestamps_.push_back(timestamp);
}

void Batch::Reserve(std::size_t rows, std::size_t topic_bytes, std::size_t value_bytes) {
  // Doubles the capacity at least, so that many small calls stay cheap.
  const auto enlarge = [](auto* column, std::size_t more) {
    const std::size_t wanted = column->size() + more;
    if (wanted > column->capacity()) column->reserve(std::max(wanted, 2 * column->capacity()));
  };
  enlarge(&topic_offsets_, rows);
  enlarge(&topic_bytes_, topic_bytes);
  enlarge(&timestamps_, rows);
  if (keeps_serials_) enlarge(&serials_, rows);
  enlarge(&value_offsets_, rows);
  enlarge(&value_bytes_, value_bytes);
}

void Batch::Append(const MessageView& message, Serial serial) {
  if (owner_ != nullptr) CopyBorrowed();
  AppendKey(message.topic, message.timestamp, serial);
  value_bytes_.append(message.value);
  value_offsets_.push_back(static_cast<std::int32_t>(value_bytes_.size()));
}

void Batch::AppendKeys(std::string_view topic, std::span<const std::int64_t> times,
                       std::span<const std::uint64_t> serials) {
  timestamps_.insert(timestamps_.end(), times.begin(), times.end());
  if (keeps_serials_) {
    serials_.insert(serials_.end(), serials.begin(), serials.end());
    serials_.resize(timestamps_.size(), kNoSerial.value());
  }
  if (topic.empty()) {
    topic_offsets_.insert(topic_offsets_.end(), times.size(), topic_offsets_.back());
    return;
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    topic_bytes_.append(topic);
    topic_offsets_.push_back(static_cast<std::int32_t>(topic_bytes_.size()));
  }
}

void Batch::AppendEmptyValues() {
  if (owner_ != nullptr) CopyBorrowed();
  value_offsets_.resize(timestamps_.size() + 1, value_offsets_.back());
}

void Batch::BorrowValues(std::shared_ptr<const void> owner, std::span<const std::int32_t> offsets,
                         std::string_view bytes) {
  owner_ = std::move(owner);
  borrowed_offsets_ = offsets;
  borrowed_bytes_ = bytes;
}

void Batch::CopyBorrowed() {
  const std::int32_t begin = borrowed_offsets_.front();
  value_bytes_.clear();
  value_bytes_.append(borrowed_bytes_.substr(static_cast<std::size_t>(begin), values_size()));
  value_offsets_.clear();
  for (const std::int32_t offset : borrowed_offsets_) value_offsets_.push_back(offset - begin);
  owner_.reset();
}

}  // namespace topicdb
