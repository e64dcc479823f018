#include "layout/columnar/select/block_query.h"

#include <algorithm>
#include <utility>

namespace topicdb::columnar {

BlockQuery::BlockQuery(const std::vector<ReadRequest>& any_of)
    : rows_(any_of.front(), any_of.front().serial_min) {
  selectors_.reserve(any_of.size());
  for (const ReadRequest& request : any_of) {
    selectors_.emplace_back(request);
    every_topic_ = every_topic_ || (request.filter.is_everything() && !request.streams.has_value());
  }
}

Result<bool> BlockQuery::MayHold(const BlockReader& reader, const Block& block) const {
  if (every_topic_) return true;
  std::string words;
  bool has_words = false;
  for (const TopicSelector& selector : selectors_) {
    if (!selector.MayHoldStreams(block.entry.streams)) continue;
    if (!block.is_paged() || !selector.has_words()) return true;
    if (!has_words) {
      TOPICDB_ASSIGN_OR_RETURN(words, reader.LoadWordFilter(block.id));
      has_words = true;
    }
    if (selector.MayHoldWords(words)) return true;
  }
  return false;
}

Result<std::vector<Block>> BlockQuery::ListBlocks(const BlockReader& reader,
                                                  ReadCounters* counters) const {
  std::vector<Block> blocks;
  const auto keep = [&](Block block) {
    block.entry.streams = {};
    blocks.push_back(std::move(block));
    return Status::Ok();
  };
  TOPICDB_RETURN_IF_ERROR(ForEachBlock(reader, keep, counters));
  return blocks;
}

void BlockQuery::Pages::AddTo(ReadCounters* counters) const {
  counters->pages += numbers.size() + skipped_by_time + skipped_by_topic;
  counters->pages_skipped_by_time += skipped_by_time;
  counters->pages_skipped_by_topic += skipped_by_topic;
}

Result<BlockQuery::Pages> BlockQuery::PagesOf(const Block& block, BlockReader* reader) const {
  if (!block.is_paged()) return Pages{{0}, block.entry.rows, {}};
  Pages pages;
  TOPICDB_ASSIGN_OR_RETURN(pages.directory, reader->LoadDirectory(block));
  const Directory& directory = pages.directory;
  std::vector<WantedStreams> streams;
  for (const TopicSelector& selector : selectors_) {
    TOPICDB_ASSIGN_OR_RETURN(WantedStreams wanted, selector.StreamsIn(block, reader));
    streams.push_back(std::move(wanted));
  }
  for (std::uint32_t page = 0; page < directory.size(); ++page) {
    const PageEntry& entry = directory[page];
    const PageEntry* next = page + 1 < directory.size() ? &directory[page + 1] : nullptr;
    if (!rows_.Concerns(entry.extent)) {
      ++pages.skipped_by_time;
      continue;
    }
    bool wanted = every_topic_;
    for (std::size_t i = 0; !wanted && i < selectors_.size(); ++i) {
      wanted = selectors_[i].MayHoldPage(streams[i], entry, next);
    }
    if (!wanted) {
      ++pages.skipped_by_topic;
      continue;
    }
    pages.numbers.push_back(page);
    pages.rows += entry.rows;
  }
  return pages;
}

std::vector<bool> BlockQuery::TopicsOf(const Page& page) const {
  std::vector<bool> wanted(page.topics(), every_topic_);
  if (every_topic_) return wanted;
  for (std::uint32_t topic = 0; topic < page.topics(); ++topic) {
    wanted[topic] =
        std::any_of(selectors_.begin(), selectors_.end(), [&](const TopicSelector& selector) {
          return selector.Selects(page.stream(topic), page.topic(topic));
        });
  }
  return wanted;
}

}  // namespace topicdb::columnar
