#include "store/upload/fetched_files.h"

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/bytes/crc32.h"
#include "base/file/file.h"
#include "base/file/files.h"
#include "base/thread/parallel.h"
#include "rocks/files/object_files.h"
#include "store/shard/state/shard_loader.h"

namespace topicdb {

namespace {

// A database with more is not opened: these files are read into memory.
constexpr std::uint64_t kSmallBytesMax = std::uint64_t{1} << 30;

bool IsTable(const UploadedFile& file) { return file.path.ends_with(".sst"); }

// Returns whether a file belongs to one of these shards, or to none.
bool IsWanted(const UploadedFile& file,
              const std::optional<std::vector<std::uint32_t>>& only_shards) {
  if (!only_shards.has_value() || !file.path.starts_with("shards/")) return true;
  for (const std::uint32_t shard : *only_shards) {
    if (("/" + file.path).starts_with(ShardDirectory("", shard) + "/")) return true;
  }
  return false;
}

// Returns an object that is missing as damage: the manifest names it.
Status FromObject(const Status& status) {
  if (status.code() != Code::kNotFound) return status;
  return Corruption(status.message());
}

StoredObject ObjectOf(const UploadedFile& file) { return {file.object, file.bytes}; }

Result<std::string> ReadSmall(const Upload& upload, const UploadedFile& file) {
  const std::string where = upload.url + ": " + file.object + " (" + file.path + ")";
  if (file.bytes > kSmallBytesMax) {
    return Corruption(where + " has " + std::to_string(file.bytes) +
                      " bytes, more than any such file");
  }
  std::string bytes(file.bytes, '\0');
  TOPICDB_RETURN_IF_ERROR(
      FromObject(upload.objects->Read(ObjectOf(file), 0, bytes)).WithContext(upload.url));
  if (Crc32(bytes) != file.crc32) {
    return Corruption(where + " is damaged: its checksum is not that of " + upload.manifest_name);
  }
  return bytes;
}

Status WriteFile(const std::string& path, std::string_view bytes) {
  TOPICDB_ASSIGN_OR_RETURN(const std::shared_ptr<File> file, File::CreateOrEmpty(path));
  return file->WriteAt(0, bytes);
}

}  // namespace

Result<std::unique_ptr<FetchedFiles>> FetchedFiles::Fetch(
    const Upload& upload, const std::optional<std::vector<std::uint32_t>>& only_shards) {
  const std::string name = upload.url + "/" + upload.manifest_name;
  TOPICDB_ASSIGN_OR_RETURN(UploadManifest manifest, DecodeUpload(upload.manifest, name));
  std::erase_if(manifest.files,
                [&](const UploadedFile& file) { return !IsWanted(file, only_shards); });
  std::string directory = TemporaryDirectory() + "/topicdb-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return ErrnoFault("making", directory, errno);
  std::unique_ptr<FetchedFiles> fetched(new FetchedFiles(std::move(directory)));
  TOPICDB_RETURN_IF_ERROR(fetched->FetchAll(upload, manifest.files));
  return fetched;
}

FetchedFiles::~FetchedFiles() { RemoveTree(directory_).IgnoreError(); }

Status FetchedFiles::FetchAll(const Upload& upload, const std::vector<UploadedFile>& files) {
  rocks::ObjectFiles tables;
  auto ahead = std::make_unique<rocks::ReadAhead>();
  std::vector<const UploadedFile*> small;
  for (const UploadedFile& file : files) {
    const std::string path = directory_ + "/" + file.path;
    for (std::size_t slash = file.path.find('/'); slash != std::string::npos;
         slash = file.path.find('/', slash + 1)) {
      TOPICDB_RETURN_IF_ERROR(MakeDirectory(directory_ + "/" + file.path.substr(0, slash)));
    }
    if (IsTable(file)) {
      tables[path] = std::make_shared<rocks::ObjectFile>(upload.objects, upload.url, ObjectOf(file),
                                                         &rocks::ProcessChunks(), ahead.get());
    } else {
      small.push_back(&file);
    }
  }
  env_ = rocks::MakeObjectEnv(std::move(tables), std::move(ahead));
  return RunInParallel(small.size(), [&](std::size_t i) -> Status {
    TOPICDB_ASSIGN_OR_RETURN(const std::string bytes, ReadSmall(upload, *small[i]));
    return WriteFile(directory_ + "/" + small[i]->path, bytes);
  });
}

}  // namespace topicdb
