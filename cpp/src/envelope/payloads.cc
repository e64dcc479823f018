#include "topicdb/envelope.h"

namespace topicdb {

namespace {

// Returns the first row whose value begins as an envelope does, or the number of rows if there is
// none.
std::size_t FirstCandidate(const Batch& batch) {
  for (std::size_t row = 0; row < batch.size(); ++row) {
    if (MayBeEnvelope(batch.value(row))) return row;
  }
  return batch.size();
}

}  // namespace

std::shared_ptr<const Batch> PayloadsOf(const std::shared_ptr<const Batch>& stored) {
  std::size_t row = FirstCandidate(*stored);
  Envelope envelope;
  while (row < stored->size() && !envelope.Decode(stored->value(row))) ++row;
  if (row == stored->size()) return stored;
  auto payloads = std::make_shared<Batch>(stored->keeps_serials());
  const auto offsets = stored->value_offsets();
  payloads->Reserve(stored->size(), stored->topic_bytes().size(),
                    static_cast<std::size_t>(offsets.back() - offsets.front()));
  for (row = 0; row < stored->size(); ++row) {
    MessageView message = stored->message(row);
    if (envelope.Decode(message.value)) message.value = envelope.payload;
    payloads->Append(message, stored->serial(row));
  }
  return payloads;
}

}  // namespace topicdb
