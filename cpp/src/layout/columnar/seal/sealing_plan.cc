#include "layout/columnar/seal/sealing_plan.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "layout/columnar/seal/overlap.h"

namespace topicdb::columnar {

namespace {

constexpr std::size_t kMergedMin = 8;  // how many small sealed blocks are merged at a time
// In a closed slab: at most this many blocks are spread at a time, and a block of this level is not
// spread again.
constexpr std::size_t kClosedSpreadMax = 16;
constexpr std::uint32_t kClosedLevelMax = 8;

using Blocks = std::vector<Block>;

Result<SealingPlan> PlanFresh(const BlockReader& reader, const SealLimits& limits) {
  Blocks fresh;  // newest first
  TOPICDB_RETURN_IF_ERROR(reader.ForEachFresh([&](Block block) {
    fresh.push_back(std::move(block));
    return true;
  }));
  SealingPlan plan;
  std::size_t bytes = 0;
  std::size_t rows = 0;
  for (auto block = fresh.rbegin(); block != fresh.rend(); ++block) {
    const auto kind = block->entry.staged ? SealingPlan::Kind::kPromote : SealingPlan::Kind::kMerge;
    // Sealing keeps the order of commits. So a step ends where the next block is of the other kind:
    // staged or not staged.
    if (!plan.blocks.empty() && kind != plan.kind) break;
    plan.kind = kind;
    bytes += block->entry.bytes;
    rows += block->entry.rows;
    const bool is_full = bytes > limits.block_bytes_max || rows > SealLimits::kBlockRowsMax;
    if (kind == SealingPlan::Kind::kMerge && !plan.blocks.empty() && is_full) break;
    plan.blocks.push_back(std::move(*block));
  }
  return plan;
}

// Returns the sealed blocks in the order of commits.
Result<Blocks> ListSealed(const BlockReader& reader) {
  Blocks blocks;
  TOPICDB_RETURN_IF_ERROR(reader.ForEachSealed([&](Block block) {
    blocks.push_back(std::move(block));
    return true;
  }));
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
    return a.entry.extent.first_serial < b.entry.extent.first_serial;
  });
  return blocks;
}

// Returns whether the block is so small that it waits to be merged with others of its size.
bool IsSmall(const BlockEntry& entry, const SealLimits& limits) {
  return entry.level == 0 && entry.bytes <= limits.block_bytes_max / kMergedMin &&
         entry.rows <= SealLimits::kBlockRowsMax / kMergedMin;
}

// Returns kMergedMin small blocks that follow each other, of the smallest size of which there are
// enough. Returns none if there are not enough. Blocks of a level above 0 are not merged.
Blocks ChooseSmall(const Blocks& all, const SealLimits& limits) {
  Blocks blocks;
  std::copy_if(all.begin(), all.end(), std::back_inserter(blocks),
               [](const Block& block) { return block.entry.level == 0; });
  std::size_t bytes_max = limits.block_bytes_max / kMergedMin;
  std::size_t rows_max = SealLimits::kBlockRowsMax / kMergedMin;
  std::optional<std::size_t> begin;
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
  if (!begin.has_value()) return {};
  const auto first = blocks.begin() + static_cast<std::ptrdiff_t>(*begin);
  return {first, first + kMergedMin};
}

// Returns a block of which at least half of the rows are deleted, or none.
Result<Blocks> ChooseDeleted(BlockReader* reader, const Blocks& blocks) {
  for (const Block& block : blocks) {
    TOPICDB_ASSIGN_OR_RETURN(const auto deleted, reader->LoadDeleted(block.id));
    std::size_t rows = 0;
    for (const auto& [page, deleted_rows] : deleted) rows += deleted_rows.size();
    if (2 * rows >= block.entry.rows) return Blocks{block};
  }
  return Blocks();
}

// Returns a block with another codec, or none.
Blocks ChooseOtherCodec(const Blocks& blocks, PageCodec codec) {
  const auto other = std::find_if(blocks.begin(), blocks.end(),
                                  [&](const Block& block) { return block.entry.codec != codec; });
  return other == blocks.end() ? Blocks() : Blocks{*other};
}

// Returns blocks that overlap in time. In a closed slab, where no more messages come, two blocks
// that overlap are enough.
Blocks ChooseToSpread(const Blocks& all, const SealLimits& limits, SealScope scope) {
  Blocks blocks = all;
  if (scope != SealScope::kClosed) {
    std::erase_if(blocks, [&](const Block& block) { return IsSmall(block.entry, limits); });
  }
  OverlapRule rule;
  if (scope == SealScope::kClosed) {
    rule = {2, kClosedSpreadMax, kClosedLevelMax, /*mixes_levels=*/true};
  }
  std::vector<TimeSpan> spans;
  spans.reserve(blocks.size());
  for (const Block& block : blocks) {
    const Extent& extent = block.entry.extent;
    spans.push_back({extent.first_time, extent.last_time, block.entry.level});
  }
  Blocks chosen;
  for (const std::size_t index : ChooseOverlapping(spans, rule)) chosen.push_back(blocks[index]);
  return chosen;
}

Result<SealingPlan> PlanSealed(BlockReader* reader, const SealLimits& limits, SealScope scope) {
  SealingPlan plan;
  plan.kind = SealingPlan::Kind::kMerge;
  TOPICDB_ASSIGN_OR_RETURN(const Blocks blocks, ListSealed(*reader));
  plan.blocks = ChooseSmall(blocks, limits);
  if (!plan.blocks.empty()) return plan;
  TOPICDB_ASSIGN_OR_RETURN(plan.blocks, ChooseDeleted(reader, blocks));
  if (!plan.blocks.empty()) return plan;
  // With kFresh, callers wait until fresh blocks are sealed. They should not wait for this, too.
  if (scope != SealScope::kFresh) plan.blocks = ChooseToSpread(blocks, limits, scope);
  if (!plan.blocks.empty()) {
    plan.kind = SealingPlan::Kind::kSpread;
    return plan;
  }
  if (scope == SealScope::kClosed) plan.blocks = ChooseOtherCodec(blocks, PageCodec::kZstd);
  if (plan.blocks.empty()) plan.kind = SealingPlan::Kind::kNothing;
  return plan;
}

}  // namespace

Result<SealingPlan> PlanSealing(BlockReader* reader, const LayoutState& state,
                                const SealLimits& limits, SealScope scope) {
  SealingPlan plan;
  if (scope != SealScope::kDue || state.fresh_bytes >= limits.fresh_bytes_max ||
      state.fresh_blocks >= limits.fresh_blocks_max) {
    TOPICDB_ASSIGN_OR_RETURN(plan, PlanFresh(*reader, limits));
  }
  if (plan.kind == SealingPlan::Kind::kNothing) {
    TOPICDB_ASSIGN_OR_RETURN(plan, PlanSealed(reader, limits, scope));
  }
  if (scope == SealScope::kClosed) plan.codec = PageCodec::kZstd;
  for (const Block& block : plan.blocks) plan.level = std::max(plan.level, block.entry.level);
  if (plan.kind == SealingPlan::Kind::kSpread) ++plan.level;
  return plan;
}

}  // namespace topicdb::columnar
