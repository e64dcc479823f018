#include "store/shard/commit/delete_finisher.h"

#include <algorithm>
#include <new>

#include "rocks/rocks_compat.h"

namespace topicdb {

namespace {

// One step of a large delete removes at most this many messages.
constexpr std::size_t kDeleteStep = 10'000;

}  // namespace

Status DeleteFinisher::Finish() {
  while (true) {
    DeleteRecords deletes;
    {
      const MutexLock lock(shard_.mutex);
      deletes = shard_.deletes;
    }
    if (deletes->empty()) return Status::Ok();
    for (bool more = true; more;) {
      TOPICDB_ASSIGN_OR_RETURN(more, RemoveHidden(deletes->front()));
    }
    sealing_.Wake();  // blocks may have become nearly empty
  }
}

void DeleteFinisher::FinishSoon(Serial serial) {
  {
    const MutexLock lock(unasked_mutex_);
    unasked_.insert(serial.Previous());  // a record has the serial before that of its commit
  }
  shard_.environment->sealer->Wake(this);
}

Result<bool> DeleteFinisher::SealDue() {
  DeleteRecords deletes;
  {
    const MutexLock lock(shard_.mutex);
    deletes = shard_.deletes;
    if (deletes->empty()) {  // others may have finished them before FinishSoon was called
      const MutexLock unasked_lock(unasked_mutex_);
      for (const Serial serial : unasked_) removed_.erase(serial);
      unasked_.clear();
    }
  }
  if (deletes->empty() || shard_.environment->sealer->stopped()) return false;
  try {
    TOPICDB_ASSIGN_OR_RETURN(const bool more, RemoveHidden(deletes->front()));
    if (!more) sealing_.Wake();  // blocks may have become nearly empty
    return more || deletes->size() > 1;
  } catch (const std::bad_alloc&) {  // nobody could catch it in the sealer's thread
    return StorageFault("deleting in " + shard_.Name() + ": there is not enough memory");
  }
}

void DeleteFinisher::ForgetUnasked(Serial serial) {
  const bool has_more =
      std::any_of(shard_.deletes->begin(), shard_.deletes->end(),
                  [&](const meta::DeleteRecord& other) { return other.serial == serial; });
  if (has_more) return;
  const MutexLock lock(unasked_mutex_);
  if (unasked_.erase(serial) > 0) removed_.erase(serial);
}

Result<bool> DeleteFinisher::RemoveHidden(const meta::DeleteRecord& record) {
  const MutexLock lock(shard_.mutex);
  TOPICDB_RETURN_IF_ERROR(shard_.CheckWritable());
  const auto is_it = [&](const meta::DeleteRecord& other) {
    return other.serial == record.serial && other.index == record.index;
  };
  // Another thread may have finished it.
  if (std::none_of(shard_.deletes->begin(), shard_.deletes->end(), is_it)) return false;
  // If this step fails, a later one looks at everything again.
  const DeleteName name(record.serial, record.index);
  DeleteExpander::Progress progress = std::exchange(progress_[name], {});
  progress_.erase(name);
  rocksdb::WriteBatch batch;
  DeleteExpander expander(shard_, &batch, kDeleteStep);
  expander.GoOnFrom(&progress);
  expander.LimitExamined(DeleteExpander::kExaminedMax);
  TOPICDB_ASSIGN_OR_RETURN(const bool complete, expander.Remove(record, /*masked=*/false));
  TOPICDB_RETURN_IF_ERROR(expander.Finish());
  if (complete) {
    TOPICDB_RETURN_IF_ERROR(
        rocks::FromRocks(batch.Delete(meta::DeleteKey(record.serial, record.index)),
                         "finishing a delete in " + shard_.Name()));
  }
  TOPICDB_RETURN_IF_ERROR(shard_.Write({rocks::EntryKind::kDelete}, &batch));
  removed_[record.serial] += expander.removed();
  shard_.NoteDeleted();
  if (!complete) {
    progress_.emplace(name, std::move(progress));
    return true;
  }
  auto rest = *shard_.deletes;
  std::erase_if(rest, is_it);
  shard_.Publish(shard_.slabs,
                 std::make_shared<const std::vector<meta::DeleteRecord>>(std::move(rest)));
  ForgetUnasked(record.serial);
  return false;
}

std::uint64_t DeleteFinisher::TakeRemoved(Serial serial) {
  const MutexLock lock(shard_.mutex);
  const auto removed = removed_.extract(serial.Previous());
  return removed.empty() ? 0 : removed.mapped();
}

}  // namespace topicdb
