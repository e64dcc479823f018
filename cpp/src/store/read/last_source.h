// Reads the newest message of each topic, in the order of topics; see Database::Last.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "store/read/stream_sources.h"

namespace topicdb {

// Gives the newest messages. It looks through all slabs before it returns the first message, and
// keeps one message of each topic in memory. A ScanImpl owns it. Not thread-safe.
class LastSource : public MessageSource {
 public:
  LastSource(std::vector<StreamTarget> targets, const TimeRange& range);
  ~LastSource() override;
  Result<ReadOutcome> Read(const ReadLimits& limits, Batch* out) override;

 private:
  // Looks through the targets. Returns false if it stopped at `examined_max` rows before the end.
  Result<bool> Gather(std::size_t examined_max);
  // Adds the counters of the reader to those of its slab, and closes it.
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
