// The environment that all shards of one open database share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "commit/commit_signal.h"
#include "layout/layout.h"
#include "rocks/log/shard_log.h"
#include "rocks/rocks_options.h"
#include "store/catalog/found_database.h"
#include "store/catalog/meta.h"
#include "store/catalog/retention_file.h"
#include "store/slab/slab.h"
#include "store/view/reader_cache.h"
#include "store/view/sealer.h"
#include "structure/structure_learner.h"
#include "topicdb/options.h"

namespace topicdb {

class ShardLeader;

// A RocksDB that a shard has opened for writing, before anything of it is loaded.
struct OpenedShard {
  rocksdb::DB* db;
  std::string name;  // of the shard, for messages
  const FamilyHandle& default_family;
  ShardFamilies* families;  // all others; whoever makes or drops one changes this
  const rocks::SharedResources& resources;
};
// Makes the log of a shard. May write to the RocksDB what the log has and the RocksDB lacks.
using OpenShardLog = std::function<Result<std::unique_ptr<rocks::ShardLog>>(const OpenedShard&)>;

// Holds the options, the resources and the helpers that all shards of an open database use. The
// database, its shards and their views share it, and the last of them destroys it. Any thread may
// use it: it is immutable, except for the members that are marked as thread-safe.
struct ShardEnvironment {
  std::string database_path;  // the name for errors: of an upload, its URL
  std::string directory;      // where the files are: of an upload, the small ones
  // What is freed after all shards: of an upload, its files.
  std::shared_ptr<const void> files;
  DatabaseId database{};
  Schema schema;  // its retention is that of when the database was opened
  std::shared_ptr<RetentionState> retention;  // thread-safe
  rocks::SharedResources resources;
  CommitOptions commit;
  bool read_only = false;
  SealLimits seal_limits{};
  Learning learning;
  std::shared_ptr<Sealer> sealer = std::make_shared<Sealer>();               // thread-safe
  std::shared_ptr<CommitSignal> commits = std::make_shared<CommitSignal>();  // thread-safe
  std::shared_ptr<ReaderCache> readers = std::make_shared<ReaderCache>();    // thread-safe
  OpenShardLog open_log;  // empty: the log is that of RocksDB
  // Of a shard with replicas: the one that leads. Null: only this process writes the shard.
  std::shared_ptr<ShardLeader> leader;  // thread-safe

  std::shared_ptr<const RetentionRules> rules() const { return retention->current(); }

  // Returns "shard 2 of fleet.db", for messages.
  std::string NameOfShard(std::uint32_t index) const;

  // These tell how slabs are made. The class of reserved topics is the same in all versions of the
  // rules.

  // Returns whether the slab belongs to the class of reserved topics.
  bool IsReserved(const SlabId& id) const { return id.retention_class == rules()->reserved(); }
  // Returns the layout of a new slab, unless somebody asks for another: that which the rules name
  // for its class, or else that of the generation `before`, or for a first generation that of the
  // schema. Slabs of reserved topics are a state.
  LayoutKind LayoutOfNew(const SlabId& id, std::optional<LayoutKind> before = std::nullopt) const;
  // Returns the record of a slab that is made with this layout, at this time.
  meta::SlabRecord NewSlabRecord(const SlabId& id, LayoutKind layout, NotedTime now) const;
};

// Makes the environment of the database at `path`, opened with these options.
std::shared_ptr<ShardEnvironment> MakeShardEnvironment(const std::string& path,
                                                       const FoundDatabase& found,
                                                       const OpenOptions& options);

}  // namespace topicdb
