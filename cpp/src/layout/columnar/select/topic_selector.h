// Which topics a read wants, and what follows for blocks and pages: those that surely hold none are
// not read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "layout/columnar/block/block_reader.h"
#include "layout/layout.h"

namespace topicdb::columnar {

// Sorted; absent: all.
using WantedStreams = std::shared_ptr<const std::vector<std::uint32_t>>;

// Immutable. Keeps copies of what it needs.
class TopicSelector {
 public:
  explicit TopicSelector(const ReadRequest& request);

  bool Selects(std::uint32_t stream, std::string_view topic) const;
  bool MayHoldStreams(std::string_view stream_filter) const;
  // Whether MayHoldWords can say anything.
  bool has_words() const { return has_words_; }
  bool MayHoldWords(std::string_view word_filter) const;
  const WantedStreams& streams() const { return streams_; }
  // What the directory of a block calls the streams that are wanted. kCorruption
  Result<WantedStreams> StreamsIn(const Block& block, BlockReader* reader) const;
  // `next`: the page that follows in the block; null if there is none.
  bool MayHoldPage(const WantedStreams& streams, const PageEntry& page,
                   const PageEntry* next) const;

 private:
  // What one filter wants.
  struct Wanted {
    explicit Wanted(const Filter& wanted);
    bool Matches(std::string_view topic) const;
    // Whether topics from `first` to `last` (null: without end) may be wanted.
    bool MayBeIn(const std::string* first, const std::string* last) const;

    Filter filter;
    bool every_topic = false;                // but those that begin with '$'
    bool exact = false;                      // one topic: the prefix
    std::string prefix;                      // what wanted topics begin with
    std::vector<std::uint64_t> word_hashes;  // words that they have
  };

  bool SelectsStream(std::uint32_t stream) const;
  // Whether topics of one stream from `first` to `last` (null: without end) may be wanted.
  bool MayHoldRange(const std::string* first, const std::string* last) const;

  const WantedStreams streams_;
  std::vector<Wanted> any_of_;
  bool has_words_ = false;
};

// What reads one topic at one moment. filter: that topic
ReadRequest PointRequest(const PlacedMessage& place, Filter filter,
                         const std::vector<RowMask>& masks,
                         std::uint64_t serial_max = std::numeric_limits<std::uint64_t>::max());

}  // namespace topicdb::columnar
