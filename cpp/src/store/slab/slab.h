// A slab: one generation of one retention class in one shard. Its messages are in column families
// of its own. Its structures are in memory and in the shard's default column family.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <rocksdb/db.h>

#include "base/thread/mutex.h"
#include "layout/layout.h"
#include "store/catalog/meta.h"
#include "store/slab/shard_families.h"
#include "store/slab/topic_sample.h"
#include "structure/structure_trie.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/ranges.h"
#include "topicdb/types/read.h"

namespace topicdb {

// Remembers which upkeep a slab may still need, so that nobody need look at thousands of slabs that
// do not change any more. The slab owns it. Thread-safe.
struct SlabUpkeep {
  // What the sealer found when it last looked at the slab.
  enum class Seen : std::uint8_t {
    kNothing,     // it has not looked since the slab changed, or there was something to do
    kLooking,     // the sealer is looking
    kOpenDone,    // nothing is left to do while the slab is not read-only
    kClosedDone,  // nothing is left to do, and the slab is read-only
  };
  std::atomic<Seen> seen{Seen::kNothing};
  std::atomic<bool> may_hold_garbage{true};  // files may hold what was removed
  // RocksDB's sequence number at the last removal. Snapshots from then on see nothing of what was
  // removed.
  std::atomic<std::uint64_t> removed_at{0};
};

// Keeps the structures, the counters and the column families of one slab. The shard, its views and
// their readers share a slab, and must release it before the shard closes. Any thread may read it.
//
// Lock rule: `mutex_` guards what changes. Only the thread that holds the shard's commit mutex
// changes it, so that thread may read without `mutex_`. Every other thread reads with `mutex_`.
class Slab {
 public:
  // Returns a slab, and moves its families out of `families`. Returns kCorruption if one of them is
  // missing.
  static Result<std::shared_ptr<Slab>> Make(const SlabId& id, const meta::SlabRecord& record,
                                            FamiliesByName* families, StructureTrie trie,
                                            const meta::SlabCounters& counters);
  // `pages` is null for layouts that have one family.
  Slab(const SlabId& id, const meta::SlabRecord& record, std::shared_ptr<FamilyHandle> family,
       std::shared_ptr<FamilyHandle> pages, StructureTrie trie, const meta::SlabCounters& counters);

  const SlabId& id() const { return id_; }
  LayoutKind layout_kind() const { return record_.layout; }
  const Layout& layout() const { return *layout_; }
  // Returns the log of the slab's layout, or null if the layout keeps a state and no log.
  const MessageLog* log() const { return layout_->log(); }
  std::uint32_t timestamp_bytes() const { return record_.timestamp_bytes; }
  SlabFamilies families() const {
    return {family_->get(), pages_ == nullptr ? nullptr : pages_->get()};
  }
  // Returns the families that the slab has: one or two.
  std::vector<rocksdb::ColumnFamilyHandle*> all_families() const {
    if (pages_ == nullptr) return {family_->get()};
    return {family_->get(), pages_->get()};
  }
  LayoutState* layout_state() const { return &layout_state_; }
  SlabUpkeep& upkeep() const { return upkeep_; }
  // Adds the counters of a finished read to reads(), the totals of finished reads.
  void AddReads(const ReadCounters& counters) const TOPICDB_EXCLUDES(reads_mutex_);
  ReadCounters reads() const TOPICDB_EXCLUDES(reads_mutex_);

  // REQUIRES (TrieForCommit, CountersForCommit, SampleForCommit, MutableSample): the caller holds
  // the shard's commit mutex, or nobody else knows the slab yet
  const StructureTrie& TrieForCommit() const TOPICDB_NO_THREAD_SAFETY_ANALYSIS { return trie_; }
  const meta::SlabCounters& CountersForCommit() const TOPICDB_NO_THREAD_SAFETY_ANALYSIS {
    return counters_;
  }
  const TopicSample& SampleForCommit() const { return sample_; }
  TopicSample* MutableSample() { return &sample_; }
  // Returns the record with which the slab was opened, and the present begun_at().
  meta::SlabRecord record() const {
    meta::SlabRecord record = record_;
    record.begun_at = begun_at_;
    return record;
  }
  // Returns the serial of the shard's last commit when the slab began.
  Serial begun_at() const { return begun_at_; }
  // Makes the slab begin only now, after the commit `serial`. REQUIRES (BeginAgain): the slab has
  // no messages, and the caller holds the shard's commit mutex
  void BeginAgain(Serial serial) { begun_at_ = serial; }
  // Adds the structures of a commit that was written, and sets the counters after it.
  // REQUIRES (ApplyCommit): as for TrieForCommit
  void ApplyCommit(const StructureEdit& edit, const meta::SlabCounters& counters)
      TOPICDB_EXCLUDES(mutex_);

  // Adds the structures of a commit that another process has made, and sets the counters after it,
  // if there are any. Returns kCorruption if the structures cannot follow those of the slab.
  // REQUIRES (TakeRecords): as for TrieForCommit
  Status TakeRecords(const std::vector<NodeRecord>& nodes,
                     const std::optional<meta::SlabCounters>& counters) TOPICDB_EXCLUDES(mutex_);

  // Returns whether the slab may hold messages in `range`.
  bool MayHold(const TimeRange& range) const TOPICDB_EXCLUDES(mutex_);
  // Returns a lower bound of the timestamps: no message is older.
  std::int64_t FirstTimestamp() const TOPICDB_EXCLUDES(mutex_);
  // Returns an upper bound of the timestamps: no message is newer.
  std::int64_t LastTimestamp() const TOPICDB_EXCLUDES(mutex_);
  // Returns the streams that may hold matching topics with their structures, ordered by structure.
  std::vector<std::pair<Structure, StreamId>> Match(const Filter& filter) const
      TOPICDB_EXCLUDES(mutex_);
  // Returns the numbers of the same streams, sorted.
  std::vector<StreamId> MatchIds(const Filter& filter) const TOPICDB_EXCLUDES(mutex_);
  // Returns the stream of a topic, or kNoStream if there is none. Sets `varying` to the topic's
  // words at the levels that vary.
  StreamId FindStream(std::string_view topic, std::vector<std::string_view>* varying) const
      TOPICDB_EXCLUDES(mutex_);
  // Returns an upper bound of the numbers of streams that the slab has learned. Streams that it
  // learns later have larger numbers: the number of a stream is that of a node, and nodes count up.
  StreamId LastStreamMax() const TOPICDB_EXCLUDES(mutex_);
  // Returns the structure of a stream. Absent if the slab has no such stream.
  std::optional<Structure> StructureOf(StreamId stream) const TOPICDB_EXCLUDES(mutex_);
  // Returns what users are told of the slab, with this name of its class. Whether the slab is
  // read-only and since when is not known here: see SlabView.
  SlabInfo Info(const std::string& retention_class) const TOPICDB_EXCLUDES(mutex_);
  // Returns the bytes of memory that the structures take.
  std::size_t structure_bytes() const TOPICDB_EXCLUDES(mutex_);

 private:
  const SlabId id_;
  const meta::SlabRecord record_;  // begun_at_ replaces its begun_at
  std::atomic<Serial> begun_at_;
  const std::shared_ptr<FamilyHandle> family_;
  const std::shared_ptr<FamilyHandle> pages_;
  const std::unique_ptr<Layout> layout_;
  mutable LayoutState layout_state_;
  mutable SlabUpkeep upkeep_;

  mutable Mutex reads_mutex_;
  mutable ReadCounters reads_ TOPICDB_GUARDED_BY(reads_mutex_);

  mutable SharedMutex mutex_;
  TopicSample sample_;  // only the holder of the commit mutex may use it
  StructureTrie trie_ TOPICDB_GUARDED_BY(mutex_);
  meta::SlabCounters counters_ TOPICDB_GUARDED_BY(mutex_);
};

// A slab at the moment of a view. Readers also see whether the slab was read-only at that moment.
struct SlabView {
  std::shared_ptr<Slab> slab;
  bool read_only = false;
  NotedTime sealed_at;
};

}  // namespace topicdb
