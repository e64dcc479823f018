#include "layout/columnar/block_query.h"

#include <algorithm>

namespace topicdb::columnar {

BlockQuery::BlockQuery(const std::vector<ReadRequest>& any_of)
    : range_(any_of.front().range),
      serial_min_(any_of.front().serial_min),
      serial_max_(any_of.front().serial_max),
      masks_(any_of.front().masks) {
  selectors_.reserve(any_of.size());
  for (const ReadRequest& request : any_of) {
    selectors_.emplace_back(request);
    every_topic_ = every_topic_ || (request.filter.is_everything() && !request.streams.has_value());
  }
}

bool BlockQuery::Concerns(const Extent& extent) const {
  if (range_.start.has_value() && extent.last_time < *range_.start) return false;
  if (range_.end.has_value() && extent.first_time >= *range_.end) return false;
  return extent.first_serial <= serial_max_ && extent.last_serial >= serial_min_;
}

bool BlockQuery::Covers(const Extent& extent) const {
  return Contains(range_, extent.first_time) && Contains(range_, extent.last_time) &&
         extent.first_serial >= serial_min_ && extent.last_serial <= serial_max_;
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

Result<BlockQuery::Pages> BlockQuery::PagesOf(const Block& block, BlockReader* reader) const {
  if (!block.is_paged()) return Pages{{0}, block.entry.rows};
  TOPICDB_ASSIGN_OR_RETURN(const Directory directory, reader->LoadDirectory(block));
  std::vector<WantedStreams> streams;
  for (const TopicSelector& selector : selectors_) {
    TOPICDB_ASSIGN_OR_RETURN(WantedStreams wanted, selector.StreamsIn(block, reader));
    streams.push_back(std::move(wanted));
  }
  Pages pages;
  for (std::uint32_t page = 0; page < directory.size(); ++page) {
    const PageEntry& entry = directory[page];
    const PageEntry* next = page + 1 < directory.size() ? &directory[page + 1] : nullptr;
    if (!Concerns(entry.extent)) continue;
    bool wanted = every_topic_;
    for (std::size_t i = 0; !wanted && i < selectors_.size(); ++i) {
      wanted = selectors_[i].MayHoldPage(streams[i], entry, next);
    }
    if (!wanted) continue;
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

bool BlockQuery::IsMasked(const Page& page, std::uint32_t row) const {
  return std::any_of(masks_.begin(), masks_.end(), [&](const RowMask& mask) {
    return mask.Hides(page.topic(page.topic_of(row)), page.time(row), page.serial(row));
  });
}

}  // namespace topicdb::columnar
