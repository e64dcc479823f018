#include "replication/snapshot/snapshot_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <rocksdb/utilities/checkpoint.h>

#include "base/file/file.h"
#include "base/file/files.h"
#include "rocks/rocks_compat.h"
#include "rocks/rocks_options.h"
#include "store/shard/state/record_reader.h"
#include "store/slab/family_stock.h"

namespace topicdb::replication {

namespace {

Result<SnapshotFile> DescribeFile(const std::string& directory, const std::string& name) {
  TOPICDB_ASSIGN_OR_RETURN(const auto file, File::OpenForReading(directory + "/" + name));
  SnapshotFile described{name, 0, 0};
  std::string chunk(kSnapshotChunkBytes, '\0');
  for (;;) {
    TOPICDB_ASSIGN_OR_RETURN(const std::size_t read,
                             file->ReadAt(described.bytes, chunk.data(), chunk.size()));
    if (read == 0) return described;
    described.hash = HashChunk(std::string_view(chunk).substr(0, read), described.hash);
    described.bytes += read;
  }
}

}  // namespace

Result<std::unique_ptr<SnapshotSource>> SnapshotSource::Make(
    rocksdb::DB* db, const rocks::SharedResources& resources, std::uint64_t replica,
    const std::string& directory) {
  const std::string context = "making a snapshot in " + directory;
  rocksdb::Checkpoint* raw = nullptr;
  rocksdb::Status made = rocksdb::Checkpoint::Create(db, &raw);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
  // 0: whatever is in memory only is moved to files first, since there is no log.
  if (made.ok()) made = checkpoint->CreateCheckpoint(directory, /*log_size_for_flush=*/0);
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(made, context));
  std::unique_ptr<SnapshotSource> source(new SnapshotSource(directory));
  TOPICDB_RETURN_IF_ERROR(source->Describe(resources, replica).WithContext(context));
  return source;
}

SnapshotSource::~SnapshotSource() { RemoveTree(directory_).IgnoreError(); }

Status SnapshotSource::Describe(const rocks::SharedResources& resources, std::uint64_t replica) {
  manifest_.replica = replica;
  {
    // Others may have written between any call before and the copy, so only the copy knows.
    std::unique_ptr<rocksdb::DB> copy;
    rocks::FamilyHandles handles;
    const rocks::Families families{
        {rocksdb::kDefaultColumnFamilyName,
         rocks::FamilyOptions(resources, FamilyUseOf(rocksdb::kDefaultColumnFamilyName))}};
    const rocksdb::Status opened = rocks::OpenForReadOnly(
        rocks::MakeDbOptions(resources, /*read_only=*/true), directory_, families, &handles, &copy);
    TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(opened, "opening it"));
    meta::CommitState state;
    const RecordReader records(copy.get(), "the copy");
    Status read =
        records.Read(meta::AppliedKey(), "place in the replicated log", &manifest_.applied);
    if (read.ok()) read = records.Read(meta::CommitStateKey(), "commit state", &state);
    for (rocksdb::ColumnFamilyHandle* handle : handles) {
      copy->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    }
    TOPICDB_RETURN_IF_ERROR(read);
    manifest_.serial = state.serial;
  }
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory_));
  for (const std::string& name : names) {
    // What RocksDB writes for people is of this machine alone.
    if (name == "LOCK" || name.starts_with("LOG")) continue;
    TOPICDB_ASSIGN_OR_RETURN(SnapshotFile file, DescribeFile(directory_, name));
    manifest_.files.push_back(std::move(file));
  }
  return Status::Ok();
}

Result<std::string> SnapshotSource::Read(const ChunkRequest& request) const {
  const auto found =
      std::find_if(manifest_.files.begin(), manifest_.files.end(),
                   [&](const SnapshotFile& file) { return file.name == request.name; });
  if (request.index != manifest_.applied.index || found == manifest_.files.end()) {
    return NotFound("there is no snapshot up to entry " + std::to_string(request.index) +
                    " with a file " + request.name + " any more");
  }
  TOPICDB_ASSIGN_OR_RETURN(const auto file, File::OpenForReading(directory_ + "/" + request.name));
  std::string chunk(request.bytes, '\0');
  TOPICDB_ASSIGN_OR_RETURN(const std::size_t read,
                           file->ReadAt(request.offset, chunk.data(), chunk.size()));
  chunk.resize(read);
  return chunk;
}

}  // namespace topicdb::replication
