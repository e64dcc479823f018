// The list of topics of a paged block, in the order of its rows. It is a record beside the block's
// directory.
//
// A reader that looks for the newest message of each topic uses the list. It reads no page of a
// block if newer blocks had all of the block's topics. docs/internals/format.md draws the bytes;
// only topic_list.cc makes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/columnar/format/page_format.h"
#include "topicdb/types/numbers.h"

namespace topicdb::columnar {

// A decoded record. It points into the bytes of the record, which must outlive it.
struct TopicList {
  // The rows of the block, and their extent. They show whether the list is that of the block: an
  // older version of this program may have left a list behind under the number of another block.
  std::uint32_t rows = 0;
  Extent extent;
  std::uint32_t topics = 0;
  // For each page, the number of topics whose last row is in it.
  std::vector<std::uint32_t> page_topics;
  // The topics and their streams, compressed. Blocks with equal bytes have the same topics.
  std::string_view texts;
  std::uint32_t texts_bytes = 0;  // size after decompression
  std::string_view ages;          // by topic; empty if they are not known

  // Returns an upper bound of the timestamps of the topic's messages.
  std::int64_t LastTimeMax(std::uint32_t topic) const;
};
// Decodes a record into `list`. Returns false if the record is damaged. Does not decompress the
// texts.
bool Decode(std::string_view bytes, TopicList* list);
// Returns the decompressed texts. Returns kCorruption if they do not decompress.
Result<std::string> Expand(const TopicList& list);

// Calls visit(stream, topic, page) for each topic in turn, until visit returns an error. `page` is
// the page of the topic's last row. The text of the topic is valid until visit returns. If the
// block is a staged one, the streams are its groups. Returns the error of visit, or kCorruption if
// the list is malformed.
template <typename Visit>
Status ForEachTopic(const TopicList& list, std::string_view texts, Visit visit) {
  VarintReader reader(texts);
  std::uint64_t stream = 0;
  std::string topic;
  for (std::uint32_t page = 0; page < list.page_topics.size(); ++page) {
    for (std::uint32_t left = list.page_topics[page]; left > 0; --left) {
      stream += reader.Next();
      const std::uint64_t shared = reader.Next();
      const std::string_view further = reader.Bytes(reader.Next());
      if (!reader.ok() || shared > topic.size() || stream == 0 || stream > UINT32_MAX) {
        return PageFault("the list of its block's topics is malformed");
      }
      topic.resize(shared);
      topic.append(further);
      TOPICDB_RETURN_IF_ERROR(
          visit(StreamId{static_cast<std::uint32_t>(stream)}, std::string_view(topic), page));
    }
  }
  return reader.Finished() ? Status::Ok()
                           : PageFault("the list of its block's topics is malformed");
}

// Returns true if a block with `block_bytes` of topics and values should have the record. A block
// should not if nearly each of its messages has a topic of its own, and a short value. Readers then
// read it as a block without a record.
bool IsWorthStoring(std::string_view record, std::uint64_t block_bytes);

// Gathers the topics of one block, and encodes the record. Whoever builds the block owns it. Not
// thread-safe.
class TopicListBuilder {
 public:
  // Adds a topic. The caller must add topics in the order of rows, and each topic once. `last_time`
  // must be absent for all topics or for none.
  void Add(StreamId stream, std::string_view topic, std::uint32_t page,
           std::optional<std::int64_t> last_time);
  // Returns the record of a block with these rows, pages and extent. Returns kStorage if the record
  // cannot be compressed. REQUIRES: a topic was added
  Result<std::string> Build(std::uint32_t rows, std::uint32_t pages, const Extent& extent) const;

 private:
  std::string texts_;
  std::string topic_;  // the last topic
  StreamId stream_;
  std::vector<std::uint32_t> page_topics_;
  std::vector<std::int64_t> last_times_;
  std::uint32_t topics_ = 0;
};

}  // namespace topicdb::columnar
