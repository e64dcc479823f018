#include "store/read/log_measure.h"

#include <algorithm>

#include "store/read/slice_plan.h"

namespace topicdb {

namespace {

void AddTo(MessageCount* sum, const MessageCount& more) {
  sum->messages += more.messages;
  sum->bytes += more.bytes;
}

MessageCount Sum(MessageCount sum, const MessageCount& more) {
  AddTo(&sum, more);
  return sum;
}

// Returns whether the entry of a block counts the bytes of all its messages. That of a fresh block
// counts each topic once, however many messages have it.
bool HasExactSize(const BlockInfo& block) { return block.sealed || block.staged; }

}  // namespace

LogMeasure::LogMeasure(const ShardView& view, const std::vector<Filter>& filters,
                       const CommitRange& range, const PageLimits& limits,
                       const InterruptCheck& interrupted)
    : view_(view),
      filters_(filters),
      after_(range.after),
      until_(std::min(range.until.value_or(view.serial()), view.serial())),
      times_(range.times),
      counts_all_(filters.size() == 1 && filters.front().is_everything() &&
                  range.times == TimeRange()),
      whole_blocks_(range.whole_blocks),
      limits_(limits),
      interrupted_(interrupted) {}

Status LogMeasure::List() {
  Slice all;
  all.after = after_;
  all.until = until_;
  all.range = times_;
  for (const SlabView& slab_view : view_.slabs()) {
    const Slab& slab = *slab_view.slab;
    if (slab.log() == nullptr) continue;
    std::vector<ReadRequest> requests = RequestsOf(view_, slab, filters_, all);
    if (requests.empty()) continue;
    auto blocks = ListBlocks(view_.Source(slab), requests);
    if (!blocks.ok()) return blocks.status().WithContext(view_.Describe(slab.id()));
    for (const BlockInfo& info : *blocks) blocks_.push_back({&slab, info});
    requests_.emplace(&slab, std::move(requests));
  }
  std::sort(blocks_.begin(), blocks_.end(), [](const Block& a, const Block& b) {
    return a.info.first_serial < b.info.first_serial;
  });
  return Status::Ok();
}

Result<std::map<Serial, MessageCount>> LogMeasure::Count(const Block& block) const {
  if (interrupted_ && interrupted_()) return Interrupted();
  auto counts =
      CountByCommit(view_.Source(*block.slab), block.info, requests_.find(block.slab)->second);
  if (!counts.ok()) return counts.status().WithContext(view_.Describe(block.slab->id()));
  return counts;
}

Status LogMeasure::Weigh(Block* block) const {
  if (HasExactSize(block->info)) return Status::Ok();
  TOPICDB_ASSIGN_OR_RETURN(const auto counts, Count(*block));
  block->info.size = {};
  for (const auto& [serial, count] : counts) AddTo(&block->info.size, count);
  return Status::Ok();
}

Status LogMeasure::Expand(const Block& block) {
  if (counts_all_ && block.info.first_serial == block.info.last_serial &&
      HasExactSize(block.info)) {
    AddTo(&counts_[block.info.first_serial], block.info.size);
    return Status::Ok();
  }
  TOPICDB_ASSIGN_OR_RETURN(const auto counts, Count(block));
  for (const auto& [serial, count] : counts) AddTo(&counts_[serial], count);
  return Status::Ok();
}

Status LogMeasure::CountWhole() {
  MessageCount sum;
  for (const auto& [serial, count] : counts_) AddTo(&sum, count);
  const std::size_t begin = next_;
  for (; next_ < blocks_.size() && blocks_[next_].info.last_serial <= until_; ++next_) {
    TOPICDB_RETURN_IF_ERROR(Weigh(&blocks_[next_]));
    const MessageCount more = Sum(sum, blocks_[next_].info.size);
    if (!Fits(more)) break;
    sum = more;
  }
  // All commits before the first one of the next block fit together, whatever blocks they are in.
  const Serial pivot = next_ < blocks_.size() ? blocks_[next_].info.first_serial : kLastSerial;
  for (std::size_t i = begin; i < next_; ++i) {
    if (blocks_[i].info.last_serial < pivot) {
      AddTo(&total_, blocks_[i].info.size);
    } else {
      TOPICDB_RETURN_IF_ERROR(Expand(blocks_[i]));
    }
  }
  return Status::Ok();
}

Result<CommitSpan> LogMeasure::CountCommits() {
  while (next_ < blocks_.size() || !counts_.empty()) {
    const Serial head = counts_.empty() ? kLastSerial : counts_.begin()->first;
    if (next_ < blocks_.size() && blocks_[next_].info.first_serial <= head) {
      TOPICDB_RETURN_IF_ERROR(Expand(blocks_[next_++]));
      continue;
    }
    const MessageCount sum = Sum(total_, counts_.begin()->second);
    if (!Fits(sum) && total_.messages > 0) {
      return CommitSpan{head.Previous(), total_.messages, total_.bytes};
    }
    total_ = sum;
    counts_.erase(counts_.begin());
    if (!Fits(sum)) return CommitSpan{head, sum.messages, sum.bytes};
  }
  return CommitSpan{std::max(until_, after_), total_.messages, total_.bytes};
}

bool LogMeasure::EndsWithBlock() const {
  return whole_blocks_ && counts_.empty() && next_ < blocks_.size() && total_.messages > 0 &&
         total_.bytes >= limits_.bytes_max / 2;
}

Result<CommitSpan> LogMeasure::Run() {
  if (until_ <= after_) return CommitSpan{after_, 0, 0};
  TOPICDB_RETURN_IF_ERROR(List());
  while (next_ < blocks_.size() && blocks_[next_].info.first_serial <= after_) {
    TOPICDB_RETURN_IF_ERROR(Expand(blocks_[next_++]));
  }
  if (counts_all_) TOPICDB_RETURN_IF_ERROR(CountWhole());
  if (EndsWithBlock()) {
    return CommitSpan{blocks_[next_].info.first_serial.Previous(), total_.messages, total_.bytes};
  }
  return CountCommits();
}

}  // namespace topicdb
