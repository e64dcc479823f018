// Removes what large deletes have hidden.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "store/shard/commit/delete_expander.h"
#include "store/shard/state/shard_state.h"
#include "store/shard/upkeep/shard_sealing.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// Removes the messages of large deletes. Such a delete is committed as a record that hides its
// messages from readers. This object removes the messages afterwards, in steps between which other
// commits can take place. A Shard owns it. Thread-safe.
class DeleteFinisher {
 public:
  DeleteFinisher(ShardState& shard, ShardSealing& sealing) : shard_(shard), sealing_(sealing) {}

  // Removes everything that committed deletes have hidden.
  Status Finish() TOPICDB_EXCLUDES(shard_.mutex);
  // Returns how many messages the deletes of the commit `serial` have removed in steps, and forgets
  // the number.
  std::uint64_t TakeRemoved(Serial serial) TOPICDB_EXCLUDES(shard_.mutex);

 private:
  // Names a delete: the serial and the index of its record.
  using DeleteName = std::pair<Serial, std::uint32_t>;
  // Takes one step of the delete. Returns false once the delete is finished.
  Result<bool> RemoveHidden(const meta::DeleteRecord& record) TOPICDB_EXCLUDES(shard_.mutex);

  ShardState& shard_;
  ShardSealing& sealing_;
  // Messages that unfinished deletes have removed so far, by the serial of their record.
  std::map<Serial, std::uint64_t> removed_ TOPICDB_GUARDED_BY(shard_.mutex);
  // What the steps of unfinished deletes have looked at. Each step goes on where the one before has
  // ended. Otherwise it would take longer the more was removed before.
  std::map<DeleteName, DeleteExpander::Progress> progress_ TOPICDB_GUARDED_BY(shard_.mutex);
};

}  // namespace topicdb
