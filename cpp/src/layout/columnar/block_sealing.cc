#include "layout/columnar/block_sealing.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "base/hash.h"
#include "rocks/log_check.h"
#include "rocks/rocks_compat.h"

namespace topicdb::columnar {

namespace {

constexpr std::size_t kMergedMin = 8;  // small sealed blocks that are merged
constexpr std::size_t kWriteBytes = std::size_t{1} << 20;

struct TopicKey {
  std::uint32_t stream;
  std::string_view topic;
  auto operator<=>(const TopicKey&) const = default;
};
struct TopicKeyHash {
  std::size_t operator()(const TopicKey& key) const { return Hash64(key.topic, key.stream); }
};

}  // namespace

BlockSealing::BlockSealing(const RocksSource& source, LayoutState* state, const SealLimits& limits)
    : source_(source), state_(state), limits_(limits), reader_(source) {}

Result<bool> BlockSealing::Gather(SealScope scope) {
  if (scope == SealScope::kClosed) codec_ = PageCodec::kZstd;
  std::vector<Block> chosen;
  if (scope != SealScope::kDue || state_->fresh_bytes >= limits_.fresh_bytes_max ||
      state_->fresh_blocks >= limits_.fresh_blocks_max) {
    TOPICDB_RETURN_IF_ERROR(ChooseFresh(&chosen));
  }
  if (!promoted_.empty()) return true;
  if (chosen.empty()) TOPICDB_RETURN_IF_ERROR(ChooseSealed(&chosen));
  if (chosen.empty()) return false;
  TOPICDB_RETURN_IF_ERROR(Load(std::move(chosen)));
  Sort();
  return true;
}

Status BlockSealing::ChooseFresh(std::vector<Block>* chosen) {
  std::vector<Block> blocks;  // the newest first
  TOPICDB_RETURN_IF_ERROR(reader_.ForEachFresh([&](Block block) {
    blocks.push_back(std::move(block));
    return true;
  }));
  std::size_t bytes = 0;
  std::size_t rows = 0;
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    // The order of commits is kept: nothing behind a staged block is sealed with what is before it.
    if (block->entry.staged && !chosen->empty()) break;
    if (block->entry.staged) {
      promoted_.push_back(std::move(*block));
      continue;
    }
    if (!promoted_.empty()) break;
    bytes += block->entry.bytes;
    rows += block->entry.rows;
    if (!chosen->empty() && (bytes > limits_.block_bytes_max || rows > SealLimits::kBlockRowsMax))
      break;
    chosen->push_back(std::move(*block));
  }
  return Status::Ok();
}

Status BlockSealing::ChooseSealed(std::vector<Block>* chosen) {
  std::vector<Block> blocks;
  TOPICDB_RETURN_IF_ERROR(reader_.ForEachSealed([&](Block block) {
    blocks.push_back(std::move(block));
    return true;
  }));
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
    return a.entry.extent.first_serial < b.entry.extent.first_serial;
  });
  std::size_t bytes_max = limits_.block_bytes_max / kMergedMin;
  std::size_t rows_max = SealLimits::kBlockRowsMax / kMergedMin;
  std::optional<std::size_t> begin;
  // The smallest that are enough.
  for (; bytes_max > 0 && rows_max > 0; bytes_max /= kMergedMin, rows_max /= kMergedMin) {
    std::size_t small = 0;
    bool found = false;
    for (std::size_t i = 0; i < blocks.size() && !found; ++i) {
      const BlockEntry& entry = blocks[i].entry;
      small = entry.bytes <= bytes_max && entry.rows <= rows_max ? small + 1 : 0;
      found = small == kMergedMin;
      if (found) begin = i + 1 - kMergedMin;
    }
    if (!found) break;
  }
  if (begin.has_value()) {
    for (std::size_t i = *begin; i < *begin + kMergedMin; ++i) {
      chosen->push_back(std::move(blocks[i]));
    }
    return Status::Ok();
  }
  TOPICDB_RETURN_IF_ERROR(ChooseDeleted(blocks, chosen));
  if (!chosen->empty() || codec_ != PageCodec::kZstd) return Status::Ok();
  const auto other = std::find_if(blocks.begin(), blocks.end(),
                                  [&](const Block& block) { return block.entry.codec != codec_; });
  if (other != blocks.end()) chosen->push_back(std::move(*other));
  return Status::Ok();
}

Status BlockSealing::ChooseDeleted(const std::vector<Block>& blocks, std::vector<Block>* chosen) {
  for (const Block& block : blocks) {
    TOPICDB_ASSIGN_OR_RETURN(const auto deleted, reader_.LoadDeleted(block.id));
    std::size_t rows = 0;
    for (const auto& [page, deleted_rows] : deleted) rows += deleted_rows.size();
    if (2 * rows < block.entry.rows) continue;
    chosen->push_back(block);
    return Status::Ok();
  }
  return Status::Ok();
}

Status BlockSealing::Load(std::vector<Block> chosen) {
  for (Block& block : chosen) {
    Input& input = inputs_.emplace_back();
    input.block = std::move(block);
    if (!input.block.sealed) {  // staged ones are promoted first
      ++fresh_blocks_;
      fresh_bytes_ += input.block.entry.bytes;
    }
    TOPICDB_ASSIGN_OR_RETURN(input.deleted, reader_.LoadDeleted(input.block.id));
    for (std::uint32_t page = 0; page < input.block.entry.pages; ++page) {
      TOPICDB_ASSIGN_OR_RETURN(auto loaded, reader_.LoadPage(input.block, page));
      input.pages.push_back(std::move(loaded));
    }
  }
  return Status::Ok();
}

void BlockSealing::Sort() {
  std::unordered_map<TopicKey, std::uint32_t, TopicKeyHash> numbers;
  std::vector<TopicKey> topics;
  std::vector<std::pair<std::uint32_t, Origin>> rows;  // by topic number
  for (std::uint32_t i = 0; i < inputs_.size(); ++i) {
    for (std::uint32_t p = 0; p < inputs_[i].pages.size(); ++p) {
      const Page& page = *inputs_[i].pages[p];
      std::vector<std::uint32_t> number_of(page.topics());
      for (std::uint32_t topic = 0; topic < page.topics(); ++topic) {
        const TopicKey key{page.stream(topic), page.topic(topic)};
        const auto [found, is_new] =
            numbers.try_emplace(key, static_cast<std::uint32_t>(topics.size()));
        if (is_new) topics.push_back(key);
        number_of[topic] = found->second;
      }
      const DeletedRows& deleted = inputs_[i].deleted[p];
      auto next_deleted = deleted.begin();
      for (std::uint32_t row = 0; row < page.rows(); ++row) {
        if (next_deleted != deleted.end() && *next_deleted == row) {
          ++next_deleted;
          continue;
        }
        rows.push_back({number_of[page.topic_of(row)], {i, p, row}});
      }
    }
  }

  // Rows of one topic come together in the order in which they were committed; mostly that is their
  // final one.
  std::vector<std::uint32_t> order(topics.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return topics[a] < topics[b]; });
  std::vector<std::size_t> begins(topics.size() + 1);
  for (const auto& [topic, origin] : rows) ++begins[topic];
  std::size_t begin = 0;
  for (const std::uint32_t topic : order) begin += std::exchange(begins[topic], begin);
  rows_.resize(rows.size());
  origins_.resize(rows.size());
  std::vector<std::size_t> next = begins;
  for (const auto& [topic, origin] : rows) origins_[next[topic]++] = origin;
  const auto page_of = [&](const Origin& origin) -> const Page& {
    return *inputs_[origin.input].pages[origin.page];
  };
  const auto key_of = [&](const Origin& origin) {
    const Page& page = page_of(origin);
    return std::tuple(page.time(origin.row), page.serial(origin.row), page.index(origin.row));
  };
  for (const std::uint32_t topic : order) {
    const auto first = origins_.begin() + static_cast<std::ptrdiff_t>(begins[topic]);
    const auto last = origins_.begin() + static_cast<std::ptrdiff_t>(next[topic]);
    const auto by_key = [&](const Origin& a, const Origin& b) { return key_of(a) < key_of(b); };
    if (!std::is_sorted(first, last, by_key)) std::sort(first, last, by_key);
    for (auto origin = first; origin != last; ++origin) {
      const Page& page = page_of(*origin);
      rows_[static_cast<std::size_t>(origin - origins_.begin())] = {
          topics[topic].stream,     topics[topic].topic,     page.time(origin->row),
          page.serial(origin->row), page.index(origin->row), page.value(origin->row)};
    }
  }
}

Status BlockSealing::WriteData() {
  if (rows_.empty()) return Status::Ok();  // all are deleted, or nothing is to be written
  block_ = state_->next_block.fetch_add(1);
  rocksdb::WriteBatch batch;
  rocksdb::WriteOptions options;
  // The slab may be dropped meanwhile; RocksDB would take no more writes after one that failed.
  options.ignore_missing_column_families = true;
  const auto write = [&] {
    const rocksdb::Status status = source_.log == nullptr
                                       ? source_.db->Write(options, &batch)
                                       : source_.log->Write(source_.db, options, &batch);
    batch.Clear();
    return rocks::FromRocks(status, "sealing blocks");
  };
  builder_.emplace(codec_, limits_.page_bytes_max);
  const PageSink put = [&](std::uint32_t number, std::string_view page) {
    const rocksdb::Status status =
        batch.Put(source_.families.sealed, SealedPageKey(block_, number), page);
    if (status.ok() && batch.GetDataSize() >= kWriteBytes) return write();
    return rocks::FromRocks(status, "sealing blocks");
  };
  TOPICDB_RETURN_IF_ERROR(builder_->Build(rows_, put));
  // Compressed here, where nobody waits.
  TOPICDB_ASSIGN_OR_RETURN(topic_record_, builder_->TopicRecord());
  return write();
}

Result<BlockSealing::DeletedByPage> BlockSealing::DeletedSince(const RocksSource& now) const {
  BlockReader reader(now);
  std::vector<Origin> deleted;
  for (std::uint32_t i = 0; i < inputs_.size(); ++i) {
    TOPICDB_ASSIGN_OR_RETURN(const auto pages, reader.LoadDeleted(inputs_[i].block.id));
    for (const auto& [page, rows] : pages) {
      const auto before = inputs_[i].deleted.find(page);
      for (const std::uint32_t row : rows) {
        const bool was_known =
            before != inputs_[i].deleted.end() &&
            std::binary_search(before->second.begin(), before->second.end(), row);
        if (!was_known) deleted.push_back({i, page, row});
      }
    }
  }
  DeletedByPage result;
  if (deleted.empty()) return result;
  std::sort(deleted.begin(), deleted.end());
  const std::vector<std::size_t>& begins = builder_->page_begins();
  for (std::size_t page = 0; page < begins.size(); ++page) {
    const std::size_t begin = begins[page];
    const std::size_t end = page + 1 < begins.size() ? begins[page + 1] : rows_.size();
    for (std::size_t row = begin; row < end; ++row) {
      if (!std::binary_search(deleted.begin(), deleted.end(), origins_[row])) continue;
      result[static_cast<std::uint32_t>(page)].push_back(static_cast<std::uint32_t>(row - begin));
    }
  }
  return result;
}

Status BlockSealing::RemoveInputs(const RocksSource& now, rocksdb::WriteBatch* batch) const {
  BlockReader reader(now);
  rocksdb::Status status;
  const auto remove = [&](rocksdb::ColumnFamilyHandle* family, const std::string& key) {
    if (status.ok()) status = batch->Delete(family, key);
  };
  for (const Input& input : inputs_) {
    const BlockId block = input.block.id;
    std::uint64_t pages = block;
    if (input.block.entry.staged) {
      TOPICDB_ASSIGN_OR_RETURN(const auto placement, reader.LoadPlacement(input.block));
      pages = placement->pages;
      remove(now.families.main, RecordKey(RecordKind::kPlacement, block));
    }
    remove(
        now.families.main,
        RecordKey(input.block.sealed ? RecordKind::kSealedEntry : RecordKind::kFreshEntry, block));
    if (input.block.is_paged()) {
      remove(now.families.main, RecordKey(RecordKind::kDirectory, block));
      remove(now.families.main, RecordKey(RecordKind::kWordFilter, block));
      remove(now.families.main, RecordKey(RecordKind::kTopics, block));
      for (std::uint32_t page = 0; page < input.block.entry.pages; ++page) {
        remove(now.families.sealed, SealedPageKey(pages, page));
      }
    } else {
      remove(now.families.main, RecordKey(RecordKind::kFreshPage, block));
    }
    TOPICDB_ASSIGN_OR_RETURN(const auto deleted, reader.LoadDeleted(block));
    for (const auto& [page, rows] : deleted) {
      remove(now.families.main, DeletedRowsKey(block, page));
    }
  }
  return rocks::FromRocks(status, "sealing blocks");
}

Status BlockSealing::Promote(const RocksSource& now, rocksdb::WriteBatch* batch) const {
  rocksdb::Status status;
  for (const Block& block : promoted_) {
    if (status.ok()) {
      status = batch->Delete(now.families.main, RecordKey(RecordKind::kFreshEntry, block.id));
    }
    if (status.ok()) {
      status = batch->Put(now.families.main, RecordKey(RecordKind::kSealedEntry, block.id),
                          Encode(block.entry));
    }
  }
  return rocks::FromRocks(status, "sealing blocks");
}

Status BlockSealing::Install(const RocksSource& now, rocksdb::WriteBatch* batch) {
  TOPICDB_RETURN_IF_ERROR(Promote(now, batch));
  TOPICDB_RETURN_IF_ERROR(RemoveInputs(now, batch));
  if (rows_.empty()) return Status::Ok();
  rocksdb::Status status;
  const auto put = [&](const std::string& key, const std::string& value) {
    if (status.ok()) status = batch->Put(now.families.main, key, value);
  };
  put(RecordKey(RecordKind::kSealedEntry, block_), Encode(builder_->entry()));
  put(RecordKey(RecordKind::kDirectory, block_), Encode(builder_->directory()));
  put(RecordKey(RecordKind::kWordFilter, block_), EncodeFilter(builder_->word_filter()));
  if (IsWorthStoring(topic_record_, builder_->entry().bytes)) {
    put(RecordKey(RecordKind::kTopics, block_), topic_record_);
  }
  TOPICDB_ASSIGN_OR_RETURN(const DeletedByPage deleted, DeletedSince(now));
  for (const auto& [page, rows] : deleted) put(DeletedRowsKey(block_, page), Encode(rows));
  return rocks::FromRocks(status, "sealing blocks");
}

void BlockSealing::Apply() {
  state_->fresh_blocks -= fresh_blocks_ + promoted_.size();
  state_->fresh_bytes -= fresh_bytes_;
}

}  // namespace topicdb::columnar
