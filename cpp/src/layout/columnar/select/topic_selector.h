// Decides which topics a read wants, and therefore which blocks and pages: a read skips those that
// surely hold none of its topics.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "layout/columnar/block/block_reader.h"
#include "layout/layout.h"

namespace topicdb::columnar {

// The wanted streams, sorted. Null means all streams.
using WantedStreams = std::shared_ptr<const std::vector<StreamId>>;

// Selects topics for one request. A reader owns it. Keeps copies of what it needs of the request.
// Immutable, and therefore thread-safe.
class TopicSelector {
 public:
  explicit TopicSelector(const ReadRequest& request);

  // Returns true if this topic of this stream is wanted.
  bool Selects(StreamId stream, std::string_view topic) const;
  // Returns true if the block with this filter over its streams may hold wanted streams.
  bool MayHoldStreams(std::string_view stream_filter) const;
  // Returns false if MayHoldWords would always return true.
  bool has_words() const { return has_words_; }
  // Returns true if the block with this filter over its words may hold wanted topics.
  bool MayHoldWords(std::string_view word_filter) const;
  // Returns the wanted streams, by their own numbers.
  const WantedStreams& streams() const { return streams_; }
  // Returns the wanted streams by the numbers that the directory of the block uses: groups if the
  // block is a staged one. Returns kCorruption if the placement of the block is damaged.
  Result<WantedStreams> StreamsIn(const Block& block, BlockReader* reader) const;
  // Returns true if the page may hold wanted topics. `streams` comes from StreamsIn. `next` is the
  // page that follows in the block, or null if there is none.
  bool MayHoldPage(const WantedStreams& streams, const PageEntry& page,
                   const PageEntry* next) const;

 private:
  // The topics that one filter wants.
  struct Wanted {
    explicit Wanted(const Filter& wanted);
    // Returns true if the filter matches the topic.
    bool Matches(std::string_view topic) const;
    // Returns true if topics from `first` to `last` may be wanted. Null means an open end.
    bool MayBeIn(const std::string* first, const std::string* last) const;

    Filter filter;
    bool every_topic = false;                // every topic except those that begin with '$'
    bool exact = false;                      // only one topic: `prefix`
    std::string prefix;                      // wanted topics begin with it
    std::vector<std::uint64_t> word_hashes;  // wanted topics have all of these words
  };

  // Returns true if the stream is wanted.
  bool SelectsStream(StreamId stream) const;
  // Returns true if topics of one stream from `first` to `last` may be wanted. Null means an open
  // end.
  bool MayHoldRange(const std::string* first, const std::string* last) const;

  const WantedStreams streams_;
  std::vector<Wanted> any_of_;
  bool has_words_ = false;
};

// Returns a request for the messages of one topic at one timestamp. `filter` is that topic.
ReadRequest PointRequest(const PlacedMessage& place, Filter filter,
                         const std::vector<RowMask>& masks, Serial serial_max = kLastSerial);

}  // namespace topicdb::columnar
