// Uploads: copies of a database in an object store, which are only read.
//
// An upload is a manifest and the files that it names. docs/internals/uploads.md draws its bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/status.h"
#include "topicdb/types/iterator.h"

namespace topicdb {

// A file of an uploaded database.
struct UploadedFile {
  std::string path;         // in the directory of the database
  std::string object;       // its name below the place of the upload
  std::uint64_t bytes = 0;  // of its content
  std::uint32_t crc32 = 0;  // of its content

  bool operator==(const UploadedFile&) const = default;
};

// What a database consisted of when it was uploaded.
struct UploadManifest {
  DatabaseId database{};
  std::uint64_t number = 0;  // of the upload: 1 for the first one to a place
  std::int64_t made_at = 0;  // µs since 1970, by the clock of whoever uploaded
  std::vector<UploadedFile> files;

  bool operator==(const UploadManifest&) const = default;
};

// Returns the id of the database in directory `path` without opening a shard. Returns the errors of
// Database::ReadSchema.
Result<DatabaseId> ReadDatabaseId(const std::string& path);

std::string EncodeUpload(const UploadManifest& manifest);
// Returns the manifest that these bytes encode. Errors name `name`. Returns kCorruption for foreign
// or damaged bytes and for files outside of a database, and kSchema for a newer format.
Result<UploadManifest> DecodeUpload(std::string_view bytes, const std::string& name);

// An object of an upload, as the manifest says.
struct StoredObject {
  std::string name;         // below the place of the upload
  std::uint64_t bytes = 0;  // its length
};

// Reads objects of one place in an object store. Whoever opens an upload makes it, and the database
// shares it as long as it is open. Several threads call it at the same time.
class ObjectReader {
 public:
  ObjectReader() = default;
  virtual ~ObjectReader() = default;
  ObjectReader(const ObjectReader&) = delete;
  ObjectReader& operator=(const ObjectReader&) = delete;

  // Fills `to` with the bytes of an object from `offset` on. Returns kNotFound if there is no such
  // object, kCorruption if it ends before, and kStorage or kInterrupted if reading fails.
  virtual Status Read(const StoredObject& object, std::uint64_t offset, std::span<char> to) = 0;
  // Returns whether the calling thread shall not wait any longer. It asks that now and then while
  // another thread reads what it needs.
  virtual bool IsInterrupted() { return false; }
};

// An upload, as it is opened (Database::OpenUpload).
struct Upload {
  std::string url;            // the place, for errors
  std::string manifest_name;  // for errors
  std::string manifest;       // its bytes
  std::shared_ptr<ObjectReader> objects;
};

}  // namespace topicdb
