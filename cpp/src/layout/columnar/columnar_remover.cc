#include "layout/columnar/columnar_remover.h"

#include <algorithm>

#include "rocks/rocks_compat.h"

namespace topicdb::columnar {

Result<bool> ColumnarRemover::Remove(const ReadRequest& request, std::size_t rows_max,
                                     std::size_t* removed) {
  const Wanted wanted{TopicSelector(request), RowSelector(request, 0)};
  BlockReader reader(source_);
  std::vector<Block> blocks;
  const auto add = [&](Block block) {
    const bool is_done = progress() != nullptr && progress()->blocks.contains(block.id);
    if (!is_done && wanted.rows.Concerns(block.entry.extent) &&
        wanted.topics.MayHoldStreams(block.entry.streams)) {
      blocks.push_back(std::move(block));
    }
    return true;
  };
  TOPICDB_RETURN_IF_ERROR(reader.ForEachSealed(add));
  TOPICDB_RETURN_IF_ERROR(reader.ForEachFresh(add));
  const std::size_t removed_max = *removed + std::min(rows_max, ~std::size_t{0} - *removed);
  for (const Block& block : blocks) {
    TOPICDB_ASSIGN_OR_RETURN(const bool complete,
                             RemoveFromBlock(wanted, block, &reader, removed_max, removed));
    if (!complete) return false;
    if (progress() != nullptr) progress()->blocks.insert(block.id);
  }
  return true;
}

Result<bool> ColumnarRemover::RemoveFromBlock(const Wanted& wanted, const Block& block,
                                              BlockReader* reader, std::size_t removed_max,
                                              std::size_t* removed) {
  Directory directory;
  WantedStreams streams;
  if (block.is_paged()) {
    if (wanted.topics.has_words()) {
      TOPICDB_ASSIGN_OR_RETURN(const std::string filter, reader->LoadWordFilter(block.id));
      if (!wanted.topics.MayHoldWords(filter)) return true;
    }
    TOPICDB_ASSIGN_OR_RETURN(directory, reader->LoadDirectory(block));
    TOPICDB_ASSIGN_OR_RETURN(streams, wanted.topics.StreamsIn(block, reader));
  }
  TOPICDB_ASSIGN_OR_RETURN(auto deleted, reader->LoadDeleted(block.id));
  const bool goes_on = progress() != nullptr && progress()->block == block.id;
  for (std::uint32_t number = goes_on ? progress()->page : 0; number < block.entry.pages;
       ++number) {
    if (block.is_paged()) {
      const PageEntry* next = number + 1 < directory.size() ? &directory[number + 1] : nullptr;
      if (!wanted.rows.Concerns(directory[number].extent) ||
          !wanted.topics.MayHoldPage(streams, directory[number], next)) {
        continue;
      }
    }
    const PlaceOfPage place(block.id, number);
    const auto changed = changed_.find(place);
    DeletedRows rows = changed != changed_.end() ? changed->second : deleted[number];
    const std::uint32_t all = block.is_paged() ? directory[number].rows : block.entry.rows;
    if (rows.size() == all) continue;  // earlier steps of a large delete have done this page
    TOPICDB_ASSIGN_OR_RETURN(const auto page, reader->LoadPage(block, number));
    std::size_t found = 0;
    TOPICDB_ASSIGN_OR_RETURN(
        const bool complete,
        RemoveFromPage(wanted.topics, wanted.rows, *page, &rows, removed_max - *removed, &found));
    if (found > 0) changed_[place] = std::move(rows);
    *removed += found;
    if (complete) continue;
    if (progress() != nullptr) {
      progress()->block = block.id;
      progress()->page = number;
    }
    return false;
  }
  return true;
}

Result<bool> ColumnarRemover::RemoveFromPage(const TopicSelector& selector,
                                             const RowSelector& wanted, const Page& page,
                                             DeletedRows* deleted, std::size_t rows_max,
                                             std::size_t* removed) const {
  DeletedRows found;
  bool complete = true;
  for (std::uint32_t row = 0; row < page.rows(); ++row) {
    const std::uint32_t topic = page.topic_of(row);
    if (!wanted.Wants(page, row) || !selector.Selects(page.stream(topic), page.topic(topic)) ||
        std::binary_search(deleted->begin(), deleted->end(), row)) {
      continue;
    }
    if (wanted.IsMasked(page, row)) continue;
    if (found.size() == rows_max) {
      complete = false;
      break;
    }
    found.push_back(row);
  }
  *removed = found.size();
  DeletedRows all;
  std::merge(deleted->begin(), deleted->end(), found.begin(), found.end(), std::back_inserter(all));
  *deleted = std::move(all);
  return complete;
}

Status ColumnarRemover::RemovePoint(const PlacedMessage& place, const std::vector<RowMask>& masks,
                                    std::uint64_t serial_max, std::size_t* removed) {
  TOPICDB_ASSIGN_OR_RETURN(Filter topic, Filter::Parse(place.topic));
  const ReadRequest request = PointRequest(place, std::move(topic), masks, serial_max);
  return Remove(request, std::numeric_limits<std::size_t>::max(), removed).status();
}

Status ColumnarRemover::Finish() {
  for (const auto& [place, rows] : changed_) {
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(
        batch_->Put(source_.families.main, DeletedRowsKey(place.first, place.second), Encode(rows)),
        "preparing a delete"));
  }
  return Status::Ok();
}

}  // namespace topicdb::columnar
