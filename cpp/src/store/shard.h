// A shard: one RocksDB with one writer. Commits messages to its current slabs and hands out views.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rocksdb/db.h>

#include "base/files.h"
#include "base/mutex.h"
#include "rocks/rocks_options.h"
#include "store/meta.h"
#include "store/retention_class.h"
#include "store/slab.h"
#include "topicdb/database.h"

namespace topicdb {

// What the shards of one open database have in common. Immutable.
struct ShardEnvironment {
  std::string database_path;
  DatabaseId database{};
  Schema schema;
  RetentionRules rules;
  rocks::SharedResources resources;
  bool read_only = false;
};

// A slab at the moment of a view: whether it was read-only then is part of what a reader sees.
struct SlabView {
  std::shared_ptr<Slab> slab;
  bool read_only = false;
  std::int64_t sealed_at_us = 0;
};

// A moment of a shard between two commits: the snapshot holds whole commits, and the tries of the
// slabs hold at least the structures of those. Must be gone before the shard closes.
class ShardView {
 public:
  ShardView(rocksdb::DB* db, const rocksdb::Snapshot* snapshot,
            std::shared_ptr<const std::vector<SlabView>> slabs)
      : db_(db), snapshot_(snapshot), slabs_(std::move(slabs)) {}
  ~ShardView();
  ShardView(const ShardView&) = delete;
  ShardView& operator=(const ShardView&) = delete;

  // Ordered by class and generation.
  const std::vector<SlabView>& slabs() const { return *slabs_; }
  const std::shared_ptr<const std::vector<SlabView>>& shared_slabs() const { return slabs_; }
  RocksSource Source(const Slab& slab) const { return {db_, snapshot_, slab.family()}; }
  // nullptr if there is none.
  const SlabView* Find(const SlabId& id) const;

 private:
  rocksdb::DB* const db_;
  const rocksdb::Snapshot* const snapshot_;  // null in a read-only shard: it never changes
  const std::shared_ptr<const std::vector<SlabView>> slabs_;
};

// Thread-safe. Lock order: commit_mutex_, then a slab's mutex or view_mutex_.
class Shard {
 public:
  // Creates the shard if `create`, which needs its directory to be absent. kLocked, kCorruption.
  static Result<std::shared_ptr<Shard>> Open(std::shared_ptr<const ShardEnvironment> environment,
                                             std::uint32_t index, bool create);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  std::uint32_t index() const { return index_; }
  std::shared_ptr<const ShardView> view() const TOPICDB_EXCLUDES(view_mutex_);

  // Writes valid messages of this shard as one commit; its serial. A failure to write poisons the
  // shard: nothing more is written until it is opened again.
  Result<std::uint64_t> Commit(std::span<const MessageView> messages, Durability durability)
      TOPICDB_EXCLUDES(commit_mutex_);
  // Of one class, or of all.
  Status Rotate(std::optional<std::uint32_t> retention_class) TOPICDB_EXCLUDES(commit_mutex_);
  Status DropSlab(std::uint32_t retention_class, std::uint32_t generation)
      TOPICDB_EXCLUDES(commit_mutex_);
  Status Flush();
  ShardStats Stats() const TOPICDB_EXCLUDES(commit_mutex_);

  // Flushes, closes RocksDB, releases the lock. No call may be under way, no view held elsewhere.
  Status Close() TOPICDB_EXCLUDES(commit_mutex_, view_mutex_);

  static std::string DirectoryOf(const std::string& database_path, std::uint32_t index);

 private:
  friend class ShardOpener;
  friend class CommitBuilder;

  Shard(std::shared_ptr<const ShardEnvironment> environment, std::uint32_t index);

  std::string Name() const;
  Status CheckWritable() const TOPICDB_REQUIRES(commit_mutex_);
  // Writes with the log; a failure poisons the shard.
  Status Write(const rocksdb::WriteOptions& options, rocksdb::WriteBatch* batch)
      TOPICDB_REQUIRES(commit_mutex_);
  // Makes the slab's column family and adds its records to `batch`. Structures that vary are taken
  // over from `previous` if there is one.
  Result<std::shared_ptr<Slab>> CreateSlab(const SlabId& id, const Slab* previous,
                                           std::int64_t now_us, rocksdb::WriteBatch* batch)
      TOPICDB_REQUIRES(commit_mutex_);
  Status RotateClasses(std::span<const std::uint32_t> classes) TOPICDB_REQUIRES(commit_mutex_);
  const SlabView* CurrentSlab(std::uint32_t retention_class) const TOPICDB_REQUIRES(commit_mutex_);
  void Publish(std::shared_ptr<const std::vector<SlabView>> slabs) TOPICDB_REQUIRES(commit_mutex_)
      TOPICDB_EXCLUDES(view_mutex_);
  Status SaveCleanState() TOPICDB_REQUIRES(commit_mutex_);

  const std::shared_ptr<const ShardEnvironment> environment_;
  const std::uint32_t index_;

  // Constant between Open and Close.
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<FamilyHandle> default_family_;

  mutable Mutex commit_mutex_;
  meta::CommitState state_ TOPICDB_GUARDED_BY(commit_mutex_);
  Status poison_ TOPICDB_GUARDED_BY(commit_mutex_);
  std::shared_ptr<const std::vector<SlabView>> slabs_ TOPICDB_GUARDED_BY(commit_mutex_);
  std::vector<SlabView> current_ TOPICDB_GUARDED_BY(commit_mutex_);  // by class

  mutable Mutex view_mutex_;
  std::shared_ptr<const ShardView> view_ TOPICDB_GUARDED_BY(view_mutex_);
};

}  // namespace topicdb
