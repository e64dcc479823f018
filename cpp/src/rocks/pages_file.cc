#include "rocks/pages_file.h"

#include <unistd.h>

#include <cerrno>

#include <rocksdb/sst_file_reader.h>
#include <rocksdb/sst_file_writer.h>

#include "base/file/files.h"
#include "rocks/rocks_compat.h"
#include "rocks/rocks_options.h"

namespace topicdb::rocks {

namespace {

constexpr std::size_t kUnusedBytes = std::size_t{1} << 20;  // of caches, which writing does not use

rocksdb::Options MakeOptions() {
  const SharedResources resources = MakeSharedResources(kUnusedBytes, kUnusedBytes);
  return {MakeDbOptions(resources, /*read_only=*/true),
          FamilyOptions(resources, FamilyUse::kPages)};
}

}  // namespace

struct PagesFile::Writer {
  rocksdb::Options options = MakeOptions();
  rocksdb::SstFileWriter file{rocksdb::EnvOptions(), options};
};

PagesFile::PagesFile(std::string path)
    : path_(std::move(path)), writer_(std::make_unique<Writer>()) {}

PagesFile::~PagesFile() = default;

Result<std::unique_ptr<PagesFile>> PagesFile::Create(const std::string& path) {
  std::unique_ptr<PagesFile> file(new PagesFile(path));
  TOPICDB_RETURN_IF_ERROR(FromRocks(file->writer_->file.Open(path), "creating " + path));
  return file;
}

Status PagesFile::Put(std::string_view key, std::string_view page) {
  return FromRocks(writer_->file.Put(key, page), "writing " + path_);
}

std::uint64_t PagesFile::bytes() const { return writer_->file.FileSize(); }

Status PagesFile::Finish() { return FromRocks(writer_->file.Finish(), "writing " + path_); }

struct PagesFileReader::Reader {
  rocksdb::SstFileReader file{MakeOptions()};
  std::unique_ptr<rocksdb::Iterator> records;  // must go before the file
};

PagesFileReader::PagesFileReader(std::string path)
    : path_(std::move(path)), reader_(std::make_unique<Reader>()) {}

PagesFileReader::~PagesFileReader() = default;

Result<std::unique_ptr<PagesFileReader>> PagesFileReader::Open(const std::string& path) {
  std::unique_ptr<PagesFileReader> reader(new PagesFileReader(path));
  TOPICDB_RETURN_IF_ERROR(FromRocks(reader->reader_->file.Open(path), "opening " + path));
  reader->reader_->records.reset(reader->reader_->file.NewIterator(rocksdb::ReadOptions()));
  return reader;
}

Result<std::string> PagesFileReader::Get(std::string_view key) {
  rocksdb::Iterator& records = *reader_->records;
  records.Seek(key);
  TOPICDB_RETURN_IF_ERROR(FromRocks(records.status(), "reading " + path_));
  if (!records.Valid() || records.key() != rocksdb::Slice(key)) {
    return Corruption(path_ + ": a page is missing");
  }
  return records.value().ToString();
}

Status PagesFileReader::ForEach(
    const std::function<Status(std::string_view key, std::string_view page)>& visit) {
  rocksdb::Iterator& records = *reader_->records;
  for (records.SeekToFirst(); records.Valid(); records.Next()) {
    TOPICDB_RETURN_IF_ERROR(visit(records.key().ToStringView(), records.value().ToStringView()));
  }
  return FromRocks(records.status(), "reading " + path_);
}

Status Ingest(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, const std::string& path) {
  // RocksDB moves a second name of the file. The first one stays, so that an interrupted caller can
  // begin again.
  const std::string second = path + ".ingest";
  unlink(second.c_str());
  rocksdb::IngestExternalFileOptions options;
  options.move_files = link(path.c_str(), second.c_str()) == 0;  // else RocksDB copies the file
  options.failed_move_fall_back_to_copy = true;
  options.snapshot_consistency = false;  // no reader knows of these pages yet
  options.write_global_seqno = false;
  const rocksdb::Status status =
      db->IngestExternalFile(family, {options.move_files ? second : path}, options);
  if (options.move_files) unlink(second.c_str());
  return FromRocks(status, "taking over " + path);
}

}  // namespace topicdb::rocks
