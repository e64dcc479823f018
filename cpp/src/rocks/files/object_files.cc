#include "rocks/files/object_files.h"

#include <algorithm>
#include <utility>

#include <rocksdb/file_system.h>

#include "rocks/files/file_system.h"
#include "rocks/files/process_threads.h"

namespace topicdb::rocks {

namespace {

constexpr std::size_t kCacheBytes = std::size_t{64} << 20;

rocksdb::IOStatus ToRocks(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return rocksdb::IOStatus::OK();
    case Code::kNotFound:
      return rocksdb::IOStatus::PathNotFound(status.message());
    case Code::kCorruption:
      return rocksdb::IOStatus::Corruption(status.message());
    default:
      return rocksdb::IOStatus::IOError(status.message());
  }
}

// A table file as RocksDB reads it. RocksDB owns it. Thread-safe.
class ObjectTable : public rocksdb::FSRandomAccessFile {
 public:
  explicit ObjectTable(std::shared_ptr<ObjectFile> file) : file_(std::move(file)) {}

  rocksdb::IOStatus Read(std::uint64_t offset, std::size_t bytes, const rocksdb::IOOptions&,
                         rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext*) const override {
    *result = rocksdb::Slice(scratch, 0);
    const Result<std::size_t> read = file_->Read(offset, bytes, scratch);
    if (!read.ok()) return ToRocks(read.status());
    *result = rocksdb::Slice(scratch, *read);
    return rocksdb::IOStatus::OK();
  }

 private:
  const std::shared_ptr<ObjectFile> file_;
};

// The file system of MakeObjectEnv. The environment owns it. Thread-safe.
class ObjectFileSystem : public rocksdb::FileSystemWrapper {
 public:
  explicit ObjectFileSystem(ObjectFiles files)
      : FileSystemWrapper(EnvOf(FilesOwner::kReader)->GetFileSystem()), files_(std::move(files)) {}

  const char* Name() const override { return "TopicDBObjects"; }

  // Asks the store nothing: opening a database would take a request for each file.
  rocksdb::IOStatus NewRandomAccessFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override {
    const auto found = files_.find(path);
    if (found == files_.end()) {
      return FileSystemWrapper::NewRandomAccessFile(path, options, file, debug);
    }
    *file = std::make_unique<ObjectTable>(found->second);
    return rocksdb::IOStatus::OK();
  }

  rocksdb::IOStatus FileExists(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    return files_.contains(path) ? rocksdb::IOStatus::OK()
                                 : FileSystemWrapper::FileExists(path, options, debug);
  }

  rocksdb::IOStatus GetFileSize(const std::string& path, const rocksdb::IOOptions& options,
                                std::uint64_t* bytes, rocksdb::IODebugContext* debug) override {
    const auto found = files_.find(path);
    if (found == files_.end()) return FileSystemWrapper::GetFileSize(path, options, bytes, debug);
    *bytes = found->second->bytes();
    return rocksdb::IOStatus::OK();
  }

  rocksdb::IOStatus GetChildren(const std::string& path, const rocksdb::IOOptions& options,
                                std::vector<std::string>* names,
                                rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = FileSystemWrapper::GetChildren(path, options, names, debug);
    const std::string begin = path + "/";
    for (auto file = files_.lower_bound(begin);
         file != files_.end() && file->first.starts_with(begin); ++file) {
      names->push_back(file->first.substr(begin.size()));
    }
    return status;
  }

 private:
  const ObjectFiles files_;
};

}  // namespace

ObjectFile::ObjectFile(std::shared_ptr<ObjectReader> reader, std::string place, std::string object,
                       std::uint64_t bytes, ChunkCache* cache)
    : reader_(std::move(reader)),
      place_(std::move(place)),
      object_(std::move(object)),
      bytes_(bytes),
      cache_(cache) {}

Result<std::size_t> ObjectFile::Read(std::uint64_t offset, std::size_t size, char* to) {
  if (offset >= bytes_ || size == 0) return std::size_t{0};
  const std::uint64_t end = std::min<std::uint64_t>(offset + size, bytes_);
  const std::uint64_t last = (end - 1) / kChunkBytes;
  std::uint64_t at = offset;
  while (at < end) {
    const std::uint64_t number = at / kChunkBytes;
    TOPICDB_ASSIGN_OR_RETURN(const Chunk chunk, Take(number, last));
    const std::size_t skipped = at - number * kChunkBytes;
    const std::size_t taken = std::min<std::uint64_t>(chunk->size() - skipped, end - at);
    std::copy_n(chunk->data() + skipped, taken, to + (at - offset));
    at += taken;
  }
  return static_cast<std::size_t>(end - offset);
}

Result<Chunk> ObjectFile::Take(std::uint64_t chunk, std::uint64_t last) {
  const ChunkKey key(place_ + "/" + object_, chunk);
  if (Chunk found = cache_->Find(key); found != nullptr) return found;
  const MutexLock lock(mutex_);
  if (Chunk found = cache_->Find(key); found != nullptr) return found;  // another read fetched it
  return Fetch(chunk, last);
}

Result<Chunk> ObjectFile::Fetch(std::uint64_t chunk, std::uint64_t last) {
  const std::uint64_t chunks = (bytes_ + kChunkBytes - 1) / kChunkBytes;
  const std::uint64_t ahead = chunk == next_ && run_ > 0 ? 2 * run_ : 1;
  const std::uint64_t count =
      std::min({std::max(ahead, last - chunk + 1), std::uint64_t{kChunksMax}, chunks - chunk});
  const std::uint64_t begin = chunk * kChunkBytes;
  const std::uint64_t end = std::min<std::uint64_t>(begin + count * kChunkBytes, bytes_);
  std::string bytes(end - begin, '\0');
  TOPICDB_RETURN_IF_ERROR(reader_->Read(object_, begin, bytes).WithContext(place_));
  next_ = chunk + count;
  run_ = count;
  Chunk first;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto part = std::make_shared<const std::string>(bytes.substr(i * kChunkBytes, kChunkBytes));
    if (i == 0) first = part;
    cache_->Add({place_ + "/" + object_, chunk + i}, std::move(part));
  }
  return first;
}

ChunkCache& ProcessChunks() {
  static auto* const chunks = new ChunkCache(kCacheBytes);  // threads may read to the very end
  return *chunks;
}

std::shared_ptr<rocksdb::Env> MakeObjectEnv(ObjectFiles files) {
  std::shared_ptr<rocksdb::Env> base =
      rocksdb::NewCompositeEnv(std::make_shared<ObjectFileSystem>(std::move(files)));
  rocksdb::Env* const env = WithoutPool(base.get()).release();
  // What is in front of `base` must go first.
  return {env, [base](rocksdb::Env* ended) { delete ended; }};
}

}  // namespace topicdb::rocks
