// Looks for the newest message of each topic, from the newest block to the oldest.
//
// Of a sealed block its list of topics is read (topic_list.h), and a page only for topics that are
// not known yet, or whose message may be newer there than the known one. Mostly there are none, as
// older blocks have older messages: then a block costs a look at its list, and even less if a newer
// block had the same list, byte for byte. Blocks without a list, fresh ones, and all if one topic
// is wanted are looked through by page.
//
// What a list says is a bound, never the answer: rows that are deleted, masked or out of the range
// are found to be so when the page is read, and then older rows of the topic are looked at.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layout/columnar/block/block_reader.h"
#include "layout/columnar/format/topic_list.h"
#include "layout/columnar/select/block_query.h"
#include "layout/columnar/select/topic_selector.h"
#include "layout/layout.h"

namespace topicdb::columnar {

class LastFinder : public LastReader {
 public:
  LastFinder(const RocksSource& source, const ReadRequest& request, LastMessages* found);

  Result<ReadOutcome> Read(std::size_t examined_max) override;
  ReadCounters counters() const override;

 private:
  using Number = LastMessages::Number;
  // Time and serial of a message, or bounds of them.
  using Bound = std::pair<std::int64_t, std::uint64_t>;
  // A topic of this slab of which a message is known.
  struct Known {
    std::uint32_t stream;
    Number number;
  };
  // A list that was gone through, by its compressed texts, and the oldest that is known of its
  // wanted topics.
  struct SeenList {
    std::string texts;
    Bound oldest;
  };
  // The topics of a list, one after the other.
  struct ListWalk;

  Status List();
  // No wanted message of a block or page is newer.
  Bound NewestOf(const Extent& extent) const;
  bool IsNewer(Number number, const Bound& bound) const;
  // Whether the only topic that is wanted has a newer message than any of the block.
  bool HasNewerTopic(const Block& block) const;

  Status ReadBlock(const Block& block);
  Status ReadPages();
  // All that is wanted of a page.
  Status ReadPage(std::uint32_t number);
  Status ReadList(const TopicList& list);
  Status VisitTopic(ListWalk* walk, std::uint32_t stream, std::string_view topic,
                    std::uint32_t page);
  // The topic's place among known_; REQUIRES that topics come in their order.
  std::optional<Number> FindKnown(ListWalk* walk, std::uint32_t stream,
                                  std::string_view topic) const;
  void AddKnown(std::vector<Known> added);

  // Offers the last wanted row of a topic in the block, whose last row is in page `number`. Gives
  // the topic's number, which is that of `known` if it has one.
  Result<std::optional<Number>> OfferLast(std::uint32_t number, std::string_view topic,
                                          std::optional<Number> known);
  // The last wanted row of a topic, by its number in the page; absent if there is none.
  std::optional<std::uint32_t> LastRowOf(std::uint32_t topic);
  bool IsWanted(std::uint32_t row) const;
  // Of the page before the loaded one, if the topic goes back there: loads it.
  Result<bool> LoadPageBefore(std::string_view topic);
  Status LoadPage(std::uint32_t number);
  Status NeedDirectory();
  // The list has a topic that it cannot have.
  Status Misfit(std::string_view topic, const std::string& why) const;

  const TopicSelector selector_;
  const BlockQuery query_;
  const std::int64_t start_;
  const std::optional<std::int64_t> end_;
  const std::optional<std::string> only_topic_;
  LastMessages* const found_;
  BlockReader reader_;
  ReadCounters counters_;

  std::uint64_t examined_ = 0;  // rows and topics

  bool listed_ = false;
  std::vector<Block> blocks_;  // the newest first
  std::size_t next_block_ = 0;
  std::vector<Known> known_;  // by stream and topic
  std::vector<SeenList> seen_;

  // Of the block that is being read.
  const Block* block_ = nullptr;
  DeletedByPage deleted_;
  bool deleted_loaded_ = false;
  Directory directory_;  // empty: not loaded
  std::shared_ptr<const Page> page_;
  std::uint32_t page_number_ = 0;
  const DeletedRows* deleted_rows_ = nullptr;  // of the page; null: none
  std::uint32_t next_topic_ = 0;               // of the page: those before were looked for
};

}  // namespace topicdb::columnar
