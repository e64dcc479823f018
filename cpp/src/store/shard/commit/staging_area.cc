#include "store/shard/commit/staging_area.h"

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "rocks/garbage.h"
#include "rocks/rocks_compat.h"

namespace topicdb {

namespace {

// Pages are copied in batches of about this size: an entry of the log has at most 1 MiB.
constexpr std::size_t kCopyBytes = std::size_t{900} << 10;
// Without blocks, the messages of a job are one batch, which every replica has in memory.
constexpr std::uint64_t kBytesMaxWithoutBlocks = std::uint64_t{64} << 20;

// Less than this is left to RocksDB.
constexpr std::uint64_t kGarbageBytesMin = std::uint64_t{64} << 20;

StagedPlaceName NameOf(const StagedPart& part) { return {part.pages_file, part.retention_class}; }

}  // namespace

Status StagingArea::Do(const StagingStep& step) {
  const MutexLock lock(mutex_);
  switch (step.kind) {
    case StagingStep::Kind::kPut:
      return Put(step);
    case StagingStep::Kind::kChoose:
      return Choose(step);
    case StagingStep::Kind::kRemove:
      return Remove(step);
  }
  return InvalidArgument("there is no such step of staging");
}

Status StagingArea::Put(const StagingStep& step) {
  const std::string prefix = JobStagedPrefix(step.job);
  rocksdb::WriteBatch batch;
  rocksdb::Status status;
  for (const auto& [rest, value] : step.records) {
    if (status.ok()) status = batch.Put(prefix + rest, value);
  }
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "staging for " + shard_.Name()));
  return Write(&batch);
}

Status StagingArea::Choose(const StagingStep& step) {
  std::vector<StagedPart> parts;
  for (const std::string& file : step.choice.files) {
    const std::size_t before = parts.size();
    TOPICDB_RETURN_IF_ERROR(AddParts(step.job, file, &parts));
    if (parts.size() > before) continue;
    TOPICDB_RETURN_IF_ERROR(ConfirmLead());
    return NotFound(shard_.Name() + " has nothing of the staged file " + file + " of job '" +
                    step.job + "': the job was aborted, or nobody has staged for six hours");
  }
  TOPICDB_RETURN_IF_ERROR(CheckParts(parts));
  rocksdb::WriteBatch batch;
  const std::string key = JobStagedPrefix(step.job) + StagedChoiceRest(step.commit);
  TOPICDB_RETURN_IF_ERROR(
      rocks::FromRocks(batch.Put(key, Encode(step.choice)), "choosing for " + shard_.Name()));
  return Write(&batch);
}

Status StagingArea::CheckParts(const std::vector<StagedPart>& parts) const {
  std::uint64_t bytes = 0;
  const MutexLock lock(shard_.mutex);
  for (const StagedPart& part : parts) {
    const bool is_known = shard_.rules->Find(part.retention_class) != nullptr &&
                          shard_.HasCurrentSlab(part.retention_class);
    if (!is_known) {
      return Corruption(part.pages_file + " is for a class that " + shard_.Name() +
                        " does not have");
    }
    if (shard_.CurrentSlab(part.retention_class)->slab->log() == nullptr) bytes += part.bytes;
  }
  if (bytes <= kBytesMaxWithoutBlocks) return Status::Ok();
  return InvalidArgument("the job has " + std::to_string(bytes) + " bytes for " + shard_.Name() +
                         " in classes whose generations have the layout 'skipstream'; with "
                         "replicas a job may have 64 MiB a shard there: split it");
}

Status StagingArea::Remove(const StagingStep& step) {
  const std::string prefix = JobStagedPrefix(step.job);
  const std::string choices = prefix + StagedChoicesRest();
  {
    const std::unique_ptr<rocksdb::Iterator> records(
        shard_.db->NewIterator(rocksdb::ReadOptions()));
    records->Seek(prefix);
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(records->status(), "reading " + shard_.Name()));
    if (!records->Valid() || !records->key().starts_with(prefix)) return ConfirmLead();
    for (records->Seek(choices); records->Valid() && records->key().starts_with(choices);
         records->Next()) {
      StagedChoice choice;
      if (!Decode(records->value().ToStringView(), &choice)) continue;
      if (choice.epoch > step.epoch) return Status::Ok();  // this removal is late
    }
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(records->status(), "reading " + shard_.Name()));
  }
  rocksdb::WriteBatch batch;
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(
      batch.DeleteRange(shard_.default_family->get(), prefix, JobStagedEnd(step.job)),
      "removing what is staged in " + shard_.Name()));
  return Write(&batch);
}

Status StagingArea::ConfirmLead() const {
  rocksdb::WriteBatch nothing;
  return Write(&nothing);
}

Status StagingArea::RemoveGarbage(std::atomic<bool>* canceled) const {
  rocksdb::ColumnFamilyHandle* const family = shard_.default_family->get();
  const rocks::FamilyGarbage found = rocks::MeasureGarbage(shard_.db.get(), family);
  if (found.removed == 0 || found.file_bytes < kGarbageBytesMin) return Status::Ok();
  return rocks::RemoveGarbage(shard_.db.get(), family, canceled).WithContext(shard_.Name());
}

Status StagingArea::Write(rocksdb::WriteBatch* batch) const {
  // As data, it needs no other replica to bring its memory up to date.
  return shard_.log()->Write({rocks::EntryKind::kData}, batch);
}

Result<std::string> StagingArea::Get(const std::string& key) const {
  std::string value;
  const rocksdb::Status status = shard_.db->Get(rocksdb::ReadOptions(), key, &value);
  if (status.IsNotFound()) return NotFound("there is no such record");
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "reading " + shard_.Name()));
  return value;
}

Status StagingArea::AddParts(const std::string& job, const std::string& file,
                             std::vector<StagedPart>* parts) const {
  const std::string job_prefix = JobStagedPrefix(job);
  const std::string prefix = job_prefix + StagedPartsRest(file);
  const std::unique_ptr<rocksdb::Iterator> records(shard_.db->NewIterator(rocksdb::ReadOptions()));
  for (records->Seek(prefix); records->Valid() && records->key().starts_with(prefix);
       records->Next()) {
    StagedPartRecord record;
    StagedPart part;
    const std::string_view rest = records->key().ToStringView().substr(job_prefix.size());
    if (!DecodeStagedPartRest(rest, file, &part.retention_class) ||
        !Decode(records->value().ToStringView(), &record)) {
      return Corruption(shard_.Name() + ": a record of the staged file " + file + " is malformed");
    }
    part.shard = shard_.index;
    part.pages_file = file;
    part.messages = record.messages;
    part.bytes = record.bytes;
    part.block_count = record.block_count;
    parts->push_back(std::move(part));
  }
  return rocks::FromRocks(records->status(), "reading " + shard_.Name());
}

Status StagingArea::LoadBlocks(const std::string& job, StagedPart* part) const {
  const std::string prefix = JobStagedPrefix(job);
  Status missing = Corruption(shard_.Name() + ": blocks of the staged file " + part->pages_file +
                              " are missing");
  const auto bytes = Get(prefix + StagedPartRest(NameOf(*part)));
  StagedPartRecord record;
  if (!bytes.ok() || !Decode(*bytes, &record)) return missing;
  for (std::uint32_t piece = 0; part->blocks.size() < record.blocks_bytes; ++piece) {
    const auto found = Get(prefix + StagedBlocksRest(NameOf(*part), piece));
    if (!found.ok() || found->empty()) return missing;
    part->blocks += *found;
  }
  return Status::Ok();
}

Result<StagedMessages> StagingArea::Load(const StagedJob& job) const {
  StagedMessages staged;
  staged.directory = shard_.Name();
  staged.sequence = job.sequence;
  staged.number = job.number;
  staged.malformed = job.malformed;
  staged.committed_at = job.committed_at;
  staged.pending_since = job.pending_since;
  staged.shards = job.shards;
  const auto bytes = Get(JobStagedPrefix(job.job) + StagedChoiceRest(job.commit));
  StagedChoice choice;
  if (!bytes.ok() || !Decode(*bytes, &choice)) {
    return Corruption(shard_.Name() + ": what was chosen of the job '" + job.job + "' is missing");
  }
  for (const std::string& file : choice.files) {
    TOPICDB_RETURN_IF_ERROR(AddParts(job.job, file, &staged.parts));
  }
  for (StagedPart& part : staged.parts) TOPICDB_RETURN_IF_ERROR(LoadBlocks(job.job, &part));
  staged.job = job.job;
  staged.pages = [this, prefix = JobStagedPrefix(job.job)](const StagedPart& part) -> KeySource {
    return [this, pages = prefix + StagedPageRest(NameOf(part))](std::string_view page) {
      std::string key = pages;
      key += page;
      auto found = Get(key);
      if (found.status().code() != Code::kNotFound) return found;
      return Result<std::string>(Corruption(shard_.Name() + ": a staged page is missing"));
    };
  };
  return staged;
}

Status StagingArea::CopyPages(const std::atomic<bool>& canceled, StagedMessages* staged) const {
  staged->log = shard_.log();
  for (const StagedPart& part : staged->parts) {
    std::shared_ptr<Slab> slab;
    {
      const MutexLock lock(shard_.mutex);
      const bool is_known = shard_.rules->Find(part.retention_class) != nullptr &&
                            shard_.HasCurrentSlab(part.retention_class);
      if (!is_known) {
        return Corruption(shard_.Name() + " does not have the class of a part of the job '" +
                          staged->job + "'");
      }
      slab = shard_.CurrentSlab(part.retention_class)->slab;
    }
    if (slab->log() == nullptr) continue;  // its messages are read where they are
    TOPICDB_RETURN_IF_ERROR(CopyPart(*staged, part, *slab, canceled));
    // A rotation between two parts leaves pages that belong to no block, and the commit refuses.
    staged->copied.try_emplace(part.retention_class, slab);
  }
  return Status::Ok();
}

Status StagingArea::CopyPart(const StagedMessages& staged, const StagedPart& part, const Slab& slab,
                             const std::atomic<bool>& canceled) const {
  rocks::ShardLog* const log = staged.log.get();
  const std::string prefix = JobStagedPrefix(staged.job) + StagedPageRest(NameOf(part));
  const std::unique_ptr<rocksdb::Iterator> pages(shard_.db->NewIterator(rocksdb::ReadOptions()));
  rocksdb::WriteBatch batch;
  pages->Seek(prefix);
  while (pages->Valid() && pages->key().starts_with(prefix)) {
    rocksdb::Slice page = pages->key();
    page.remove_prefix(prefix.size());
    TOPICDB_RETURN_IF_ERROR(
        rocks::FromRocks(batch.Put(slab.families().sealed, page, pages->value()), "copying pages"));
    pages->Next();
    if (batch.GetDataSize() < kCopyBytes) continue;
    if (canceled.load()) return Closed(shard_.Name() + " is being closed");
    TOPICDB_RETURN_IF_ERROR(log->Write({rocks::EntryKind::kData}, &batch));
    batch.Clear();
  }
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(pages->status(), "reading " + shard_.Name()));
  if (batch.Count() == 0) return Status::Ok();
  return log->Write({rocks::EntryKind::kData}, &batch);
}

}  // namespace topicdb
