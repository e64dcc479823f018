#include "store/shard/generation/last_merger.h"

#include <algorithm>
#include <optional>

#include "rocks/rocks_compat.h"
#include "store/read/stream_plan.h"
#include "store/shard/commit/delete_expander.h"
#include "store/slab/row_sorter.h"
#include "store/slab/slab_write.h"
#include "store/slab/topic_ranks.h"

namespace topicdb {

namespace {

// Rows between two calls of the interrupt check.
constexpr std::uint64_t kStepRows = 16'384;
// At most this many messages of the new slab may be deleted while it is made.
constexpr std::size_t kDeletesMax = 10'000;

using Slabs = std::vector<std::shared_ptr<Slab>>;

// Returns the layout of the slab that these are merged into. That of a state would lose messages of
// a log: those with equal topics and timestamps, and all for readers of the log. So one slab with a
// log is enough for the new slab to have one.
LayoutKind LayoutOfMerged(const Slabs& slabs) {
  const auto found = std::find_if(slabs.begin(), slabs.end(),
                                  [](const auto& slab) { return slab->log() != nullptr; });
  return found == slabs.end() ? slabs.front()->layout_kind() : (*found)->layout_kind();
}

// Finds the last messages of each topic in slabs, as they were at a moment. Not thread-safe.
class LastFinder {
 public:
  LastFinder(const ShardView& view, const Slabs& slabs, std::uint32_t keep_last,
             const InterruptCheck& interrupted)
      : view_(view),
        slabs_(slabs),
        interrupted_(interrupted),
        ranks_(keep_last, std::all_of(slabs.begin(), slabs.end(), [](const auto& slab) {
                 return slab->layout().overwrites();
               })) {}

  // Ranks all messages. The caller must call this first. Returns kCorruption or kInterrupted.
  Status Rank() {
    for (const auto& slab : slabs_) {
      TOPICDB_RETURN_IF_ERROR(Read(*slab, [&](const SalvagedRow& row) {
        ranks_.Add(row.topic, PlaceOf(row));
        return Status::Ok();
      }));
    }
    return Status::Ok();
  }
  bool found_any() const { return !ranks_.empty(); }

  // Calls take(row) for the last messages of each topic, slab by slab. With `in_commit_order`,
  // those of a slab come in the order of commits, or in long runs of that order.
  template <typename Take>
  Status ForEachLast(bool in_commit_order, Take take) {
    for (const auto& slab : slabs_) {
      RowSorter sorter(take);
      const bool sorts = in_commit_order && slab->log() == nullptr;
      const auto visit = [&](const SalvagedRow& row) {
        if (!ranks_.IsLast(row.topic, PlaceOf(row))) return Status::Ok();
        return sorts ? sorter.Add(row) : take(row);
      };
      TOPICDB_RETURN_IF_ERROR(Read(*slab, visit));
      TOPICDB_RETURN_IF_ERROR(sorter.Finish());
    }
    return Status::Ok();
  }

 private:
  static MessageRank PlaceOf(const SalvagedRow& row) {
    return {row.timestamp, row.serial, row.index};
  }

  // Calls visit(row) for each message of a slab. Errors name the slab.
  template <typename Visit>
  Status Read(const Slab& slab, Visit visit) {
    return ForEachMessageOf(slab, visit).WithContext(view_.Describe(slab.id()));
  }

  // Reads with Salvage, which finds the messages of damaged slabs. In a slab without damage it
  // finds all of them. If the slab has a log, they come in the order of commits.
  template <typename Visit>
  Status ForEachMessageOf(const Slab& slab, Visit visit) {
    // Leaves out deleted messages, but not those that the view hides: readers may see these later.
    const std::vector<RowMask> deleted = MasksOf(view_.deletes(), slab.id());
    std::uint64_t rows = 0;
    std::optional<std::string> damage;
    SlabSalvage call;
    call.structure_of = [&](StreamId stream) { return slab.StructureOf(stream); };
    call.report = [&](const Finding& finding) { damage = damage.value_or(finding.what); };
    call.take = [&](const SalvagedRow& row) {
      if (damage.has_value()) return Corruption(*damage);
      if (++rows % kStepRows == 0 && interrupted_ && interrupted_()) return Interrupted();
      const bool is_deleted = std::any_of(deleted.begin(), deleted.end(), [&](const RowMask& mask) {
        return mask.Hides(row.topic, row.timestamp, row.serial, row.index);
      });
      return is_deleted ? Status::Ok() : visit(row);
    };
    TOPICDB_RETURN_IF_ERROR(slab.layout().Salvage(view_.Source(slab), call));
    return damage.has_value() ? Corruption(*damage) : Status::Ok();
  }

  const ShardView& view_;
  const Slabs& slabs_;
  const InterruptCheck& interrupted_;
  TopicRanks ranks_;
};

}  // namespace

Result<std::uint64_t> LastMerger::Run(const KeepLastMerge& wanted,
                                      const InterruptCheck& interrupted) {
  TOPICDB_RETURN_IF_ERROR(shard_.FlushUnlogged());
  TOPICDB_ASSIGN_OR_RETURN(Merge merge, Begin(wanted));
  Status status = Fill(wanted, interrupted, &merge);
  const MutexLock lock(shard_.mutex);
  if (status.ok()) status = Install(&merge);
  deletes_.End();
  const bool is_in = merge.made != nullptr && shard_.view()->Find(wanted.to) != nullptr;
  // After a write that has failed, the record of the new slab may be on disk all the same, so its
  // families must stay. The next opening drops families without a record, also if dropping them
  // fails here.
  if (merge.made != nullptr && !is_in && shard_.poison.ok()) {
    shard_.DropFamilies(merge.made->all_families()).IgnoreError();
  }
  TOPICDB_RETURN_IF_ERROR(status);
  return is_in ? merge.made->CountersForCommit().messages : 0;
}

Result<LastMerger::Merge> LastMerger::Begin(const KeepLastMerge& wanted) {
  const MutexLock lock(shard_.mutex);
  TOPICDB_RETURN_IF_ERROR(shard_.CheckWritable());
  Merge merge;
  merge.log = shard_.log();
  merge.moment = shard_.view();
  Serial begun_at;
  NotedTime sealed_at;
  for (const SlabId& id : wanted.from) {
    const SlabView* found = merge.moment->Find(id);
    if (found == nullptr) return NotFound(merge.moment->Describe(id) + " is gone");
    // The new slab takes the place of the newest one in the order of reading.
    begun_at = std::max(begun_at, found->slab->begun_at());
    sealed_at = std::max(sealed_at, found->sealed_at);
    merge.from.push_back(found->slab);
  }
  merge.record = shard_.environment->NewSlabRecord(wanted.to, LayoutOfMerged(merge.from),
                                                   merge.from.front()->record().created_at);
  merge.record.state = meta::SlabState::kReadOnly;
  merge.record.keep_last = wanted.keep_last;
  merge.record.begun_at = begun_at;
  merge.record.sealed_at = sealed_at;
  deletes_.Begin();
  return merge;
}

Status LastMerger::Fill(const KeepLastMerge& wanted, const InterruptCheck& interrupted,
                        Merge* merge) {
  LastFinder finder(*merge->moment, merge->from, wanted.keep_last, interrupted);
  TOPICDB_RETURN_IF_ERROR(finder.Rank());
  if (!finder.found_any()) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(Prepare(wanted, merge));
  SlabWrite writer(shard_.db.get(), merge->log.get(), shard_.environment->seal_limits,
                   merge->made.get());
  const bool has_log = merge->made->log() != nullptr;
  TOPICDB_RETURN_IF_ERROR(
      finder.ForEachLast(has_log, [&](const SalvagedRow& row) { return writer.Take(row); }));
  TOPICDB_RETURN_IF_ERROR(writer.Finish(/*read_only=*/true));
  rocksdb::Status status = shard_.db->Flush(rocksdb::FlushOptions(), merge->made->all_families());
  if (status.ok()) status = writer.PutRecords(&merge->batch);
  return rocks::FromRocks(status, "merging generations of " + shard_.Name());
}

// Another replica that has led meanwhile may have merged the same slabs.
Status LastMerger::CheckLeads(const Merge& merge) const {
  TOPICDB_RETURN_IF_ERROR(shard_.CheckWritable());
  if (shard_.log() == merge.log) return Status::Ok();
  return NotLeader("another replica has led " + shard_.Name() + " during the merge: merge again");
}

Status LastMerger::Prepare(const KeepLastMerge& wanted, Merge* merge) {
  const MutexLock lock(shard_.mutex);
  TOPICDB_RETURN_IF_ERROR(CheckLeads(*merge));
  // A slab that was dropped by hand may have had this number. Its families and its record must not
  // be there any more.
  TOPICDB_RETURN_IF_ERROR(dropper_.DropLeaving());
  TOPICDB_ASSIGN_OR_RETURN(FamiliesByName families,
                           maker_.MakeFamilies({{wanted.to, merge->record.layout}}));
  // A slab without messages has learned no structures.
  const auto newest =
      std::find_if(merge->from.rbegin(), merge->from.rend() - 1,
                   [](const auto& slab) { return slab->CountersForCommit().messages > 0; });
  auto made = maker_.Make(wanted.to, merge->record, newest->get(), &families, &merge->batch);
  // A second try could not make the families again, so the shard must be opened anew.
  if (!made.ok()) shard_.Poison(made.status());
  TOPICDB_RETURN_IF_ERROR(made.status());
  merge->made = std::move(*made);
  return Status::Ok();
}

Status LastMerger::Install(Merge* merge) {
  TOPICDB_RETURN_IF_ERROR(CheckLeads(*merge));
  for (const auto& slab : merge->from) {
    if (!shard_.HasSlab(*slab)) {
      return NotFound("a generation of " + shard_.Name() + " was dropped while it was merged");
    }
  }
  DeleteExpander expander(shard_, &merge->batch, kDeletesMax);
  for (const meta::DeleteRecord& record : deletes_.records()) {
    const bool is_of_one = record.generation != meta::kEveryGeneration &&
                           std::any_of(merge->from.begin(), merge->from.end(),
                                       [&](const auto& slab) { return record.Covers(slab->id()); });
    bool complete = !is_of_one;
    if (complete && record.generation == meta::kEveryGeneration && merge->made != nullptr) {
      TOPICDB_ASSIGN_OR_RETURN(complete, expander.RemoveFrom(*merge->made, record, {}));
    }
    if (!complete) return Conflict("messages were deleted while generations were merged");
  }
  TOPICDB_RETURN_IF_ERROR(expander.Finish());
  return dropper_.Replace(merge->from, merge->made, &merge->batch);
}

}  // namespace topicdb
