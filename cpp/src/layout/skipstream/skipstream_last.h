// Finds the newest message of each topic of a stream.
//
// If the filter matches one topic of the stream only, the reader goes back from the newest key to
// the first key of that topic. Mostly that is a single seek.
//
// Otherwise the reader reads all messages of the time range, because nothing says which words the
// stream has. The keys of the index have only hashes of words. Hashes may collide, and then the
// reader would overlook one of two topics. Without timestamps, each topic has one message anyway.
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

// Finds the newest messages of the one stream of a request. The caller of NewLastReader owns it.
// Not thread-safe.
class SkipstreamLast : public LastReader {
 public:
  SkipstreamLast(const RocksSource& source, ReadRequest request, std::uint32_t timestamp_bytes,
                 LastMessages* found);

  Result<ReadOutcome> Read(std::size_t examined_max) override;
  ReadCounters counters() const override { return counters_; }

 private:
  // Returns the words of the only topic that is wanted, or nothing if there may be more topics.
  std::optional<std::vector<std::string>> OnlyWords() const;
  // Offers all messages of the request.
  Result<ReadOutcome> ReadAll(std::size_t examined_max);
  // Goes back in run_ until it has offered the newest wanted message of the only topic.
  Result<ReadOutcome> StepBack(std::size_t examined_max);
  // Opens a run of keys and moves it to its newest key.
  Result<std::unique_ptr<KeyRun>> OpenRun(std::string prefix) const;
  // Among the index runs of the topic's words, opens the one that seems to have the fewest keys of
  // other topics: its newest key is the oldest.
  Status OpenRarest(const std::vector<std::string>& words);
  // Returns whether the message with this suffix is wanted, and if so, offers it.
  Result<bool> OfferAt(std::string_view suffix, const DecodedSuffix& key);

  const RocksSource source_;
  const ReadRequest request_;
  const std::uint32_t timestamp_bytes_;
  const TopicBuilder topic_builder_;
  LastMessages* const found_;
  ReadCounters counters_;
  bool started_ = false;
  std::unique_ptr<RowCursor> cursor_;  // used if all messages are read
  std::unique_ptr<KeyRun> run_;        // used for one topic; null: the topic has no message
  std::string words_bytes_;            // the words of that topic, encoded as in keys
};

}  // namespace topicdb::skipstream
