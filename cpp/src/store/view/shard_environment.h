// What the shards of one open database have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rocks/rocks_options.h"
#include "commit/commit_signal.h"
#include "store/catalog/found_database.h"
#include "store/catalog/meta.h"
#include "store/view/reader_cache.h"
#include "store/catalog/retention_file.h"
#include "store/view/sealer.h"
#include "layout/layout.h"
#include "structure/structure_learner.h"
#include "topicdb/options.h"

namespace topicdb {

// Immutable but for what is marked.
struct ShardEnvironment {
  std::string database_path;
  DatabaseId database{};
  Schema schema;  // its retention: as it was when the database was opened
  std::shared_ptr<RetentionState> retention;  // thread-safe
  rocks::SharedResources resources;
  CommitOptions commit;
  bool read_only = false;
  SealLimits seal_limits{};
  Learning learning;
  std::shared_ptr<Sealer> sealer = std::make_shared<Sealer>();               // thread-safe
  std::shared_ptr<CommitSignal> commits = std::make_shared<CommitSignal>();  // thread-safe
  std::shared_ptr<ReaderCache> readers = std::make_shared<ReaderCache>();    // thread-safe

  std::shared_ptr<const RetentionRules> rules() const { return retention->current(); }

  // How slabs are made; the class of reserved topics is the same in all versions of the rules.
  bool IsReserved(const SlabId& id) const { return id.retention_class == rules()->reserved(); }
  LayoutKind LayoutOf(const SlabId& id) const;
  std::vector<std::string> FamilyNamesOf(const SlabId& id) const {
    return meta::FamilyNames(LayoutOf(id), id);
  }
  meta::SlabRecord NewSlabRecord(const SlabId& id, std::int64_t now_us) const;
};

// Of the database at `path`, opened with these options.
std::shared_ptr<ShardEnvironment> MakeShardEnvironment(const std::string& path,
                                                       const FoundDatabase& found,
                                                       const OpenOptions& options);

}  // namespace topicdb
