// Reads the newest message of each topic, in the order of topics; see Database::Last.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "store/read/stream_sources.h"

namespace topicdb {

// Looks through all slabs before it returns the first message. It keeps one message of each topic.
class LastSource : public MessageSource {
 public:
  LastSource(std::vector<StreamTarget> targets, const TimeRange& range);
  ~LastSource() override;
  Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) override;

 private:
  // Looks through the targets. Returns false if `examined_max` stopped it.
  Result<bool> Gather(std::size_t examined_max);
  void CloseReader();

  std::vector<StreamTarget> targets_;  // the newest slabs first
  const TimeRange range_;
  std::size_t next_target_ = 0;
  LastMessages found_;
  std::unique_ptr<LastReader> reader_;                      // of the target at next_target_
  std::optional<std::vector<LastMessages::Number>> order_;  // set once all are found
  std::size_t next_row_ = 0;
};

}  // namespace topicdb
