// Removes what large deletes have hidden.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "base/thread/mutex.h"
#include "store/shard/commit/delete_expander.h"
#include "store/shard/state/shard_state.h"
#include "store/shard/upkeep/shard_sealing.h"
#include "store/view/sealer.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// Removes the messages of large deletes. Such a delete is committed as a record that hides its
// messages from readers. This object removes the messages afterwards, in steps between which other
// commits can take place: in the thread of a caller, or in that of the sealer. A Shard owns it.
// Thread-safe.
class DeleteFinisher : public Sealable {
 public:
  DeleteFinisher(ShardState& shard, ShardSealing& sealing) : shard_(shard), sealing_(sealing) {}

  // Removes everything that committed deletes have hidden.
  Status Finish() TOPICDB_EXCLUDES(shard_.mutex);
  // Makes the sealer's thread remove it soon. If there is no such thread, or the shard is closed
  // before, the next opening does. Nobody asks TakeRemoved for the deletes of the commit `serial`.
  void FinishSoon(Serial serial) TOPICDB_EXCLUDES(unasked_mutex_);
  // Makes the sealer's thread remove everything that committed deletes have hidden, or removes it
  // at once if there is no such thread.
  Status FinishInBackground() TOPICDB_EXCLUDES(shard_.mutex) {
    return shard_.environment->sealer->Wake(this) ? Status::Ok() : Finish();
  }
  // Forgets how far steps have come, because another process takes the next ones.
  void ForgetProgress() TOPICDB_REQUIRES(shard_.mutex) { progress_.clear(); }
  // Returns when the sealer's thread is done with this object. Nobody may call FinishSoon any more.
  void Forget() { shard_.environment->sealer->Forget(this); }
  // Takes one step of the oldest delete. Returns true if there may be more to do.
  Result<bool> SealDue() override TOPICDB_EXCLUDES(shard_.mutex);
  // Returns how many messages the deletes of the commit `serial` have removed in steps, and forgets
  // the number.
  std::uint64_t TakeRemoved(Serial serial) TOPICDB_EXCLUDES(shard_.mutex);

 private:
  // Names a delete: the serial and the index of its record.
  using DeleteName = std::pair<Serial, std::uint32_t>;
  // Takes one step of the delete. Returns false once the delete is finished.
  Result<bool> RemoveHidden(const meta::DeleteRecord& record) TOPICDB_EXCLUDES(shard_.mutex);
  // Forgets how many messages a finished delete has removed, if nobody asks for the number.
  void ForgetUnasked(Serial serial) TOPICDB_REQUIRES(shard_.mutex) TOPICDB_EXCLUDES(unasked_mutex_);

  ShardState& shard_;
  ShardSealing& sealing_;
  // Messages that unfinished deletes have removed so far, by the serial of their record.
  std::map<Serial, std::uint64_t> removed_ TOPICDB_GUARDED_BY(shard_.mutex);
  // What the steps of unfinished deletes have looked at. Each step goes on where the one before has
  // ended. Otherwise it would take longer the more was removed before.
  std::map<DeleteName, DeleteExpander::Progress> progress_ TOPICDB_GUARDED_BY(shard_.mutex);
  // Taken last. It is not the commit mutex, because the thread that calls FinishSoon must not wait
  // for a commit.
  Mutex unasked_mutex_;
  std::set<Serial> unasked_ TOPICDB_GUARDED_BY(unasked_mutex_);  // serials of records
};

}  // namespace topicdb
