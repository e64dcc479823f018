#include "layout/columnar/seal/block_spread.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "layout/columnar/merge/key_windows.h"

namespace topicdb::columnar {

namespace {

// A block is made of about this many windows. The finer the windows are, the more equal are the
// blocks in size.
constexpr std::uint64_t kWindowsInBlock = 16;
// A block may exceed the limit by one part in this many. Full blocks become as many new blocks, and
// new blocks are never all of the same size.
constexpr std::uint64_t kToleranceParts = 16;

std::uint64_t WithTolerance(std::uint64_t limit) { return limit + limit / kToleranceParts; }

std::string_view TopicOf(const Page& page, std::uint32_t row) {
  return page.topic(page.topic_of(row));
}

}  // namespace

Status BlockSpread::Load() {
  BlockReader reader(source_);
  for (const Block& block : plan_.blocks) {
    TOPICDB_ASSIGN_OR_RETURN(directories_.emplace_back(), reader.LoadDirectory(block));
    TOPICDB_ASSIGN_OR_RETURN(deleted_.emplace_back(), reader.LoadDeleted(block.id));
  }
  return Status::Ok();
}

std::uint64_t BlockSpread::BlockBytes() const {
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;
  for (const Block& block : plan_.blocks) {
    rows += block.entry.rows;
    bytes += block.entry.bytes;
  }
  const std::uint64_t blocks = std::max<std::uint64_t>(
      {bytes / limits_.block_bytes_max + 1, rows / SealLimits::kBlockRowsMax + 1, 1});
  return bytes / blocks + 1;
}

std::vector<RowKey> BlockSpread::ChooseBounds() const {
  std::vector<KeySpan> spans;
  double all_bytes = 0;
  for (std::size_t i = 0; i < plan_.blocks.size(); ++i) {
    const BlockEntry& entry = plan_.blocks[i].entry;
    for (const PageEntry& page : directories_[i]) {
      const double bytes = static_cast<double>(entry.bytes) * page.rows / entry.rows;
      spans.push_back({static_cast<std::uint64_t>(page.extent.first_time),
                       static_cast<std::uint64_t>(page.extent.last_time), bytes});
      all_bytes += bytes;
    }
  }
  const double window_bytes =
      std::max(static_cast<double>(BlockBytes()) / static_cast<double>(kWindowsInBlock),
               all_bytes / static_cast<double>(RowSpill::kPartitionsMax));
  std::vector<RowKey> bounds;
  for (const std::uint64_t at : CutWindows(spans, window_bytes)) bounds.push_back({at, 0, 0});
  return bounds;
}

Status BlockSpread::WriteData() {
  // The spill divides a window that is larger than a block.
  RowSpill spill(source_.db->GetName(), MergeOrder::kTime, ChooseBounds(), limits_.block_bytes_max);
  TOPICDB_RETURN_IF_ERROR(Distribute(&spill));
  TOPICDB_RETURN_IF_ERROR(WriteBlocks(&spill));
  // This finds most rows that were deleted meanwhile. No commit waits here, and Install has less to
  // do.
  return CarryDeletes({source_.db, nullptr, source_.families});
}

Status BlockSpread::Distribute(RowSpill* spill) {
  BlockReader reader(source_);
  for (std::size_t i = 0; i < plan_.blocks.size(); ++i) {
    for (std::uint32_t number = 0; number < directories_[i].size(); ++number) {
      const auto found = deleted_[i].find(number);
      const DeletedRows& deleted = found == deleted_[i].end() ? DeletedRows() : found->second;
      if (deleted.size() == directories_[i][number].rows) continue;
      TOPICDB_ASSIGN_OR_RETURN(const auto page, reader.LoadPage(plan_.blocks[i], number));
      DeletedCursor cursor(deleted);
      for (std::uint32_t row = 0; row < page->rows(); ++row) {
        if (cursor.Holds(row)) continue;
        TOPICDB_RETURN_IF_ERROR(spill->Add(KeyOf(MergeOrder::kTime, *page, row), *page, row));
      }
    }
  }
  return Status::Ok();
}

Status BlockSpread::WriteBlocks(RowSpill* spill) {
  const std::uint64_t block_bytes = BlockBytes();
  Group group;
  while (!spill->is_finished()) {
    TOPICDB_RETURN_IF_ERROR(spill->Prepare());
    Group window;
    window.begin = spill->Begin();
    TOPICDB_ASSIGN_OR_RETURN(auto pages, spill->Take());
    for (auto& page : pages) {
      window.rows += page->rows();
      window.bytes += page->values().size();
      for (std::uint32_t row = 0; row < page->rows(); ++row) {
        window.bytes += TopicOf(*page, row).size();
      }
      window.pages.push_back({std::move(page), {}});
    }
    const bool is_enough = group.bytes + window.bytes / 2 > block_bytes ||
                           group.bytes + window.bytes > WithTolerance(limits_.block_bytes_max) ||
                           group.rows + window.rows > WithTolerance(SealLimits::kBlockRowsMax);
    if (!group.pages.empty() && is_enough) {
      TOPICDB_RETURN_IF_ERROR(WriteBlock(std::exchange(group, {})));
    }
    if (group.pages.empty()) group.begin = window.begin;
    group.rows += window.rows;
    group.bytes += window.bytes;
    std::move(window.pages.begin(), window.pages.end(), std::back_inserter(group.pages));
  }
  return group.pages.empty() ? Status::Ok() : WriteBlock(std::move(group));
}

Status BlockSpread::WriteBlock(Group group) {
  const SortedRows sorted = SortByTopic(group.pages);
  auto output =
      std::make_unique<BlockOutput>(state_->NewBlockId(), plan_.codec, limits_, plan_.level);
  TOPICDB_RETURN_IF_ERROR(output->WritePages(source_, sorted.rows));
  outputs_.push_back({group.begin, std::move(output), {}});
  return Status::Ok();
}

Result<std::vector<BlockSpread::RowPlace>> BlockSpread::DeletedSince(BlockReader* reader) {
  std::vector<RowPlace> places;
  for (std::size_t i = 0; i < plan_.blocks.size(); ++i) {
    TOPICDB_ASSIGN_OR_RETURN(DeletedByPage now, reader->LoadDeleted(plan_.blocks[i].id));
    for (const auto& [number, rows] : now) {
      const DeletedRows& known = deleted_[i][number];
      DeletedRows more;
      std::set_difference(rows.begin(), rows.end(), known.begin(), known.end(),
                          std::back_inserter(more));
      if (more.empty()) continue;
      TOPICDB_ASSIGN_OR_RETURN(const auto page,
                               reader->LoadPage(plan_.blocks[i], number, PageParts::kKeys));
      for (const std::uint32_t row : more) {
        places.push_back({page->stream(page->topic_of(row)), std::string(TopicOf(*page, row)),
                          page->time(row), page->serial(row), page->index(row)});
      }
    }
    deleted_[i] = std::move(now);
  }
  return places;
}

Status BlockSpread::CarryDeletes(const RocksSource& now) {
  BlockReader reader(now);
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<RowPlace> places, DeletedSince(&reader));
  std::map<Output*, std::vector<RowPlace>> by_output;
  for (const RowPlace& place : places) {
    const RowKey key{static_cast<std::uint64_t>(place.time), place.serial.value(), place.index};
    const auto behind =
        std::upper_bound(outputs_.begin() + 1, outputs_.end(), key,
                         [](const RowKey& at, const Output& output) { return at < output.begin; });
    by_output[&*(behind - 1)].push_back(place);
  }
  for (auto& [output, of_output] : by_output) {
    std::sort(of_output.begin(), of_output.end());
    TOPICDB_RETURN_IF_ERROR(Delete(&reader, of_output, output));
  }
  return Status::Ok();
}

Status BlockSpread::Delete(BlockReader* reader, const std::vector<RowPlace>& places,
                           Output* output) {
  const Block block = output->block->block();
  const Directory& directory = output->block->builder().directory();
  const auto topic_of = [](const RowPlace& place) {
    return std::pair<StreamId, std::string_view>(place.stream, place.topic);
  };
  const auto first_of = [&](std::uint32_t page) {
    return std::pair<StreamId, std::string_view>(directory[page].first_stream,
                                                 directory[page].first_topic);
  };
  for (std::uint32_t number = 0; number < directory.size(); ++number) {
    const auto may_be_here = [&](const RowPlace& place) {
      return topic_of(place) >= first_of(number) &&
             (number + 1 == directory.size() || topic_of(place) <= first_of(number + 1)) &&
             place.time >= directory[number].extent.first_time &&
             place.time <= directory[number].extent.last_time;
    };
    if (std::none_of(places.begin(), places.end(), may_be_here)) continue;
    TOPICDB_ASSIGN_OR_RETURN(const auto page, reader->LoadPage(block, number, PageParts::kKeys));
    DeletedRows& deleted = output->deleted[number];
    for (std::uint32_t row = 0; row < page->rows(); ++row) {
      const RowPlace place{page->stream(page->topic_of(row)), std::string(TopicOf(*page, row)),
                           page->time(row), page->serial(row), page->index(row)};
      if (std::binary_search(places.begin(), places.end(), place)) deleted.push_back(row);
    }
    std::sort(deleted.begin(), deleted.end());  // earlier calls may have added rows of this page
    if (deleted.empty()) output->deleted.erase(number);
  }
  return Status::Ok();
}

Status BlockSpread::Install(const RocksSource& now, rocksdb::WriteBatch* batch) {
  TOPICDB_RETURN_IF_ERROR(CarryDeletes(now));
  for (const Output& output : outputs_) {
    TOPICDB_RETURN_IF_ERROR(output.block->PutRecords(now, output.deleted, batch));
  }
  return Status::Ok();
}

}  // namespace topicdb::columnar
