// Looks after what a database keeps: retention classes, generations, and what they take on disk.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "topicdb/interrupt.h"
#include "topicdb/options.h"
#include "topicdb/status.h"
#include "topicdb/types/iterator.h"
#include "topicdb/types/maintenance.h"
#include "topicdb/types/times.h"

namespace topicdb {

class DatabaseImpl;

// A part of a Database, which owns it and gives it out (Database::upkeep). Thread-safe. Every
// method returns kClosed after Database::Close, and kForked in a forked child.
class Upkeep {
 public:
  explicit Upkeep(std::shared_ptr<DatabaseImpl> impl);
  ~Upkeep();
  Upkeep(const Upkeep&) = delete;
  Upkeep& operator=(const Upkeep&) = delete;

  // Returns the retention classes as they are now.
  Result<std::vector<RetentionClass>> Retention() const;
  // Replaces the retention classes, durably. Messages stay in the class that they were stored in.
  // If that class is not among the new ones, it keeps its messages as long as any class that their
  // topics may belong to now.
  //
  // A class that names a layout gets a new generation at once, unless its current generations have
  // that layout.
  //
  // Returns what the next maintenance rotates and drops by the new classes, as the files are now.
  // The result leaves out the quota, and its `kept` is 0. With `dry_run`, this does nothing else.
  // Returns kSchema for classes or layouts that the database cannot have, and kReadOnly unless
  // every shard is open for writing in this handle.
  Result<Maintenance> SetRetention(const std::vector<RetentionClass>& classes,
                                   bool dry_run = false);
  // Returns the quota as it is now.
  Result<QuotaState> Quota() const;
  // Replaces the quota of this handle (OpenOptions::quota_bytes and quota_trim), at once. It is not
  // stored. What is absent stays as it is. Appends that are under way are not taken back.
  //
  // Returns the slabs that the next maintenance drops for the quota, as the files are now; fewer if
  // removing garbage is enough. With `dry_run`, this does nothing else. Returns kInvalidArgument
  // for a `quota_trim` that is no part. Without `dry_run`, returns kReadOnly for a handle that only
  // reads.
  Result<std::vector<DroppedSlab>> SetQuota(std::optional<std::uint64_t> quota_bytes,
                                            std::optional<double> quota_trim, bool dry_run = false);
  // Starts a new generation in every open shard, of the class with this filter or of all classes.
  // With `resets_clock`, assigned timestamps continue from what the clock shows, even if later ones
  // were assigned before. The new generations have this layout; if it is absent, the one that
  // RetentionClass::layout says. Older generations keep theirs. Returns kInvalidArgument for
  // `resets_clock` with a class, and kSchema for a layout that the database cannot have.
  Status Rotate(const std::optional<std::string>& retention_class, bool resets_clock = false,
                std::optional<LayoutKind> layout = std::nullopt);
  // Returns the slabs of the open shards.
  Result<std::vector<SlabInfo>> Slabs() const;
  // Returns the slabs of the open shards, and what they take on disk.
  Result<std::vector<SlabUsage>> Usage() const;
  // Returns what each structure takes in each class. Reads the directories of blocks and a few of
  // their pages, and no other messages. Returns kCorruption or kInterrupted.
  Result<std::vector<StructureUsage>> UsageByStructure(
      const InterruptCheck& interrupted = nullptr) const;
  // Drops a slab. Returns kInvalidArgument for a current generation, and kNotFound if there is no
  // such slab.
  Status DropSlab(std::uint32_t shard, const std::string& retention_class, Generation generation);
  // Drops the slabs that were sealed longer ago than their class keeps messages, and returns them.
  // Acts as if the time were `as_if`, as Maintain does.
  Result<std::vector<SlabInfo>> Expire(std::optional<WallTime> as_if,
                                       const InterruptCheck& interrupted = {});
  // Does what the background thread of a handle does from time to time. Starts new generations
  // where they are due. Drops the generations that are too old, or exceed the bytes of their class
  // or the quota, the oldest first.
  //
  // Acts as if the time were `as_if`. If that is absent, the time is the present, and nothing is
  // dropped by age while it is too early to tell what is old (LeapClock). Returns kInterrupted if
  // `interrupted` returns true.
  Result<Maintenance> Maintain(std::optional<WallTime> as_if,
                               const InterruptCheck& interrupted = {});

 private:
  const std::shared_ptr<DatabaseImpl> impl_;
};

}  // namespace topicdb
