// Does in a replica what the entries of the replicated log say.
#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "replication/entry.h"
#include "replication/replicated_log.h"
#include "replication/unlogged_rocks.h"
#include "store/view/shard_environment.h"

namespace topicdb::replication {

// Writes entries to the RocksDB of a replica, and makes and drops its column families. Every
// replica that is given the same entries has the same keys and values afterwards.
//
// An entry counts if it belongs to the present epoch, and if no entry of that epoch with its number
// or a later one has counted before. A batch with commits must also continue the last commit. Other
// entries do nothing, in every replica. So what a leader still had on its way when another one
// began to lead has no effect.
//
// The opening of a shard makes one, and uses it from one thread.
class EntryApplier {
 public:
  // Takes a batch that readers may see from now on, after it was written.
  using Written = std::function<Status(const rocksdb::WriteBatch&)>;

  // Is called when everything up to an entry for a digest is written, and nothing after it.
  using AtDigest = std::function<void(const LogPlace&)>;

  // `shard` and `rocks` must outlive it. Adds the families that it makes to shard.families, and
  // removes those that it drops. `written` and `at_digest` may be empty.
  EntryApplier(const OpenedShard& shard, UnloggedRocks* rocks, Written written = {},
               AtDigest at_digest = {})
      : shard_(shard),
        rocks_(*rocks),
        written_(std::move(written)),
        at_digest_(std::move(at_digest)) {}

  // Applies the entry at `place`, unless it has been applied before. Entries must come in their
  // order; applied ones may come again, also in another object. Returns kCorruption for a damaged
  // entry, kSchema for one of a later version, kStorage, and what `written` returns. After an
  // error, the entries from this one on must be applied again, to a shard that was opened again.
  Status Apply(const LogPlace& place, std::string_view bytes);

 private:
  bool Counts(const Entry& entry, const meta::Applied& before) const;
  // Does what an entry says that counts and is at `place`.
  Status Do(const Entry& entry, const LogPlace& place, const meta::Applied& after);
  Status ApplyBatch(const Entry& entry, const meta::Applied& after);
  Status ApplyDrop(const Entry& entry, const meta::Applied& after);
  // Returns the handle of a family, which it makes if there is none.
  Result<rocksdb::ColumnFamilyHandle*> FindOrMake(const SlabFamily& family);

  const OpenedShard& shard_;
  UnloggedRocks& rocks_;
  const Written written_;
  const AtDigest at_digest_;
};

}  // namespace topicdb::replication
