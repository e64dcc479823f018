#include "store/shard/state/writer_loader.h"

#include <algorithm>
#include <optional>
#include <string>

#include "rocks/rocks_compat.h"
#include "store/catalog/family_names.h"
#include "store/shard/state/record_reader.h"

namespace topicdb {

namespace {

// Loads one shard, once. Not thread-safe.
class WriterLoader {
 public:
  WriterLoader(ShardState* shard, const std::vector<SlabView>& slabs)
      : shard_(*shard), slabs_(slabs), records_(shard->db.get(), shard->Name()) {}

  Result<WriterRecords> Run() TOPICDB_REQUIRES(shard_.mutex) {
    TOPICDB_ASSIGN_OR_RETURN(const bool is_made, records_.Has(meta::IdentityKey()));
    if (!is_made) TOPICDB_RETURN_IF_ERROR(WriteIdentity());
    if (shard_.log()->reserves_serials()) {
      shard_.commit.serial = std::max(shard_.commit.serial, shard_.commit.serial_limit);
    }
    TOPICDB_RETURN_IF_ERROR(LoadRules());
    if (is_made) TOPICDB_RETURN_IF_ERROR(LoadClock());
    TOPICDB_RETURN_IF_ERROR(LoadAppendIds());
    TOPICDB_RETURN_IF_ERROR(FindDropping());
    FindUnnamed();
    for (const SlabView& view : slabs_) TOPICDB_RETURN_IF_ERROR(Restore(view));
    // A replicated shard is made by the entries of its log, and a leader may be lost in between.
    const bool may_be_half_made = !!shard_.environment->open_log;
    found_.is_new = !is_made || (may_be_half_made && slabs_.empty() && found_.dropping.empty());
    return std::move(found_);
  }

 private:
  Status WriteIdentity() TOPICDB_REQUIRES(shard_.mutex) {
    const meta::Identity identity{shard_.environment->database, shard_.index};
    rocksdb::WriteBatch batch;
    rocksdb::Status status = batch.Put(meta::IdentityKey(), meta::Encode(identity));
    if (status.ok()) status = batch.Put(meta::CommitStateKey(), meta::Encode(meta::CommitState{}));
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "creating " + shard_.Name()));
    return shard_.Write({rocks::EntryKind::kNumbers}, &batch);
  }

  // Loads the version of the rules that the shard follows. Without a record, the shard follows the
  // rules as they were when it was made.
  Status LoadRules() {
    TOPICDB_ASSIGN_OR_RETURN(const auto record,
                             records_.Find(meta::RulesKey(), "record of its retention rules"));
    if (!record.has_value()) return Status::Ok();
    return meta::DecodeRules(*record, &found_.rules_version)
               ? Status::Ok()
               : records_.Damaged("the record of its retention rules is malformed");
  }

  // Loads the record of the clock. Databases that were made before there was such a record have
  // none.
  Status LoadClock() {
    TOPICDB_ASSIGN_OR_RETURN(const auto bytes, records_.Find(meta::ClockKey(), "clock"));
    std::optional<LeapRecord> record;
    if (bytes.has_value() && !meta::Decode(*bytes, &record.emplace())) {
      return records_.Damaged("its clock is malformed");
    }
    shard_.clock.Restore(record, ReadClocks());
    return Status::Ok();
  }

  Status LoadAppendIds() {
    return records_.ForEach(
        meta::AppendIdPrefix(), "ids of appends",
        [&](std::string_view key, std::string_view value) {
          std::string id;
          KnownAppend known;
          if (!meta::Decode(key, value, &id, &known)) {
            return records_.Damaged("the record of an append's id is malformed");
          }
          found_.append_ids->Add(id, known);
          return Status::Ok();
        });
  }

  Status FindDropping() {
    return records_.ForEach(meta::SlabPrefix(), "generations",
                            [&](std::string_view key, std::string_view value) {
                              SlabId id{shard_.index, {}, {}};
                              meta::SlabRecord record;
                              if (!meta::DecodeSlabKey(key, &id) || !meta::Decode(value, &record)) {
                                return records_.Damaged("the record of a generation is malformed");
                              }
                              if (record.state == meta::SlabState::kDropping)
                                found_.dropping.push_back(id);
                              return Status::Ok();
                            });
  }

  void FindUnnamed() {
    found_.unnamed = shard_.families.all();
    for (const SlabView& view : slabs_) {
      for (const std::string& name : FamilyNames(view.slab->layout_kind(), view.slab->id())) {
        found_.unnamed.erase(name);
      }
    }
  }

  Status Restore(const SlabView& view) {
    Slab& slab = *view.slab;
    if (!view.read_only) {
      *slab.MutableSample() = TopicSample();
      TOPICDB_RETURN_IF_ERROR(
          slab.MutableSample()->Load(shard_.db.get(), slab.id()).WithContext(shard_.Name()));
    }
    const std::shared_ptr<rocks::ShardLog> log = shard_.log();
    slab.layout_state()->ForgetFresh();
    return slab.layout()
        .Restore({shard_.db.get(), nullptr, slab.families(), log.get()}, /*read_only=*/false,
                 slab.layout_state())
        .WithContext(shard_.Name());
  }

  ShardState& shard_;
  const std::vector<SlabView>& slabs_;
  const RecordReader records_;
  WriterRecords found_;
};

}  // namespace

// The analysis does not know that the shard of the loader is this one.
Result<WriterRecords> LoadToWrite(ShardState* shard, const std::vector<SlabView>& slabs)
    TOPICDB_NO_THREAD_SAFETY_ANALYSIS {
  return WriterLoader(shard, slabs).Run();
}

}  // namespace topicdb
