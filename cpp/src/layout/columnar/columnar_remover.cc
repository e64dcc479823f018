#include "layout/columnar/columnar_remover.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>

#include "rocks/rocks_compat.h"

namespace topicdb::columnar {

Result<bool> ColumnarRemover::Remove(const ReadRequest& request, std::size_t rows_max,
                                     std::size_t* removed) {
  const std::size_t removed_max = *removed + std::min(rows_max, ~std::size_t{0} - *removed);
  return RemoveWanted({TopicSelector(request), RowSelector(request, kNoSerial), removed_max,
                       progress(), examined_left()},
                      removed);
}

Result<bool> ColumnarRemover::RemoveWanted(const Call& call, std::size_t* removed) {
  BlockReader reader(source_);
  std::vector<Block> blocks;
  const auto add = [&](Block block) {
    const bool is_done = call.progress != nullptr && call.progress->blocks.contains(block.id);
    if (!is_done && call.rows.Concerns(block.entry.extent) &&
        call.topics.MayHoldStreams(block.entry.streams)) {
      blocks.push_back(std::move(block));
    }
    return true;
  };
  TOPICDB_RETURN_IF_ERROR(reader.ForEachSealed(add));
  TOPICDB_RETURN_IF_ERROR(reader.ForEachFresh(add));
  for (const Block& block : blocks) {
    TOPICDB_ASSIGN_OR_RETURN(const bool complete, RemoveFromBlock(call, block, &reader, removed));
    if (!complete) return false;
    if (call.progress != nullptr) call.progress->blocks.insert(block.id);
  }
  return true;
}

Result<bool> ColumnarRemover::RemoveFromBlock(const Call& call, const Block& block,
                                              BlockReader* reader, std::size_t* removed) {
  Directory directory;
  WantedStreams streams;
  if (block.is_paged()) {
    if (call.topics.has_words()) {
      TOPICDB_ASSIGN_OR_RETURN(const std::string filter, reader->LoadWordFilter(block.id));
      if (!call.topics.MayHoldWords(filter)) return true;
    }
    TOPICDB_ASSIGN_OR_RETURN(directory, reader->LoadDirectory(block));
    TOPICDB_ASSIGN_OR_RETURN(streams, call.topics.StreamsIn(block, reader));
  }
  TOPICDB_ASSIGN_OR_RETURN(auto deleted, reader->LoadDeleted(block.id));
  const bool goes_on = call.progress != nullptr && call.progress->block == block.id;
  for (std::uint32_t number = goes_on ? call.progress->page : 0; number < block.entry.pages;
       ++number) {
    if (block.is_paged()) {
      const PageEntry* next = number + 1 < directory.size() ? &directory[number + 1] : nullptr;
      if (!call.rows.Concerns(directory[number].extent) ||
          !call.topics.MayHoldPage(streams, directory[number], next)) {
        continue;
      }
    }
    const PlaceOfPage place(block.id, number);
    const auto changed = changed_.find(place);
    DeletedRows rows = changed != changed_.end() ? changed->second : deleted[number];
    const std::uint32_t all = block.is_paged() ? directory[number].rows : block.entry.rows;
    if (rows.size() == all) continue;  // earlier steps of a large delete have done this page
    if (call.examined_left != nullptr && *call.examined_left == 0) return EndAt(call, place);
    TOPICDB_ASSIGN_OR_RETURN(const auto page, reader->LoadPage(block, number, PageParts::kKeys));
    const std::size_t before = *removed;
    const bool complete = RemoveFromPage(call, *page, &rows, removed);
    if (*removed > before) changed_[place] = std::move(rows);
    if (!complete) return EndAt(call, place);
  }
  return true;
}

bool ColumnarRemover::EndAt(const Call& call, const PlaceOfPage& place) {
  if (call.progress != nullptr) std::tie(call.progress->block, call.progress->page) = place;
  return false;
}

bool ColumnarRemover::RemoveFromPage(const Call& call, const Page& page, DeletedRows* deleted,
                                     std::size_t* removed) {
  if (call.examined_left != nullptr) {
    *call.examined_left -= std::min<std::size_t>(*call.examined_left, page.rows());
  }
  DeletedRows found;
  bool complete = true;
  for (std::uint32_t row = 0; row < page.rows(); ++row) {
    const std::uint32_t topic = page.topic_of(row);
    if (!call.rows.Wants(page, row) ||
        !call.topics.Selects(page.stream(topic), page.topic(topic)) ||
        std::binary_search(deleted->begin(), deleted->end(), row)) {
      continue;
    }
    if (call.rows.IsMasked(page, row)) continue;
    if (*removed == call.removed_max) {
      complete = false;
      break;
    }
    found.push_back(row);
    ++*removed;
  }
  DeletedRows all;
  std::merge(deleted->begin(), deleted->end(), found.begin(), found.end(), std::back_inserter(all));
  *deleted = std::move(all);
  return complete;
}

Status ColumnarRemover::RemovePoint(const PlacedMessage& place, const std::vector<RowMask>& masks,
                                    Serial serial_max, std::size_t* removed) {
  TOPICDB_ASSIGN_OR_RETURN(Filter topic, Filter::Parse(place.topic));
  const ReadRequest request = PointRequest(place, std::move(topic), masks, serial_max);
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  return RemoveWanted({TopicSelector(request), RowSelector(request, kNoSerial), kAll}, removed)
      .status();
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
