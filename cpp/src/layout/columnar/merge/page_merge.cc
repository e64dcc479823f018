#include "layout/columnar/merge/page_merge.h"

#include <algorithm>
#include <limits>

#include "layout/columnar/merge/key_windows.h"

namespace topicdb::columnar {

namespace {

// A run ends once its pages take this much memory. If more pages overlap, more runs follow.
constexpr std::size_t kRunBytesMax = std::size_t{24} << 20;
// Parts of the merge's memory. The heap keeps memory that was freed, so the memory of pages and
// that of windows add up. Pages get one half. A window and the window that is read ahead get the
// other.
constexpr std::size_t kPagesShare = 2;        // 1 / 2: beyond that the merge goes through windows
constexpr std::size_t kWindowPagesShare = 4;  // 1 / 4: pages may take at least that in a window
constexpr double kWindowShare = 4;            // 1 / 4: what a window should have
constexpr std::size_t kWindowMaxShare = 3;    // 1 / 3: a window that has more is divided
constexpr std::size_t kNearWindows = 4;       // a page that ends behind these does not stay loaded

}  // namespace

PageMerge::PageMerge(const RocksSource& source, const ReadRequest& request, MergeOrder order,
                     std::optional<RowKey> after, Serial serial_min)
    : selector_(request),
      rows_(request, serial_min),
      memory_max_(request.memory_bytes_max),
      order_(order),
      parts_(PartsOf(request)),
      directory_(source.db->GetName()),
      reader_(source),
      after_(after) {}

std::uint64_t PageMerge::FirstOf(const Extent& extent) const {
  return order_ == MergeOrder::kTime ? static_cast<std::uint64_t>(extent.first_time)
                                     : extent.first_serial.value();
}

std::uint64_t PageMerge::LastOf(const Extent& extent) const {
  return order_ == MergeOrder::kTime ? static_cast<std::uint64_t>(extent.last_time)
                                     : extent.last_serial.value();
}

bool PageMerge::Concerns(const Extent& extent) const {
  return rows_.Concerns(extent) && (!after_.has_value() || LastOf(extent) >= after_->major);
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
    // Fresh blocks come from the last to the first, and sealed blocks hold what was committed
    // before them. So a reader that follows the log need not look at older blocks.
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

std::optional<std::uint64_t> PageMerge::NextFirst() const {
  std::optional<std::uint64_t> first;
  if (!pending_.empty()) first = pending_.top().first;
  if (next_block_ < blocks_.size()) {
    const std::uint64_t of_block = FirstOf(blocks_[next_block_].entry.extent);
    first = first.has_value() ? std::min(*first, of_block) : of_block;
  }
  return first;
}

bool PageMerge::NeedsPages() const {
  const std::optional<std::uint64_t> first = NextFirst();
  if (!first.has_value()) return false;
  if (spill_ != nullptr) return !is_window_whole_ && IsInWindow({*first, 0, 0});
  return heads_.empty() || *first <= heads_.top().key.major;
}

Result<PageMerge::State> PageMerge::Prepare(std::size_t examined_max) {
  if (!listed_) TOPICDB_RETURN_IF_ERROR(List());
  const std::uint64_t start = counters_.rows_examined;
  while (true) {
    while (NeedsPages()) {
      if (counters_.rows_examined - start > examined_max) return State::kPaused;
      if (spill_ == nullptr && memory_ > memory_max_ / kPagesShare && waiting_ > 1) {
        TOPICDB_RETURN_IF_ERROR(StartSpill());
        continue;
      }
      TOPICDB_RETURN_IF_ERROR(LoadRun());
    }
    if (spill_ != nullptr && !is_window_whole_) {
      TOPICDB_RETURN_IF_ERROR(TakeWindow());
      continue;  // the window may have become smaller
    }
    if (!heads_.empty() && IsInWindow(heads_.top().key)) return State::kReady;
    if (spill_ == nullptr || spill_->is_finished()) return State::kExhausted;
    window_end_ = spill_->EndMax();
    is_window_whole_ = false;
  }
}

Status PageMerge::LoadRun() {
  TOPICDB_RETURN_IF_ERROR(ExpandBlocks(NextFirst().value_or(0)));
  if (pending_.empty()) return Status::Ok();
  const std::uint64_t last = std::min(pending_.top().last, LastInWindow());
  TOPICDB_RETURN_IF_ERROR(ExpandBlocks(last));
  std::vector<MergedRow> rows;
  const std::size_t memory_end = memory_ + kRunBytesMax;
  do {
    TOPICDB_RETURN_IF_ERROR(LoadPages(last, &rows));
  } while (!pending_.empty() && pending_.top().first <= last && memory_ < memory_end &&
           memory_ <= memory_max_ / kPagesShare);
  SortRows(&rows);
  AddRun(std::move(rows));
  return Status::Ok();
}

Status PageMerge::LoadPages(std::uint64_t last, std::vector<MergedRow>* rows) {
  const std::uint64_t bytes_max =
      std::min<std::uint64_t>(BlockReader::kBytesAtOnceMax, memory_max_ / 4);
  std::vector<Pending> next;
  std::vector<BlockReader::PageRef> wanted;
  std::uint64_t bytes = 0;
  do {
    next.push_back(pending_.top());
    pending_.pop();
    const Block& block = blocks_[next.back().block];
    wanted.push_back({&block, next.back().page});
    bytes += block.BytesOfPage(parts_);
  } while (bytes < bytes_max && !pending_.empty() && pending_.top().first <= last);
  TOPICDB_ASSIGN_OR_RETURN(auto pages, reader_.LoadPages(wanted, parts_));
  std::vector<RowSpill::PageRows> later;
  for (std::size_t i = 0; i < next.size(); ++i) {
    TOPICDB_RETURN_IF_ERROR(TakePage(next[i], std::move(pages[i]), rows, &later));
  }
  return later.empty() ? Status::Ok() : spill_->Add(later);
}

Status PageMerge::TakePage(const Pending& pending, std::shared_ptr<const Page> taken,
                           std::vector<MergedRow>* rows, std::vector<RowSpill::PageRows>* later) {
  auto& deleted = deleted_[pending.block];
  if (!deleted.has_value()) {
    TOPICDB_ASSIGN_OR_RETURN(deleted, reader_.LoadDeleted(blocks_[pending.block].id));
  }
  ++counters_.pages_read;
  const Page& page = *taken;
  const std::uint32_t slot = AddSlot(std::move(taken));
  const auto found = deleted->find(pending.page);
  const DeletedRows none;
  const std::size_t before = rows->size();
  SelectRows(page, found == deleted->end() ? none : found->second, slot, rows);
  if (spill_ != nullptr && MustWait(pending)) {
    const auto begin = rows->begin() + static_cast<std::ptrdiff_t>(before);
    if (begin != rows->end()) later->push_back({slots_[slot].page, {begin, rows->end()}});
    rows->resize(before);
  }
  Hold(slot, rows->size() - before);
  return Status::Ok();
}

std::uint64_t PageMerge::LastInWindow() const {
  if (!window_end_.has_value()) return std::numeric_limits<std::uint64_t>::max();
  return IsInWindow({window_end_->major, 0, 0}) ? window_end_->major : window_end_->major - 1;
}

bool PageMerge::MustWait(const Pending& pending) const {
  const std::optional<RowKey> end = spill_->EndOf(kNearWindows);
  if (end.has_value() && !(RowKey{pending.last, ~std::uint64_t{0}, 0} < *end)) return true;
  const std::size_t window = std::min(spill_->NextBytesMax(), memory_max_ / kWindowPagesShare);
  return memory_ > memory_max_ / kPagesShare - window;
}

std::uint32_t PageMerge::AddSlot(std::shared_ptr<const Page> page) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[slot].page = std::move(page);
  return slot;
}

void PageMerge::Hold(std::uint32_t slot, std::size_t rows) {
  Slot& held = slots_[slot];
  held.waiting = rows;
  held.memory = held.page->memory_bytes() + rows * sizeof(MergedRow);
  memory_ += held.memory;
  waiting_ += rows;
  if (rows == 0) Release(slot, 0);
}

void PageMerge::SelectRows(const Page& page, const DeletedRows& deleted, std::uint32_t slot,
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
  DeletedCursor cursor(deleted);
  for (std::uint32_t row = 0; row < page.rows(); ++row) {
    if (cursor.Holds(row)) continue;
    if (!wanted[page.topic_of(row)]) continue;
    if (!covered && !rows_.Wants(page, row)) continue;
    const RowKey key = KeyOf(page, row);
    if (after_.has_value() && key <= *after_) continue;
    if (rows_.has_masks() && rows_.IsMasked(page, row)) continue;
    rows->push_back({key, slot, row});
  }
}

void PageMerge::AddRun(std::vector<MergedRow> rows) {
  if (rows.empty()) return;
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
  // The rows of the run are ready up to the first key that another run, or a page that is not
  // loaded, may have.
  std::optional<RowKey> other;
  const auto limit = [&](const RowKey& key) { other = other ? std::min(*other, key) : key; };
  if (const auto first = NextFirst()) limit({*first, 0, 0});
  if (window_end_.has_value()) limit(*window_end_);
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

std::vector<RowKey> PageMerge::ChooseBounds() const {
  std::vector<KeySpan> spans;
  double all_bytes = 0;
  const std::uint64_t begin = heads_.top().key.major;
  for (const Block& block : blocks_) {
    const Extent& extent = block.entry.extent;
    if (!Concerns(extent) || LastOf(extent) < begin) continue;
    const std::uint64_t first = std::max(FirstOf(extent), begin);
    const double share = (static_cast<double>(LastOf(extent) - first) + 1) /
                         (static_cast<double>(LastOf(extent) - FirstOf(extent)) + 1);
    const double bytes =
        share * static_cast<double>(RowSpill::MemoryOf(block.entry.rows, block.BytesOf(parts_)));
    all_bytes += bytes;
    spans.push_back({first, LastOf(extent), bytes});
  }
  const double window_bytes = std::max(static_cast<double>(memory_max_) / kWindowShare,
                                       all_bytes / static_cast<double>(RowSpill::kPartitionsMax));
  std::vector<RowKey> bounds;
  for (const std::uint64_t at : CutWindows(spans, window_bytes)) bounds.push_back({at, 0, 0});
  return bounds;
}

Status PageMerge::StartSpill() {
  const std::vector<RowKey> bounds = ChooseBounds();
  spill_ =
      std::make_unique<SpillWindows>(directory_, order_, bounds, memory_max_ / kWindowMaxShare);
  TOPICDB_RETURN_IF_ERROR(SpillRuns());
  window_end_ = spill_->EndMax();
  is_window_whole_ = false;
  return Status::Ok();
}

Status PageMerge::SpillRuns() {
  std::vector<RowSpill::PageRows> waiting(slots_.size());
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    waiting[slot].page = std::move(slots_[slot].page);
    waiting[slot].rows.reserve(slots_[slot].waiting);
  }
  for (Run& run : runs_) {
    for (const MergedRow& row : std::span(run.rows).subspan(run.next)) {
      waiting[row.slot].rows.push_back(row);
    }
    run = {};
  }
  TOPICDB_RETURN_IF_ERROR(spill_->Add(waiting));
  runs_.clear();
  free_runs_.clear();
  heads_ = {};
  slots_.clear();
  free_slots_.clear();
  memory_ = 0;
  waiting_ = 0;
  return Status::Ok();
}

Status PageMerge::TakeWindow() {
  TOPICDB_ASSIGN_OR_RETURN(SpillWindows::Window window, spill_->Take());
  window_end_ = window.end;
  is_window_whole_ = true;
  std::vector<std::uint32_t> slots;
  for (auto& page : window.pages) {
    const std::size_t rows = page->rows();
    slots.push_back(AddSlot(std::move(page)));
    Hold(slots.back(), rows);
  }
  for (MergedRow& row : window.rows) row.slot = slots[row.slot];
  AddRun(std::move(window.rows));
  return ReadAhead();
}

Status PageMerge::ReadAhead() {
  if (spill_->is_finished()) return Status::Ok();
  const std::optional<std::uint64_t> first = NextFirst();
  if (!first.has_value()) TOPICDB_RETURN_IF_ERROR(spill_->EndRows());
  const std::optional<RowKey> end = spill_->EndMax();
  const bool is_loaded = !first.has_value() || (end.has_value() && !(RowKey{*first, 0, 0} < *end));
  if (is_loaded) spill_->ReadAhead(memory_max_ - std::min(memory_, memory_max_));
  return Status::Ok();
}

ReadCounters PageMerge::counters() const {
  ReadCounters counters = counters_;
  counters.bytes_read = reader_.bytes_read();
  if (spill_ != nullptr) {
    counters.rows_spilled = spill_->rows_written();
    counters.bytes_spilled = spill_->bytes_written();
  }
  return counters;
}

}  // namespace topicdb::columnar
