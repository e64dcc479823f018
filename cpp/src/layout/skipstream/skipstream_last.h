// Looks for the newest message of each topic of a stream.
//
// If the filter leaves one topic of the stream, keys are taken from the newest on until one is its
// own: a seek, mostly. Otherwise the messages of the time range are read, as nothing says which
// words the stream has: hashes of words, which the keys of the index begin with, may collide, and
// one of two topics would be overlooked. Without timestamps each topic has one message anyway.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/layout.h"
#include "layout/skipstream/skipstream_cursor.h"
#include "layout/skipstream/skipstream_run.h"

namespace topicdb::skipstream {

class SkipstreamLast : public LastReader {
 public:
  SkipstreamLast(const RocksSource& source, ReadRequest request, std::uint32_t timestamp_bytes,
                 LastMessages* found);

  Result<ReadOutcome> Read(std::size_t examined_max) override;
  ReadCounters counters() const override { return counters_; }

 private:
  // The words of the only topic that is wanted; absent if there may be more.
  std::optional<std::vector<std::string>> OnlyWords() const;
  Result<ReadOutcome> ReadAll(std::size_t examined_max);
  Result<ReadOutcome> StepBack(std::size_t examined_max);
  // At its newest key.
  Result<std::unique_ptr<KeyRun>> OpenRun(std::string prefix) const;
  // Opens the run of the topic that has the fewest keys of others, as far as its end tells.
  Status OpenRarest(const std::vector<std::string>& words);
  // Offers the message with this suffix if it is wanted.
  Result<bool> OfferAt(std::string_view suffix, const DecodedSuffix& key);

  const RocksSource source_;
  const ReadRequest request_;
  const std::uint32_t timestamp_bytes_;
  const TopicBuilder topic_builder_;
  LastMessages* const found_;
  ReadCounters counters_;
  bool started_ = false;
  std::unique_ptr<RowCursor> cursor_;  // if all messages are read
  std::unique_ptr<KeyRun> run_;        // of one topic; null: it has no message
  std::string words_bytes_;            // of that topic, as in keys
};

}  // namespace topicdb::skipstream
