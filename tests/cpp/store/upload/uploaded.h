// Uploads that tests make in a directory, and read from there.
#pragma once

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "base/bytes/crc32.h"
#include "topicdb/database/upload.h"

namespace topicdb {

// Reads objects that are files of a directory. Thread-safe.
class FolderObjects : public ObjectReader {
 public:
  explicit FolderObjects(std::string directory) : directory_(std::move(directory)) {}

  Status Read(const StoredObject& stored, std::uint64_t offset, std::span<char> to) override {
    ++requests;
    const std::string& object = stored.name;
    if (failure.code() != Code::kOk) return failure;
    std::ifstream file(directory_ + "/" + object, std::ios::binary);
    if (!file) return NotFound(object + " is missing");
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(to.data(), static_cast<std::streamsize>(to.size()));
    const bool is_whole = file.gcount() == static_cast<std::streamsize>(to.size());
    return is_whole ? Status::Ok() : Corruption(object + " ends early");
  }

  std::atomic<int> requests{0};
  Status failure;  // set it while nobody reads

 private:
  const std::string directory_;
};

// Returns the content of a file.
inline std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the manifest of a database in a directory. Its objects have the names of its files.
inline UploadManifest ManifestOf(const std::string& directory) {
  UploadManifest manifest;
  manifest.number = 1;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = std::filesystem::relative(entry.path(), directory).string();
    const std::string content = ContentOf(entry.path());
    manifest.files.push_back({path, path, content.size(), Crc32(content)});
  }
  return manifest;
}

// Returns an upload whose objects are the files of a database that nobody has open.
inline Upload UploadOf(const std::string& directory) {
  return {"store://" + directory, "manifests/1", EncodeUpload(ManifestOf(directory)),
          std::make_shared<FolderObjects>(directory)};
}

}  // namespace topicdb
