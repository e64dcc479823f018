#include "layout/columnar/seal/block_merge.h"

#include <algorithm>

namespace topicdb::columnar {

Status BlockMerge::Load() {
  BlockReader reader(source_);
  for (std::size_t i = 0; i < plan_.blocks.size(); ++i) {
    const Block& block = plan_.blocks[i];
    TOPICDB_ASSIGN_OR_RETURN(auto deleted, reader.LoadDeleted(block.id));
    for (std::uint32_t page = 0; page < block.entry.pages; ++page) {
      TOPICDB_ASSIGN_OR_RETURN(auto loaded, reader.LoadPage(block, page));
      pages_.push_back({std::move(loaded), std::move(deleted[page])});
      page_names_.emplace_back(i, page);
    }
  }
  sorted_ = SortByTopic(pages_);
  return Status::Ok();
}

Status BlockMerge::WriteData() {
  if (sorted_.rows.empty()) return Status::Ok();
  output_.emplace(state_->NewBlockId(), plan_.codec, limits_, plan_.level);
  return output_->WritePages(source_, sorted_.rows);
}

Result<DeletedByPage> BlockMerge::DeletedSince(const RocksSource& now) const {
  BlockReader reader(now);
  std::vector<RowOrigin> deleted;
  std::vector<DeletedByPage> by_input;
  for (const Block& block : plan_.blocks) {
    TOPICDB_ASSIGN_OR_RETURN(by_input.emplace_back(), reader.LoadDeleted(block.id));
  }
  for (std::uint32_t i = 0; i < pages_.size(); ++i) {
    const auto& [input, page] = page_names_[i];
    const DeletedRows& before = pages_[i].deleted;
    for (const std::uint32_t row : by_input[input][page]) {
      if (!std::binary_search(before.begin(), before.end(), row)) deleted.push_back({i, row});
    }
  }
  DeletedByPage result;
  if (deleted.empty()) return result;
  const std::vector<std::size_t>& begins = output_->builder().page_begins();
  for (std::size_t page = 0; page < begins.size(); ++page) {
    const std::size_t begin = begins[page];
    const std::size_t end = page + 1 < begins.size() ? begins[page + 1] : sorted_.rows.size();
    for (std::size_t row = begin; row < end; ++row) {
      if (!std::binary_search(deleted.begin(), deleted.end(), sorted_.origins[row])) continue;
      result[static_cast<std::uint32_t>(page)].push_back(static_cast<std::uint32_t>(row - begin));
    }
  }
  return result;
}

Status BlockMerge::Install(const RocksSource& now, rocksdb::WriteBatch* batch) {
  if (!output_.has_value()) return Status::Ok();
  TOPICDB_ASSIGN_OR_RETURN(const DeletedByPage deleted, DeletedSince(now));
  return output_->PutRecords(now, deleted, batch);
}

}  // namespace topicdb::columnar
