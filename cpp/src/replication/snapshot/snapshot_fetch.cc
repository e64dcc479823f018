#include "replication/snapshot/snapshot_fetch.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "base/file/file.h"
#include "base/file/files.h"

namespace topicdb::replication {

namespace {

// Fetches one file.
class FileFetch {
 public:
  FileFetch(const SnapshotFile& wanted, std::string path, const AskForChunk& ask)
      : wanted_(wanted), path_(std::move(path)), ask_(ask) {}

  Status Run(ChunkRequest request, const InterruptCheck& interrupted) {
    request.name = wanted_.name;
    if (!Exists(path_)) TOPICDB_RETURN_IF_ERROR(CreateIfMissing(path_));
    TOPICDB_ASSIGN_OR_RETURN(file_, File::OpenForWriting(path_));
    TOPICDB_RETURN_IF_ERROR(HashWhatIsThere());
    const bool goes_on = have_ > 0;
    TOPICDB_RETURN_IF_ERROR(FetchRest(request, interrupted));
    if (hash_ != wanted_.hash && goes_on) {  // what was there was of another snapshot
      have_ = hash_ = 0;
      TOPICDB_RETURN_IF_ERROR(FetchRest(request, interrupted));
    }
    if (hash_ == wanted_.hash) return file_->Sync();
    TOPICDB_RETURN_IF_ERROR(RemoveFile(path_));
    return Corruption("the snapshot's file " + wanted_.name +
                      " came with other bytes than its manifest says");
  }

 private:
  // Keeps the whole chunks that an earlier call has left.
  Status HashWhatIsThere() {
    TOPICDB_ASSIGN_OR_RETURN(const std::uint64_t bytes, file_->Size());
    TOPICDB_ASSIGN_OR_RETURN(const auto reads, File::OpenForReading(path_));
    std::string chunk(kSnapshotChunkBytes, '\0');
    while (have_ < wanted_.bytes) {
      const std::uint64_t next =
          std::min<std::uint64_t>(wanted_.bytes - have_, kSnapshotChunkBytes);
      if (have_ + next > bytes) break;
      TOPICDB_ASSIGN_OR_RETURN(const std::size_t read, reads->ReadAt(have_, chunk.data(), next));
      if (read != next) break;
      hash_ = HashChunk(std::string_view(chunk).substr(0, next), hash_);
      have_ += next;
    }
    return file_->Truncate(have_);
  }
  Status FetchRest(ChunkRequest request, const InterruptCheck& interrupted) {
    while (have_ < wanted_.bytes) {
      if (interrupted && interrupted()) return Interrupted();
      request.offset = have_;
      request.bytes = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(wanted_.bytes - have_, kSnapshotChunkBytes));
      TOPICDB_ASSIGN_OR_RETURN(const std::string chunk, ask_(request));
      if (chunk.size() != request.bytes) {
        return Corruption("the snapshot's file " + wanted_.name + " is shorter than it should be");
      }
      TOPICDB_RETURN_IF_ERROR(file_->WriteAt(have_, chunk));
      hash_ = HashChunk(chunk, hash_);
      have_ += chunk.size();
    }
    return Status::Ok();
  }

  const SnapshotFile& wanted_;
  const std::string path_;
  const AskForChunk& ask_;
  std::shared_ptr<File> file_;
  std::uint64_t have_ = 0;
  std::uint64_t hash_ = 0;
};

}  // namespace

Status FetchSnapshot(const SnapshotManifest& manifest, const std::string& directory,
                     const AskForChunk& ask, const InterruptCheck& interrupted) {
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(directory));
  std::set<std::string> wanted;
  for (const SnapshotFile& file : manifest.files) wanted.insert(file.name);
  TOPICDB_ASSIGN_OR_RETURN(const auto found, ListDirectory(directory));
  for (const std::string& name : found) {
    if (!wanted.contains(name)) TOPICDB_RETURN_IF_ERROR(RemoveTree(directory + "/" + name));
  }
  const ChunkRequest request{manifest.applied.index, {}, 0, 0};
  for (const SnapshotFile& file : manifest.files) {
    TOPICDB_RETURN_IF_ERROR(
        FileFetch(file, directory + "/" + file.name, ask).Run(request, interrupted));
  }
  return SyncDirectory(directory);
}

}  // namespace topicdb::replication
