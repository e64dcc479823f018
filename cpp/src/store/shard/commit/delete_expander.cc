#include "store/shard/commit/delete_expander.h"

#include <utility>

#include "commit/key_range.h"
#include "store/read/stream_plan.h"

namespace topicdb {

SlabRemover& DeleteExpander::RemoverOf(const Slab& slab) {
  auto& remover = removers_[slab.id()];
  if (remover == nullptr) {
    remover = slab.layout().NewRemover({shard_.db.get(), nullptr, slab.families()}, batch_);
    if (progress_ != nullptr) remover->GoOnFrom(&(*progress_)[slab.id()]);
    remover->LimitExamined(&examined_left_);
  }
  return *remover;
}

Result<bool> DeleteExpander::Remove(const meta::DeleteRecord& record, bool masked) {
  for (const SlabView& view : *shard_.slabs) {
    const Slab& slab = *view.slab;
    if (!record.Covers(slab.id())) continue;
    if (progress_ != nullptr && (*progress_)[slab.id()].is_complete) continue;
    std::vector<RowMask> masks;
    if (masked) masks = MasksOf(*shard_.deletes, slab.id());
    TOPICDB_ASSIGN_OR_RETURN(const bool complete, RemoveFrom(slab, record, masks));
    if (!complete) return false;
    if (progress_ == nullptr) continue;
    RemovalProgress done;
    done.is_complete = true;
    (*progress_)[slab.id()] = std::move(done);
  }
  return true;
}

Result<bool> DeleteExpander::RemoveFrom(const Slab& slab, const meta::DeleteRecord& record,
                                        const std::vector<RowMask>& masks) {
  if (!slab.MayHold(record.keys.range)) return true;
  if (IsPoint(record.keys)) {
    TOPICDB_RETURN_IF_ERROR(RemovePoint(slab, record, masks));
    return true;
  }
  for (StreamSet& set : SelectStreams(slab, {record.keys.filter}, std::nullopt)) {
    ReadRequest request{std::move(set.streams),
                        std::move(set.structure),
                        record.keys.filter,
                        record.keys.range,
                        Position(),
                        masks,
                        record.serial};
    request.position.timestamp = record.keys.range.start.value_or(0);
    TOPICDB_ASSIGN_OR_RETURN(const bool complete,
                             RemoverOf(slab).Remove(request, removed_max_ - removed_, &removed_));
    if (!complete) return false;
  }
  return true;
}

Status DeleteExpander::RemovePoint(const Slab& slab, const meta::DeleteRecord& record,
                                   const std::vector<RowMask>& masks) {
  const std::string& topic = record.keys.filter.text();
  const std::int64_t timestamp = record.keys.range.start.value_or(0);
  if (slab.timestamp_bytes() == 0 && timestamp != 0) return Status::Ok();
  std::vector<std::string_view> varying;
  const StreamId stream = slab.FindStream(topic, &varying);
  if (stream == kNoStream) return Status::Ok();
  return RemoverOf(slab).RemovePoint({stream, topic, varying, timestamp, kNoSerial, 0, {}}, masks,
                                     record.serial, &removed_);
}

Status DeleteExpander::Finish() {
  for (const auto& [slab, remover] : removers_) TOPICDB_RETURN_IF_ERROR(remover->Finish());
  return Status::Ok();
}

}  // namespace topicdb
