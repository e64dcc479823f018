#include "layout/columnar/page_merge.h"

#include <algorithm>

namespace topicdb::columnar {

namespace {

// Pages that one run takes; more runs follow if more of them overlap.
constexpr std::size_t kRunBytesMax = std::size_t{24} << 20;

}  // namespace

PageMerge::PageMerge(const RocksSource& source, const ReadRequest& request, MergeOrder order,
                     std::optional<RowKey> after, std::uint64_t serial_min)
    : selector_(request),
      rows_(request, serial_min),
      memory_max_(request.memory_bytes_max),
      order_(order),
      reader_(source),
      after_(after) {}

std::uint64_t PageMerge::FirstOf(const Extent& extent) const {
  return order_ == MergeOrder::kTime ? static_cast<std::uint64_t>(extent.first_time)
                                     : extent.first_serial;
}

std::uint64_t PageMerge::LastOf(const Extent& extent) const {
  return order_ == MergeOrder::kTime ? static_cast<std::uint64_t>(extent.last_time)
                                     : extent.last_serial;
}

RowKey PageMerge::KeyOf(const Page& page, std::uint32_t row) const {
  if (order_ == MergeOrder::kTime) {
    return {static_cast<std::uint64_t>(page.time(row)), page.serial(row), page.index(row)};
  }
  return {page.serial(row), page.index(row), 0};
}

bool PageMerge::Concerns(const Extent& extent) const {
  if (!rows_.Concerns(extent)) return false;
  if (after_.has_value() && LastOf(extent) < after_->major) return false;
  return !ceiling_.has_value() || FirstOf(extent) <= ceiling_->major;
}

Status PageMerge::List() {
  listed_ = true;
  Status fault;
  bool needs_older = true;
  const auto add = [&](Block block) {
    fault = AddBlock(std::move(block));
    return fault.ok();
  };
  TOPICDB_RETURN_IF_ERROR(reader_.ForEachFresh([&](Block block) {
    // Fresh blocks come from the last to the first, and sealed ones hold what was committed before
    // them: who follows the log needs no older one.
    needs_older = block.entry.extent.first_serial >= rows_.serial_min();
    return add(std::move(block)) && needs_older;
  }));
  TOPICDB_RETURN_IF_ERROR(fault);
  if (needs_older) {
    TOPICDB_RETURN_IF_ERROR(reader_.ForEachSealed(add));
    TOPICDB_RETURN_IF_ERROR(fault);
  }
  std::sort(blocks_.begin(), blocks_.end(), [&](const Block& a, const Block& b) {
    return std::pair(FirstOf(a.entry.extent), a.id) < std::pair(FirstOf(b.entry.extent), b.id);
  });
  deleted_.resize(blocks_.size());
  return Status::Ok();
}

Status PageMerge::AddBlock(Block block) {
  ++counters_.blocks;
  if (!Concerns(block.entry.extent)) {
    ++counters_.blocks_skipped_by_time;
    return Status::Ok();
  }
  if (!selector_.MayHoldStreams(block.entry.streams)) {
    ++counters_.blocks_skipped_by_stream;
    return Status::Ok();
  }
  if (block.is_paged() && selector_.has_words()) {
    TOPICDB_ASSIGN_OR_RETURN(const std::string filter, reader_.LoadWordFilter(block.id));
    if (!selector_.MayHoldWords(filter)) {
      ++counters_.blocks_skipped_by_word;
      return Status::Ok();
    }
  }
  block.entry.streams = {};
  blocks_.push_back(std::move(block));
  return Status::Ok();
}

Status PageMerge::ExpandBlocks(std::uint64_t major) {
  while (next_block_ < blocks_.size() && FirstOf(blocks_[next_block_].entry.extent) <= major) {
    const std::size_t index = next_block_++;
    if (Concerns(blocks_[index].entry.extent)) TOPICDB_RETURN_IF_ERROR(ExpandBlock(index));
  }
  return Status::Ok();
}

Status PageMerge::ExpandBlock(std::size_t index) {
  const Block& block = blocks_[index];
  if (!block.is_paged()) {
    ++counters_.pages;
    pending_.push({FirstOf(block.entry.extent), LastOf(block.entry.extent), index, 0});
    return Status::Ok();
  }
  TOPICDB_ASSIGN_OR_RETURN(const Directory directory, reader_.LoadDirectory(block));
  TOPICDB_ASSIGN_OR_RETURN(const WantedStreams streams, selector_.StreamsIn(block, &reader_));
  for (std::uint32_t page = 0; page < directory.size(); ++page) {
    ++counters_.pages;
    const PageEntry& entry = directory[page];
    const PageEntry* next = page + 1 < directory.size() ? &directory[page + 1] : nullptr;
    if (!Concerns(entry.extent)) {
      ++counters_.pages_skipped_by_time;
    } else if (!selector_.MayHoldPage(streams, entry, next)) {
      ++counters_.pages_skipped_by_topic;
    } else {
      pending_.push({FirstOf(entry.extent), LastOf(entry.extent), index, page});
    }
  }
  return Status::Ok();
}

bool PageMerge::NeedsPages() const {
  if (heads_.empty()) return !pending_.empty() || next_block_ < blocks_.size();
  const std::uint64_t head = heads_.top().key.major;
  if (!pending_.empty() && pending_.top().first <= head) return true;
  return next_block_ < blocks_.size() && FirstOf(blocks_[next_block_].entry.extent) <= head;
}

Result<PageMerge::State> PageMerge::Prepare(std::size_t examined_max) {
  if (!listed_) TOPICDB_RETURN_IF_ERROR(List());
  const std::uint64_t start = counters_.rows_examined;
  while (true) {
    while (NeedsPages()) {
      if (counters_.rows_examined - start > examined_max) return State::kPaused;
      if (memory_ > memory_max_ && waiting_ > 1) {
        TOPICDB_RETURN_IF_ERROR(Shrink());
        continue;
      }
      TOPICDB_RETURN_IF_ERROR(LoadRun());
    }
    if (!heads_.empty()) return State::kReady;
    if (!ceiling_.has_value()) return State::kExhausted;
    after_ = ceiling_;
    ceiling_.reset();
    next_block_ = 0;
  }
}

Status PageMerge::LoadRun() {
  std::uint64_t first = pending_.empty() ? ~std::uint64_t{0} : pending_.top().first;
  if (next_block_ < blocks_.size()) {
    first = std::min(first, FirstOf(blocks_[next_block_].entry.extent));
  }
  TOPICDB_RETURN_IF_ERROR(ExpandBlocks(first));
  if (pending_.empty()) return Status::Ok();
  const std::uint64_t last = pending_.top().last;
  TOPICDB_RETURN_IF_ERROR(ExpandBlocks(last));
  std::vector<MergedRow> rows;
  const std::size_t memory_end = memory_ + kRunBytesMax;
  do {
    const Pending pending = pending_.top();
    pending_.pop();
    TOPICDB_RETURN_IF_ERROR(LoadPage(pending, &rows));
  } while (!pending_.empty() && pending_.top().first <= last && memory_ < memory_end &&
           memory_ <= memory_max_);
  AddRun(std::move(rows));
  return Status::Ok();
}

Status PageMerge::LoadPage(const Pending& pending, std::vector<MergedRow>* rows) {
  const Block& block = blocks_[pending.block];
  auto& deleted = deleted_[pending.block];
  if (!deleted.has_value()) {
    TOPICDB_ASSIGN_OR_RETURN(deleted, reader_.LoadDeleted(block.id));
  }
  TOPICDB_ASSIGN_OR_RETURN(auto page, reader_.LoadPage(block, pending.page));
  ++counters_.pages_read;
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  const auto found = deleted->find(pending.page);
  const std::size_t before = rows->size();
  SelectRows(*page, found == deleted->end() ? nullptr : &found->second, slot, rows);
  const std::size_t found_rows = rows->size() - before;
  const std::size_t memory = page->memory_bytes() + found_rows * sizeof(MergedRow);
  memory_ += memory;
  waiting_ += found_rows;
  slots_[slot] = {std::move(page), found_rows, memory};
  if (found_rows == 0) Release(slot, 0);
  return Status::Ok();
}

void PageMerge::SelectRows(const Page& page, const DeletedRows* deleted, std::uint32_t slot,
                           std::vector<MergedRow>* rows) {
  counters_.rows_examined += page.rows();
  std::vector<bool> wanted(page.topics());
  bool any = false;
  for (std::uint32_t topic = 0; topic < page.topics(); ++topic) {
    wanted[topic] = selector_.Selects(page.stream(topic), page.topic(topic));
    any = any || wanted[topic];
  }
  if (!any) return;
  const bool covered = rows_.Covers(page.extent());
  std::size_t next_deleted = 0;
  for (std::uint32_t row = 0; row < page.rows(); ++row) {
    if (deleted != nullptr && next_deleted < deleted->size() && (*deleted)[next_deleted] == row) {
      ++next_deleted;
      continue;
    }
    if (!wanted[page.topic_of(row)]) continue;
    if (!covered && !rows_.Wants(page, row)) continue;
    const RowKey key = KeyOf(page, row);
    if (after_.has_value() && key <= *after_) continue;
    if (ceiling_.has_value() && key > *ceiling_) continue;
    if (rows_.has_masks() && rows_.IsMasked(page, row)) continue;
    rows->push_back({key, slot, row});
  }
}

void PageMerge::AddRun(std::vector<MergedRow> rows) {
  if (rows.empty()) return;
  SortRows(&rows);
  if (free_runs_.empty()) {
    free_runs_.push_back(runs_.size());
    runs_.emplace_back();
  }
  const std::size_t run = free_runs_.back();
  free_runs_.pop_back();
  heads_.push({rows.front().key, run});
  runs_[run] = {std::move(rows), 0};
}

std::span<const MergedRow> PageMerge::Ready() {
  const RunHead head = heads_.top();
  const Run& run = runs_[head.run];
  const std::span<const MergedRow> rows = std::span(run.rows).subspan(run.next);
  // Up to what other runs, and pages that are not loaded, may have first.
  std::optional<RowKey> other;
  const auto limit = [&](const RowKey& key) { other = other ? std::min(*other, key) : key; };
  if (!pending_.empty()) limit({pending_.top().first, 0, 0});
  if (next_block_ < blocks_.size()) limit({FirstOf(blocks_[next_block_].entry.extent), 0, 0});
  heads_.pop();
  if (!heads_.empty()) limit(heads_.top().key);
  heads_.push(head);
  if (!other.has_value() || rows.back().key < *other) return rows;
  const auto end =
      std::lower_bound(rows.begin(), rows.end(), *other,
                       [](const MergedRow& row, const RowKey& key) { return row.key < key; });
  return rows.first(static_cast<std::size_t>(end - rows.begin()));
}

void PageMerge::Consume(std::size_t count) {
  if (count == 0) return;
  const std::size_t index = heads_.top().run;
  Run& run = runs_[index];
  counters_.rows_matched += count;
  for (std::size_t i = 0; i < count; ++i) Release(run.rows[run.next + i].slot, 1);
  run.next += count;
  heads_.pop();
  if (run.next < run.rows.size()) {
    heads_.push({run.rows[run.next].key, index});
  } else {
    run = {};
    free_runs_.push_back(index);
  }
}

void PageMerge::Release(std::uint32_t slot, std::size_t rows) {
  Slot& held = slots_[slot];
  held.waiting -= rows;
  waiting_ -= rows;
  if (held.waiting > 0) return;
  memory_ -= held.memory;
  held.page.reset();
  free_slots_.push_back(slot);
}

std::vector<MergedRow> PageMerge::FirstHalf() const {
  std::vector<MergedRow> rows;
  for (const Run& run : runs_) {
    rows.insert(rows.end(), run.rows.begin() + static_cast<std::ptrdiff_t>(run.next),
                run.rows.end());
  }
  SortRows(&rows);
  rows.resize(std::min<std::size_t>((rows.size() + 1) / 2, kPageRowsMax));
  std::size_t bytes = 0;
  std::size_t kept = 0;
  for (; kept < rows.size(); ++kept) {
    bytes += page(rows[kept]).value(rows[kept].row).size();
    if (kept > 0 && bytes > memory_max_ / 2) break;
  }
  rows.resize(kept);
  return rows;
}

Status PageMerge::Shrink() {
  std::vector<MergedRow> rows = FirstHalf();
  ceiling_ = rows.back().key;
  // A plain page wants serials in their order.
  std::sort(rows.begin(), rows.end(), [&](const MergedRow& a, const MergedRow& b) {
    return page(a).serial(a.row) < page(b).serial(b.row);
  });
  PlainPageBuilder builder;
  for (const MergedRow& row : rows) {
    const Page& from = page(row);
    const std::uint32_t topic = from.topic_of(row.row);
    builder.AddRow(builder.AddTopic(from.stream(topic), from.topic(topic)), from.time(row.row),
                   from.serial(row.row), from.index(row.row), from.value(row.row));
  }
  std::string bytes;
  for (const std::string_view part : builder.Encode()) bytes.append(part);
  TOPICDB_ASSIGN_OR_RETURN(auto copy, Page::Decode(std::move(bytes)));

  runs_.clear();
  free_runs_.clear();
  heads_ = {};
  free_slots_.clear();
  for (std::uint32_t row = 0; row < rows.size(); ++row) rows[row] = {rows[row].key, 0, row};
  memory_ = copy->memory_bytes() + rows.size() * sizeof(MergedRow);
  waiting_ = rows.size();
  slots_.clear();
  slots_.push_back({std::move(copy), rows.size(), memory_});
  AddRun(std::move(rows));

  // What is behind the ceiling is not for this pass.
  std::priority_queue<Pending> pending;
  for (; !pending_.empty() && pending_.top().first <= ceiling_->major; pending_.pop()) {
    pending.push(pending_.top());
  }
  pending_ = std::move(pending);
  return Status::Ok();
}

ReadCounters PageMerge::counters() const {
  ReadCounters counters = counters_;
  counters.bytes_read = reader_.bytes_read();
  return counters;
}

}  // namespace topicdb::columnar
