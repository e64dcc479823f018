#include "topicdb/message.h"

namespace topicdb {

void Batch::Append(const MessageView& message) {
  topic_bytes_.append(message.topic);
  FinishRow(message.timestamp, message.value);
}

void Batch::FinishRow(std::int64_t timestamp, std::string_view value) {
  topic_offsets_.push_back(static_cast<std::int32_t>(topic_bytes_.size()));
  timestamps_.push_back(timestamp);
  value_bytes_.append(value);
  value_offsets_.push_back(static_cast<std::int32_t>(value_bytes_.size()));
}

}  // namespace topicdb
