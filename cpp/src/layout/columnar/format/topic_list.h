// The topics of a paged block, in the order of its rows: a record beside its directory, so that who
// looks for the newest message of each topic reads no page of a block whose topics were all seen in
// newer ones. Its bytes are drawn in docs/format.md and made in topic_list.cc alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/columnar/format/page_format.h"

namespace topicdb::columnar {

// A record that was decoded; points into its bytes.
struct TopicList {
  std::uint32_t rows = 0;  // of the block, and their extent: to tell it from another's
  Extent extent;
  std::uint32_t topics = 0;
  std::vector<std::uint32_t> page_topics;  // by page: topics whose last row is in it
  // Compressed. Equal bytes are equal lists: of blocks with the same topics, too.
  std::string_view texts;
  std::uint32_t texts_bytes = 0;  // decompressed
  std::string_view ages;          // by topic; or none are known

  // No message of the topic is younger.
  std::int64_t LastTimeMax(std::uint32_t topic) const;
};
// Checks all but what is compressed.
bool Decode(std::string_view bytes, TopicList* list);
// The decompressed texts. kCorruption.
Result<std::string> Expand(const TopicList& list);

// Calls visit(stream, topic, page of its last row) for each in turn; the text is the callee's until
// it returns. Of a staged block the streams are its groups. kCorruption.
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
          visit(static_cast<std::uint32_t>(stream), std::string_view(topic), page));
    }
  }
  return reader.Finished() ? Status::Ok()
                           : PageFault("the list of its block's topics is malformed");
}

// Whether a block with so many bytes of topics and values should have the record: not if each of
// its messages has nearly a topic of its own, and a short value. Then it is read as blocks without
// one.
bool IsWorthStoring(std::string_view record, std::uint64_t block_bytes);

// Gathers the topics of one block. Not thread-safe.
class TopicListBuilder {
 public:
  // In the order of rows, each once. last_time: absent for all of them, or for none.
  void Add(std::uint32_t stream, std::string_view topic, std::uint32_t page,
           std::optional<std::int64_t> last_time);
  // The record. REQUIRES: something was added. kStorage if it cannot be compressed.
  Result<std::string> Build(std::uint32_t rows, std::uint32_t pages, const Extent& extent) const;

 private:
  std::string texts_;
  std::string topic_;  // the last one
  std::uint32_t stream_ = 0;
  std::vector<std::uint32_t> page_topics_;
  std::vector<std::int64_t> last_times_;
  std::uint32_t topics_ = 0;
};

}  // namespace topicdb::columnar
