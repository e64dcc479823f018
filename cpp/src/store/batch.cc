#include "topicdb/message.h"

namespace topicdb {

void Batch::AppendKey(std::string_view topic, std::int64_t timestamp) {
  topic_bytes_.append(topic);
  topic_offsets_.push_back(static_cast<std::int32_t>(topic_bytes_.size()));
  timestamps_.push_back(timestamp);
}

void Batch::Append(const MessageView& message) {
  if (owner_ != nullptr) CopyBorrowed();
  AppendKey(message.topic, message.timestamp);
  value_bytes_.append(message.value);
  value_offsets_.push_back(static_cast<std::int32_t>(value_bytes_.size()));
}

void Batch::BorrowValues(std::shared_ptr<const void> owner, std::span<const std::int32_t> offsets,
                         std::string_view bytes) {
  owner_ = std::move(owner);
  borrowed_offsets_ = offsets;
  borrowed_bytes_ = bytes;
}

void Batch::CopyBorrowed() {
  const std::int32_t begin = borrowed_offsets_.front();
  value_bytes_ = borrowed_bytes_.substr(static_cast<std::size_t>(begin), values_size());
  value_offsets_.clear();
  for (const std::int32_t offset : borrowed_offsets_) value_offsets_.push_back(offset - begin);
  owner_.reset();
}

}  // namespace topicdb
