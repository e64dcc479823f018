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

Status ForEachPage(const std::string& path,
                   const std::function<Status(std::string_view, std::string_view)>& visit) {
  rocksdb::SstFileReader reader(MakeOptions());
  TOPICDB_RETURN_IF_ERROR(FromRocks(reader.Open(path), "opening " + path));
  const std::unique_ptr<rocksdb::Iterator> pages(reader.NewIterator(rocksdb::ReadOptions()));
  for (pages->SeekToFirst(); pages->Valid(); pages->Next()) {
    TOPICDB_RETURN_IF_ERROR(visit(pages->key().ToStringView(), pages->value().ToStringView()));
  }
  return FromRocks(pages->status(), "reading " + path);
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
