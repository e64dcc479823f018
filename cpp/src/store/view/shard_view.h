// The view that readers have of a shard.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <rocksdb/db.h>

#include "layout/layout.h"
#include "store/catalog/meta.h"
#include "store/slab/slab.h"
#include "store/view/shard_environment.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

using SlabViews = std::shared_ptr<const std::vector<SlabView>>;

// All slabs of a shard by class and generation, and two lists that are often needed; see ShardView.
struct SlabLists {
  SlabViews all;
  SlabViews current;
  SlabViews in_reading_order;
};
// Makes the lists. `all` must be ordered by class and generation.
SlabLists ListSlabs(SlabViews all);
// Returns where a slab is, or would be, in `slabs`, which are ordered by class and generation.
std::vector<SlabView>::const_iterator PlaceOf(const SlabId& id, const std::vector<SlabView>& slabs);

using DeleteRecords = std::shared_ptr<const std::vector<meta::DeleteRecord>>;
using SharedJobs = std::shared_ptr<const meta::JobRecords>;

// Returns a number that it has never returned before in this process.
std::uint64_t NewRemovalsVersion();

// A moment of a shard between two commits, as its readers see it. Its snapshot holds whole commits,
// and the tries of its slabs hold at least the structures of these commits. Readers share a view,
// and so does the shard while it is the newest one. It is immutable, so any thread may use it. It
// must be destroyed before the shard closes.
class ShardView {
 public:
  ShardView(std::shared_ptr<const ShardEnvironment> environment, rocksdb::DB* db,
            const rocksdb::Snapshot* snapshot, SlabLists slabs, DeleteRecords deletes,
            SharedJobs jobs, Serial serial, std::uint64_t deletes_version,
            std::uint64_t removals_version)
      : environment_(std::move(environment)),
        db_(db),
        snapshot_(snapshot),
        slabs_(std::move(slabs)),
        deletes_(std::move(deletes)),
        jobs_(std::move(jobs)),
        serial_(serial),
        deletes_version_(deletes_version),
        removals_version_(removals_version) {}
  // Makes a view of the same moment without the commits in `hidden`, which must be in ascending
  // order.
  ShardView(std::shared_ptr<const ShardView> whole, std::vector<SerialRange> hidden);
  ~ShardView();
  ShardView(const ShardView&) = delete;
  ShardView& operator=(const ShardView&) = delete;

  // Returns all slabs, ordered by class and generation.
  const std::vector<SlabView>& slabs() const { return *slabs_.all; }
  // Returns the same list, for callers that need it without the view.
  const SlabViews& shared_slabs() const { return slabs_.all; }
  // Returns the slabs that take messages. They are few, however many generations there are.
  const std::vector<SlabView>& current() const { return *slabs_.current; }
  // Returns all slabs, ordered by when they began, whatever their class. All messages of a topic in
  // one slab were committed before those in a later slab.
  const std::vector<SlabView>& in_reading_order() const { return *slabs_.in_reading_order; }
  // Returns the deletes whose messages may still be stored.
  const std::vector<meta::DeleteRecord>& deletes() const { return *deletes_; }
  // Returns the jobs that were applied.
  const SharedJobs& jobs() const { return jobs_; }
  // Returns the commits that readers do not see, in ascending order.
  const std::vector<SerialRange>& hidden() const { return hidden_; }
  // Returns the serial of the last commit in the view.
  Serial serial() const { return serial_; }
  // Returns a number that grows with each delete.
  std::uint64_t deletes_version() const { return deletes_version_; }
  // Returns a number that changes when messages of users are deleted, or dropped with their slab.
  // So of two views with the same number, the later one has every message of users that the earlier
  // one has. Views of two handles of a shard never have the same number.
  std::uint64_t removals_version() const { return removals_version_; }
  rocksdb::DB* db() const { return db_; }
  const rocksdb::Snapshot* snapshot() const { return snapshot_; }
  // Returns where readers of a slab read in this view. The view must outlive the readers.
  RocksSource Source(const Slab& slab) const { return {db_, snapshot_, slab.families()}; }
  // Returns a slab, or nullptr if the view does not have it.
  const SlabView* Find(const SlabId& id) const;

  // Returns whether a slab is that of TopicDB's own topics.
  bool IsReserved(const SlabId& id) const { return environment_->IsReserved(id); }
  // Returns the filter of the class of a slab that the view has. It asks the rules of the present,
  // because rules that the caller fetched before the view may not know the class: a class is in the
  // rules before any slab is made for it.
  std::string ClassFilterOf(const SlabId& id) const;
  // Returns a name for errors: "class '#', generation 3 of shard 0 of fleet.db". The rules must
  // know the class; the view need not have the slab.
  std::string Describe(const SlabId& id) const;

 private:
  const std::shared_ptr<const ShardEnvironment> environment_;
  rocksdb::DB* const db_;
  const rocksdb::Snapshot* const snapshot_;  // null in a read-only shard, which never changes
  const SlabLists slabs_;
  const DeleteRecords deletes_;
  const SharedJobs jobs_;
  const Serial serial_;
  const std::uint64_t deletes_version_;
  const std::uint64_t removals_version_;
  const std::vector<SerialRange> hidden_;
  const std::shared_ptr<const ShardView> whole_;  // owns the snapshot, if not null
};

}  // namespace topicdb
