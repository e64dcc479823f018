// Finds the newest message of each topic, from the newest block to the oldest.
//
// The finder reads the list of topics of a sealed block (topic_list.h). It reads a page only for a
// topic that it does not know yet, or that may have a newer message there. Mostly there are no such
// topics, because older blocks have older messages: then a block costs a look at its list. It costs
// even less if a newer block had the same list, byte for byte. The finder goes through the pages of
// fresh blocks, of blocks without a list, and of all blocks if only one topic is wanted.
//
// A list gives bounds, never the answer. Only a page shows that rows are deleted, masked or out of
// the range. Then the finder looks at older rows of the topic.
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
#include "topicdb/types/numbers.h"

namespace topicdb::columnar {

// Finds the newest messages of one request. The caller of NewLastReader owns it. Not thread-safe.
class LastFinder : public LastReader {
 public:
  LastFinder(const RocksSource& source, const ReadRequest& request, LastMessages* found);

  Result<ReadOutcome> Read(std::size_t examined_max) override;
  ReadCounters counters() const override;

 private:
  using Number = LastMessages::Number;
  using Bound = LastMessages::Bound;
  // A topic of this slab with a known message.
  struct Known {
    StreamId stream;
    Number number;
  };
  // A list that the finder has gone through.
  struct SeenList {
    std::string texts;  // of the list, compressed
    Bound oldest;       // the known messages of its wanted topics are not older
  };
  // A walk through the topics of a list, one after the other.
  struct ListWalk;

  // Fills blocks_.
  Status List();
  // Returns a bound: no wanted message of a block or page with this extent is newer.
  Bound NewestOf(const Extent& extent) const;
  // Returns true if the known message of the topic is newer than the bound.
  bool IsNewer(Number number, const Bound& bound) const;
  // Returns true if only one topic is wanted, and its known message is newer than all of the block.
  bool HasNewerTopic(const Block& block) const;

  // Offers the newest wanted message of each topic of a block, in the way that costs least.
  Status ReadBlock(const Block& block);
  // Reads the pages of the block from the last to the first, except those that cannot have a wanted
  // message that is newer than the known one.
  Status ReadPages();
  // Offers the newest wanted message of each topic of a page.
  Status ReadPage(std::uint32_t number);
  // Goes through the list of topics of the block, and reads the pages that it needs.
  Status ReadList(const TopicList& list);
  // Offers the newest wanted message of one topic of the list. `stream` is the group of the topic
  // if the block is a staged one.
  Status VisitTopic(ListWalk* walk, StreamId stream, std::string_view topic, std::uint32_t page);
  // Returns the number of the topic if it is in known_.
  // REQUIRES: from call to call, topics come in the order of known_
  std::optional<Number> FindKnown(ListWalk* walk, StreamId stream, std::string_view topic) const;
  // Adds topics to known_. REQUIRES: they are sorted, and known_ has none of them
  void AddKnown(std::vector<Known> added);

  // Offers the last wanted row of a topic in the block. The last row of the topic is in page
  // `number`. Returns the number of the topic, which is `known` if that has a value, or nothing if
  // no message of the topic is known.
  Result<std::optional<Number>> OfferLast(std::uint32_t number, std::string_view topic,
                                          std::optional<Number> known);
  // Returns the last wanted row of a topic of the loaded page, or nothing if there is none. `topic`
  // is the number of the topic in the page.
  std::optional<std::uint32_t> LastRowOf(std::uint32_t topic);
  // Returns true if the row of the loaded page is wanted by its time and serial, and is neither
  // deleted nor masked.
  bool IsWanted(std::uint32_t row) const;
  // Loads the page before the loaded one, but skips pages that have only this topic and no wanted
  // rows. Returns false if no such page ends with rows of the topic.
  Result<bool> LoadPageBefore(std::string_view topic);
  // Loads a page of the block, and finds out which of its rows are deleted.
  Status LoadPage(std::uint32_t number);
  // Loads the directory of the block unless it was loaded before.
  Status NeedDirectory();
  // Returns kCorruption with a message that the list has a topic that it cannot have.
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
  std::vector<Block> blocks_;  // newest first
  std::size_t next_block_ = 0;
  std::vector<Known> known_;  // by stream and topic
  std::vector<SeenList> seen_;

  // The block that is being read, and what was loaded of it.
  const Block* block_ = nullptr;
  DeletedByPage deleted_;
  bool deleted_loaded_ = false;
  Directory directory_;  // empty: not loaded
  std::shared_ptr<const Page> page_;
  std::uint32_t page_number_ = 0;
  const DeletedRows* deleted_rows_ = nullptr;  // of the page; null: none
  std::uint32_t next_topic_ = 0;               // of the page: earlier topics were visited
};

}  // namespace topicdb::columnar
