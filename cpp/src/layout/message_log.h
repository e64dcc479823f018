// The part of a layout that keeps the order of commits: the log, and blocks that are sealed in the
// background.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include <rocksdb/write_batch.h>

#include "layout/read_request.h"
#include "layout/slab_writer.h"
#include "layout/staged_block.h"
#include "topicdb/interrupt.h"
#include "topicdb/message.h"
#include "topicdb/status.h"

namespace topicdb {

// Limits one read of a log. The read stops when the batch has this much, but appends at least one
// message.
struct LogRoom {
  std::size_t rows_max = std::numeric_limits<std::size_t>::max();
  std::size_t bytes_max = std::numeric_limits<std::size_t>::max();
};

// Makes one pass over the messages of a slab in the order of their commits. The caller owns it, and
// must destroy it before the shard closes. Not thread-safe.
class LogReader {
 public:
  LogReader() = default;
  virtual ~LogReader() = default;
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // Returns the place of the next message, or nothing at the end. Returns kCorruption if the data
  // cannot be right, and kInterrupted.
  virtual Result<std::optional<CommitPlace>> Head(const InterruptCheck& interrupted) = 0;
  // Appends messages before `until` to `out`. Unless `indexes` is null, appends their numbers in
  // their commits to it. Read and Skip may stop before `until`: the next call of Head says where.
  // REQUIRES (Read, Skip): Head has just returned a place
  virtual void Read(const CommitPlace& until, const LogRoom& room, Batch* out,
                    std::vector<std::uint32_t>* indexes) = 0;
  // Skips messages before `until`.
  virtual void Skip(const CommitPlace& until) = 0;
};

// Says how much is sealed at a time.
struct SealLimits {
  // No sealed block exceeds these by more than a 16th, whatever the limits say. A reader would need
  // too much memory for a larger one.
  static constexpr std::size_t kBlockRowsMax = 262'144;
  static constexpr std::size_t kBlockBytesMax = std::size_t{16} << 20;
  static constexpr std::size_t kPageBytesMax = std::size_t{64} << 10;

  // How much may gather in fresh blocks before they are sealed.
  std::size_t fresh_bytes_max;
  std::size_t fresh_blocks_max;
  std::size_t block_bytes_max;  // of topics and values; one message may be larger
  std::size_t page_bytes_max;
  // Whether sealed pages have their values apart, as all new ones do. Tests make early pages.
  bool values_apart = true;
};

// Says which part of a slab to seal.
enum class SealScope {
  kDue,     // fresh blocks, if there are as many as the limits say
  kFresh,   // all fresh blocks
  kClosed,  // all fresh blocks, compressed as much as possible: no more messages will come
};

// Makes one step of sealing a slab. The caller owns it, and calls Gather, WriteData, Install and
// Apply in this order. Not thread-safe. At most one step may run at a time for a slab.
class Sealing {
 public:
  Sealing() = default;
  virtual ~Sealing() = default;
  Sealing(const Sealing&) = delete;
  Sealing& operator=(const Sealing&) = delete;

  // Chooses the blocks to seal, or to seal again, and reads what the step needs of them. Returns
  // false if there are none. Returns kCorruption if one is damaged.
  virtual Result<bool> Gather(SealScope scope) = 0;
  // Writes the pages of the new blocks to RocksDB. No reader sees them yet.
  virtual Status WriteData() = 0;
  // Adds to the batch the records that make the new blocks visible, and removals of the blocks that
  // they replace.
  // REQUIRES: `now` has no snapshot; nobody else writes to the slab until the batch is written
  virtual Status Install(const RocksSource& now, rocksdb::WriteBatch* batch) = 0;
  // Updates the LayoutState. The caller must call Apply once the batch is written.
  virtual void Apply() = 0;
};

// Stores the messages of slabs in blocks, in the order of their commits. Blocks are fresh at first,
// and are sealed in the background. A block that a job has staged becomes a block of the slab as it
// is. A MessageLog is part of a Layout, which owns it. Immutable, and therefore thread-safe.
class MessageLog {
 public:
  MessageLog() = default;
  virtual ~MessageLog() = default;
  MessageLog(const MessageLog&) = delete;
  MessageLog& operator=(const MessageLog&) = delete;

  // Returns a reader of the messages that the request wants, from commit `serial_min` on. Of the
  // request, it uses streams, filter, range, masks, serial_max and memory_bytes_max.
  virtual std::unique_ptr<LogReader> NewLogReader(const RocksSource& source,
                                                  const ReadRequest& request,
                                                  Serial serial_min) const = 0;
  // Returns a step of sealing that has not begun. `state` is the state of the slab, and must
  // outlive the step.
  virtual std::unique_ptr<Sealing> NewSealing(const RocksSource& source, LayoutState* state,
                                              const SealLimits& limits) const = 0;
  // Adds to the batch the records that make the messages of a staged block visible. The pages of
  // the block are in the family `sealed` already. The caller must add 1 to
  // LayoutState::fresh_blocks once the batch is written. Returns kCorruption if the staged block is
  // damaged.
  virtual Status InstallStaged(const SlabFamilies& families, LayoutState* state,
                               const StagedBlock& block, const StagedPlace& place,
                               rocksdb::WriteBatch* batch) const = 0;
  // Returns whether the slab has staged pages with this number, and whether they are installed.
  // Looks at the newest state: the snapshot of the source counts only for installed blocks.
  virtual Result<StagedState> FindStaged(const RocksSource& source, std::uint64_t pages) const = 0;
  // Removes the pages of staged blocks that were not installed, with the log of the source.
  virtual Status RemoveUnplaced(const RocksSource& source) const = 0;
};

}  // namespace topicdb
