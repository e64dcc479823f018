#include "rocks/files/object_files.h"

#include <algorithm>
#include <new>
#include <utility>

#include <rocksdb/file_system.h>
#include <rocksdb/metadata.h>

#include "rocks/files/file_system.h"
#include "rocks/files/process_threads.h"

namespace topicdb::rocks {

namespace {

constexpr std::size_t kCacheBytes = std::size_t{64} << 20;
// How much more the cache may keep for each open upload: what it has fetched ahead, and the chunks
// in which it reads.
constexpr std::size_t kRoomBytes = 4 * kChunksMax * kChunkBytes;
// A file has at most this many runs: its readers are at few places at a time.
constexpr std::size_t kRunsMax = 4;

// Returns how many chunks before the end of a run a reader is when the next ones are asked for.
// `chunks` are those of the last request. A short run may end soon, so it waits longer. In a long
// one, two requests are under way at a time.
std::uint64_t LeadOf(std::uint64_t chunks) {
  if (chunks < kChunksMax / 2) return chunks / 2;
  return chunks < kChunksMax ? chunks : 2 * chunks;
}

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
  ObjectFileSystem(ObjectFiles files, std::unique_ptr<ReadAhead> ahead)
      : FileSystemWrapper(EnvOf(FilesOwner::kReader)->GetFileSystem()),
        room_(&ProcessChunks(), kRoomBytes),
        files_(std::move(files)),
        ahead_(std::move(ahead)) {}

  static const char* kClassName() { return "TopicDBObjects"; }
  const char* Name() const override { return kClassName(); }

  // Returns a file, or null.
  ObjectFile* Find(const std::string& path) const {
    const auto found = files_.find(path);
    return found == files_.end() ? nullptr : found->second.get();
  }

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
  const ChunkCache::Room room_;
  const ObjectFiles files_;
  const std::unique_ptr<ReadAhead> ahead_;  // ends first: it fetches for the files
};

}  // namespace

ObjectFile::ObjectFile(std::shared_ptr<ObjectReader> reader, const std::string& place,
                       StoredObject object, ChunkCache* cache, ReadAhead* ahead)
    : reader_(std::move(reader)),
      place_(place),
      object_(std::move(object)),
      name_(place_ + "/" + object_.name),
      chunks_((object_.bytes + kChunkBytes - 1) / kChunkBytes),
      cache_(cache),
      ahead_(ahead) {}

Result<std::size_t> ObjectFile::Read(std::uint64_t offset, std::size_t size, char* to) {
  if (offset >= bytes() || size == 0) return std::size_t{0};
  const std::uint64_t end = std::min<std::uint64_t>(offset + size, bytes());
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
  std::shared_ptr<ChunkFetch> fetch;
  bool is_mine = false;
  Chunk kept;
  ObjectFile* next = nullptr;
  {
    const MutexLock lock(mutex_);
    fetch = FindFetch(chunk);
    if (fetch == nullptr) kept = FindKept(chunk);
    if (fetch == nullptr && kept == nullptr) {
      fetch = Plan(chunk, last);
      is_mine = true;
    }
    if (FetchAhead(chunk)) next = next_;
  }
  if (next != nullptr) next->Announce();
  if (fetch == nullptr) return kept;
  if (is_mine) Fetch(fetch);
  return fetch->Wait(chunk, [this] { return reader_->IsInterrupted(); });
}

std::shared_ptr<ChunkFetch> ObjectFile::FindFetch(std::uint64_t chunk) const {
  for (const auto& fetch : fetches_) {
    if (fetch->Has(chunk)) return fetch;
  }
  return nullptr;
}

ObjectFile::Run* ObjectFile::FindRun(std::uint64_t chunk) {
  const auto found = std::find_if(runs_.begin(), runs_.end(), [&](const Run& run) {
    return chunk >= run.begin && chunk <= run.next;
  });
  if (found == runs_.end()) return nullptr;
  std::rotate(runs_.begin(), found, found + 1);
  return &runs_.front();
}

std::shared_ptr<ChunkFetch> ObjectFile::Plan(std::uint64_t chunk, std::uint64_t last) {
  Run* run = FindRun(chunk);
  std::uint64_t count = last - chunk + 1;
  if (run != nullptr && chunk == run->next) {
    run->is_sequential = true;
    count = std::max(count, 2 * run->chunks);
  } else {
    run = AddRun(chunk);
  }
  return Extend(run, count);
}

ObjectFile::Run* ObjectFile::AddRun(std::uint64_t begin) {
  if (runs_.size() == kRunsMax) runs_.pop_back();
  return &*runs_.insert(runs_.begin(), {.begin = begin, .next = begin});
}

std::shared_ptr<ChunkFetch> ObjectFile::Extend(Run* run, std::uint64_t count) {
  const std::uint64_t begin = run->next;
  const std::uint64_t end = std::min({begin + count, begin + kChunksMax, chunks_});
  do {
    ++run->next;
  } while (run->next < end && !IsHere(run->next));
  run->chunks = run->next - begin;
  return fetches_.emplace_back(std::make_shared<ChunkFetch>(begin, run->chunks));
}

bool ObjectFile::ExtendAhead(Run* run, std::uint64_t count) {
  const Run before = *run;
  const auto fetch = Extend(run, count);
  if (ahead_->Submit([this, fetch] { Fetch(fetch); })) return true;
  std::erase(fetches_, fetch);
  *run = before;
  return false;
}

bool ObjectFile::FetchAhead(std::uint64_t chunk) {
  if (ahead_ == nullptr) return false;
  Run* const run = FindRun(chunk);
  if (run == nullptr) return false;
  if (chunk == run->next) {  // it is here already
    ++run->next;
    run->is_sequential = true;
  }
  while (run->is_sequential && run->next < chunks_) {
    if (IsHere(run->next)) {
      ++run->next;
    } else if (run->next - chunk > LeadOf(run->chunks) || !ExtendAhead(run, 2 * run->chunks)) {
      return false;
    }
  }
  return run->is_sequential && run->next == chunks_;
}

void ObjectFile::SetNext(ObjectFile* next) {
  const MutexLock lock(mutex_);
  next_ = next;
}

void ObjectFile::Announce() {
  const MutexLock lock(mutex_);
  if (ahead_ == nullptr || chunks_ == 0) return;
  if (!IsHere(chunks_ - 1) && !ExtendAhead(AddRun(chunks_ - 1), 1)) return;
  if (IsHere(0)) return;
  Run* const run = AddRun(0);
  run->is_sequential = ExtendAhead(run, kChunksMax / 2);
}

void ObjectFile::Fetch(const std::shared_ptr<ChunkFetch>& fetch) {
  Result<std::vector<Chunk>> chunks = Ask(fetch->begin(), fetch->count());
  {
    const MutexLock lock(mutex_);
    std::uint64_t number = fetch->begin();
    if (chunks.ok()) {
      for (const Chunk& chunk : *chunks) cache_->Add({name_, number++}, chunk);
    }
    std::erase(fetches_, fetch);
  }
  fetch->Finish(std::move(chunks));
}

Result<std::vector<Chunk>> ObjectFile::Ask(std::uint64_t chunk, std::uint64_t count) const try {
  const std::uint64_t begin = chunk * kChunkBytes;
  const std::uint64_t end = std::min<std::uint64_t>(begin + count * kChunkBytes, bytes());
  std::string bytes(end - begin, '\0');
  TOPICDB_RETURN_IF_ERROR(reader_->Read(object_, begin, bytes).WithContext(place_));
  std::vector<Chunk> chunks;
  for (std::uint64_t i = 0; i < count; ++i) {
    chunks.push_back(
        std::make_shared<const std::string>(bytes.substr(i * kChunkBytes, kChunkBytes)));
  }
  return chunks;
} catch (const std::bad_alloc&) {  // those who wait must learn of it
  return StorageFault(name_ + ": there is no memory to read it");
}

void OrderObjects(rocksdb::DB* db, const std::vector<rocksdb::ColumnFamilyHandle*>& families) {
  const auto* const files = db->GetFileSystem()->CheckedCast<ObjectFileSystem>();
  if (files == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* const family : families) {
    rocksdb::ColumnFamilyMetaData found;
    db->GetColumnFamilyMetaData(family, &found);
    std::map<std::string, ObjectFile*> by_key;
    for (const rocksdb::LevelMetaData& level : found.levels) {
      for (const rocksdb::SstFileMetaData& table : level.files) {
        by_key[table.smallestkey] = files->Find(db->GetName() + "/" + table.relative_filename);
      }
    }
    ObjectFile* before = nullptr;
    for (const auto& [key, file] : by_key) {
      if (before != nullptr) before->SetNext(file);
      before = file;
    }
  }
}

ChunkCache& ProcessChunks() {
  static auto* const chunks = new ChunkCache(kCacheBytes);  // threads may read to the very end
  return *chunks;
}

std::shared_ptr<rocksdb::Env> MakeObjectEnv(ObjectFiles files, std::unique_ptr<ReadAhead> ahead) {
  std::shared_ptr<rocksdb::Env> base = rocksdb::NewCompositeEnv(
      std::make_shared<ObjectFileSystem>(std::move(files), std::move(ahead)));
  rocksdb::Env* const env = WithoutPool(base.get()).release();
  // What is in front of `base` must go first.
  return {env, [base](rocksdb::Env* ended) { delete ended; }};
}

}  // namespace topicdb::rocks
