// Reads scans in steps: see ScanIterator.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "store/database/open_shards.h"
#include "topicdb/interrupt.h"
#include "topicdb/types/read.h"

namespace topicdb {

// Returns an iterator at the start of a scan of what these moments have. REQUIRES: there is a
// filter and a moment, and the moments hide nothing
ScanIterator BeginScan(const DatabaseId& database, const std::vector<ShardMoment>& moments,
                       const std::vector<Filter>& filters, const TimeRange& range);

// Reads one page of a scan in steps. Database::Next makes one for each call, and destroys it before
// the database can close. Not thread-safe.
//
// The state of a scan is all in its iterator: by class, the generation that comes next. A slab that
// the view does not have any more was dropped, which the shard has noted, or keep_last has merged
// it with others. What keep_last has kept is read, as far as its generations were not read before.
class ScanSteps {
 public:
  // `moments` must hide nothing.
  ScanSteps(const ShardEnvironment& environment, std::vector<ShardMoment> moments,
            const PageLimits& limits, const InterruptCheck& interrupted);

  // Does what Database::Next does. The caller calls it once, with an iterator of this database.
  Result<ScanPage> Read(const ScanIterator& from);

 private:
  ScanShard& here() { return at_.shards[at_.in_shard]; }
  const ShardView& view() const { return *moment_->view; }
  TimeRange range() const { return {at_.start, at_.end}; }
  bool is_full() const {
    return batch_->size() >= limits_.rows_max || batch_->bytes() >= limits_.bytes_max;
  }

  // Finds the moment of the shard that is read.
  Status Enter();
  // Sets loss_ if a generation was dropped that the scan had still to read from.
  Status FindLoss();
  // Notes that a slab was dropped. Returns how many messages of it the scan has lost, at most.
  std::uint64_t Lose(const meta::DropRecord& drop, bool may_be_many);
  // Moves past the slab that the scan was reading if it is gone. Returns kNotFound if its messages
  // are now in another slab.
  Status LeaveLostPlace();
  // Reads on in the shard until the page is full or the shard was read.
  Status ReadShard();
  // Returns the slabs of the shard that are still to be read, in their order.
  std::vector<const SlabView*> SlabsToRead();
  // Returns the index of a class in here().classes, or nothing if the scan reads none of its slabs.
  std::optional<std::uint32_t> IndexOf(RetentionClassId retention_class);
  bool IsToRead(const SlabView& slab);
  // Read on in a slab, or in one target of it. Return kExhausted once it was read.
  Result<ReadOutcome> ReadSlab(const SlabView& slab, std::uint32_t in_class);
  Result<ReadOutcome> ReadTarget(const StreamTarget& target, std::uint32_t in_class);
  // Returns what is still to be read of a slab.
  std::vector<StreamTarget> TargetsOf(const SlabView& slab, std::uint32_t in_class);
  // Takes the reader that the last call has left for this target, or opens one.
  ReaderCache::Entry OpenEntry(const StreamTarget& target, const Position& position);
  // Notes that a slab was read.
  void LeaveSlab(const SlabId& slab, std::uint32_t in_class);
  void LeaveShard();

  const ShardEnvironment& environment_;
  const std::vector<ShardMoment> moments_;
  const PageLimits limits_;
  const InterruptCheck& interrupted_;

  std::vector<Filter> filters_;
  ScanIterator at_;
  const ShardMoment* moment_ = nullptr;  // of the shard that is read
  ReaderCache::Entry left_;              // by the call before, while it is of use
  ReaderCache::Entry kept_;              // for the next call
  std::shared_ptr<Batch> batch_;
  std::optional<Loss> loss_;
};

}  // namespace topicdb
