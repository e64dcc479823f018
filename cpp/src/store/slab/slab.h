// A slab: one generation of one retention class in one shard. Its messages are in a column family
// of its own; its structures are in memory and in the shard's default column family.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <rocksdb/db.h>

#include "base/thread/mutex.h"
#include "layout/layout.h"
#include "store/catalog/meta.h"
#include "store/slab/topic_sample.h"
#include "structure/structure_trie.h"
#include "topicdb/types/ranges.h"
#include "topicdb/types/read.h"

namespace topicdb {

// A column family handle that gives itself back. Must be gone before its database.
class FamilyHandle {
 public:
  FamilyHandle(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle) : db_(db), handle_(handle) {}
  ~FamilyHandle() { db_->DestroyColumnFamilyHandle(handle_).PermitUncheckedError(); }
  FamilyHandle(const FamilyHandle&) = delete;
  FamilyHandle& operator=(const FamilyHandle&) = delete;
  rocksdb::ColumnFamilyHandle* get() const { return handle_; }

 private:
  rocksdb::DB* const db_;
  rocksdb::ColumnFamilyHandle* const handle_;
};

// What may still be to be done for a slab, so that nobody need look at thousands of slabs that are
// as they will stay. Thread-safe.
struct SlabUpkeep {
  // What the sealer has seen of it when it last looked.
  enum class Seen : std::uint8_t {
    kNothing,     // it did not look since it was changed, or there was something to do
    kLooking,     // it looks
    kOpenDone,    // nothing was left to do while it is open
    kClosedDone,  // the same, and it is read-only
  };
  std::atomic<Seen> seen{Seen::kNothing};
  std::atomic<bool> may_hold_garbage{true};  // what was removed, in files
  // RocksDB's sequence number when some was removed last: to snapshots from then on all of it is
  // gone.
  std::atomic<std::uint64_t> removed_at{0};
};

using FamiliesByName = std::map<std::string, std::unique_ptr<FamilyHandle>>;

// Lock rule: `mutex_` guards what changes. Only the thread that holds the shard's commit mutex
// changes it, so that thread may read without `mutex_`; every other reads with it.
class Slab {
 public:
  // Takes the families that it has. kCorruption if one is missing.
  static Result<std::shared_ptr<Slab>> Make(const SlabId& id, const meta::SlabRecord& record,
                                            FamiliesByName* families, StructureTrie trie,
                                            const meta::SlabCounters& counters);
  // pages: null for layouts that have one family.
  Slab(const SlabId& id, const meta::SlabRecord& record, std::unique_ptr<FamilyHandle> family,
       std::unique_ptr<FamilyHandle> pages, StructureTrie trie, const meta::SlabCounters& counters);

  const SlabId& id() const { return id_; }
  const Layout& layout() const { return *layout_; }
  std::uint32_t timestamp_bytes() const { return record_.timestamp_bytes; }
  SlabFamilies families() const {
    return {family_->get(), pages_ == nullptr ? nullptr : pages_->get()};
  }
  // The same, without those that it does not have.
  std::vector<rocksdb::ColumnFamilyHandle*> all_families() const {
    if (pages_ == nullptr) return {family_->get()};
    return {family_->get(), pages_->get()};
  }
  LayoutState* layout_state() const { return &layout_state_; }
  SlabUpkeep& upkeep() const { return upkeep_; }
  // Totals of reads that are done.
  void AddReads(const ReadCounters& counters) const TOPICDB_EXCLUDES(reads_mutex_);
  ReadCounters reads() const TOPICDB_EXCLUDES(reads_mutex_);

  // REQUIRES: the shard's commit mutex is held.
  const StructureTrie& TrieForCommit() const TOPICDB_NO_THREAD_SAFETY_ANALYSIS { return trie_; }
  const meta::SlabCounters& CountersForCommit() const TOPICDB_NO_THREAD_SAFETY_ANALYSIS {
    return counters_;
  }
  const TopicSample& SampleForCommit() const { return sample_; }
  TopicSample* MutableSample() { return &sample_; }
  meta::SlabRecord record() const {
    meta::SlabRecord record = record_;
    record.begun_at = begun_at_;
    return record;
  }
  // The shard's last commit when it began.
  std::uint64_t begun_at() const { return begun_at_; }
  // It begins only now. REQUIRES: it has no messages, and the shard's commit mutex is held
  void BeginAgain(std::uint64_t serial) { begun_at_ = serial; }
  void ApplyCommit(const StructureEdit& edit, const meta::SlabCounters& counters)
      TOPICDB_EXCLUDES(mutex_);

  // Whether messages in `range` may be here.
  bool MayHold(const TimeRange& range) const TOPICDB_EXCLUDES(mutex_);
  // No message is older.
  std::int64_t FirstTimestamp() const TOPICDB_EXCLUDES(mutex_);
  // None is newer.
  std::int64_t LastTimestamp() const TOPICDB_EXCLUDES(mutex_);
  // Streams that may hold matching topics, with their structures, ordered by structure.
  std::vector<std::pair<Structure, NodeId>> Match(const Filter& filter) const
      TOPICDB_EXCLUDES(mutex_);
  // The same, without structures, sorted by number.
  std::vector<NodeId> MatchIds(const Filter& filter) const TOPICDB_EXCLUDES(mutex_);
  // The stream of a topic and its words at the levels that vary; kNoNode if there is none.
  NodeId FindStream(std::string_view topic, std::vector<std::string_view>* varying) const
      TOPICDB_EXCLUDES(mutex_);
  // Streams have numbers of nodes, which count up: those that are learned later have larger ones.
  NodeId LastNode() const TOPICDB_EXCLUDES(mutex_);
  // Absent if the id is no stream of this slab.
  std::optional<Structure> StructureOf(NodeId stream) const TOPICDB_EXCLUDES(mutex_);
  SlabInfo Info(const std::string& retention_class) const TOPICDB_EXCLUDES(mutex_);
  std::size_t structure_bytes() const TOPICDB_EXCLUDES(mutex_);

 private:
  const SlabId id_;
  const meta::SlabRecord record_;  // but for when it began
  std::atomic<std::uint64_t> begun_at_;
  const std::unique_ptr<FamilyHandle> family_;
  const std::unique_ptr<FamilyHandle> pages_;
  const std::unique_ptr<Layout> layout_;
  mutable LayoutState layout_state_;
  mutable SlabUpkeep upkeep_;

  mutable Mutex reads_mutex_;
  mutable ReadCounters reads_ TOPICDB_GUARDED_BY(reads_mutex_);

  mutable SharedMutex mutex_;
  TopicSample sample_;  // of who holds the commit mutex, alone
  StructureTrie trie_ TOPICDB_GUARDED_BY(mutex_);
  meta::SlabCounters counters_ TOPICDB_GUARDED_BY(mutex_);
};

// A slab at the moment of a view: whether it was read-only then is part of what a reader sees.
struct SlabView {
  std::shared_ptr<Slab> slab;
  bool read_only = false;
  std::int64_t sealed_at_us = 0;
};

}  // namespace topicdb
