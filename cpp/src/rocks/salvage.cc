#include "rocks/salvage.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include <rocksdb/sst_file_reader.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>

#include "base/file/file.h"
#include "base/file/file_copy.h"
#include "base/file/files.h"
#include "rocks/live_files.h"
#include "rocks/log/log_files.h"
#include "rocks/log/log_mending.h"
#include "rocks/log/log_reader.h"
#include "rocks/rocks_compat.h"

namespace topicdb::rocks {

namespace {

constexpr std::size_t kCurrentBytesMax = 4'096;
constexpr std::string_view kManifest = "MANIFEST-";
constexpr int kSizeAttemptsMax = 4;

// Copies the files of a directory, and links the table files where it can.
Status CopyDirectory(const std::string& from, const std::string& to) {
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(to));
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<LiveFile> files, ListClosedFiles(from));
  for (const LiveFile& file : files) {
    const std::string target = to + "/" + file.name;
    if (file.immutable) {
      TOPICDB_ASSIGN_OR_RETURN(const bool linked, LinkFile(file.path, target));
      if (linked) continue;
    }
    TOPICDB_RETURN_IF_ERROR(CopyFile(file.path, target, file.bytes, nullptr));
  }
  return Status::Ok();
}

// Writes a table file with two deletes of keys that never existed, and returns its length. Each
// byte of `padding` makes the file a byte longer, sometimes two. `longer` adds a byte in
// another place.
Result<std::uint64_t> WriteTable(const std::string& path, const std::string& key,
                                 std::size_t padding, bool longer) {
  rocksdb::BlockBasedTableOptions table;
  table.format_version = 5;
  table.block_size = std::numeric_limits<std::uint32_t>::max() / 2;
  rocksdb::Options options;
  options.compression = rocksdb::kNoCompression;
  options.db_host_id.clear();
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
  rocksdb::Status status = writer.Open(path);
  if (status.ok()) status = writer.Delete(key + std::string(padding, '\0'));
  if (status.ok()) status = writer.Delete(key + (longer ? std::string("\1\0", 2) : "\1"));
  rocksdb::ExternalSstFileInfo info;
  if (status.ok()) status = writer.Finish(&info);
  TOPICDB_RETURN_IF_ERROR(FromRocks(status, "writing " + path));
  return info.file_size;
}

// Replaces a table file by one without messages that has as many bytes as the manifest says, since
// RocksDB looks for its end there.
Status WriteEmptyTable(const std::string& path, const std::string& key, std::uint64_t bytes) {
  const std::string temporary = path + ".empty";
  for (const bool longer : {false, true}) {
    std::size_t padding = 1;
    for (int attempt = 0; attempt < kSizeAttemptsMax; ++attempt) {
      TOPICDB_ASSIGN_OR_RETURN(const std::uint64_t size,
                               WriteTable(temporary, key, padding, longer));
      if (size == bytes) {
        if (rename(temporary.c_str(), path.c_str()) == 0) return Status::Ok();
        return ErrnoFault("renaming to", path, errno);
      }
      if (padding + bytes <= size) break;  // too short
      padding += bytes - size;
    }
  }
  RemoveFile(temporary).IgnoreError();
  return Corruption(path + " is unreadable, and too short for another in its place");
}

}  // namespace

Result<std::unique_ptr<Salvage>> Salvage::Open(const std::string& directory,
                                               const std::string& copy,
                                               const SharedResources& resources) {
  TOPICDB_RETURN_IF_ERROR(CopyDirectory(directory, copy));
  std::unique_ptr<Salvage> salvage(new Salvage(copy, resources));
  TOPICDB_RETURN_IF_ERROR(salvage->MendCurrent());
  TOPICDB_RETURN_IF_ERROR(salvage->MendDamagedLogs());
  const Status opened = salvage->OpenDb();
  if (!opened.ok()) TOPICDB_RETURN_IF_ERROR(salvage->RepairManifest(opened.message()));
  TOPICDB_ASSIGN_OR_RETURN(const std::string newer, salvage->FindNewerTable());
  if (!newer.empty()) {
    TOPICDB_ASSIGN_OR_RETURN(const bool is_old, salvage->HasOldManifest());
    if (is_old) {
      TOPICDB_RETURN_IF_ERROR(salvage->RepairManifest(
          newer + " is newer than all that the manifest names: its end is lost"));
    }
  }
  TOPICDB_ASSIGN_OR_RETURN(const bool replaced, salvage->ReplaceUnreadable());
  if (replaced) {
    salvage->CloseDb();
    TOPICDB_RETURN_IF_ERROR(salvage->OpenDb());
  }
  return salvage;
}

Salvage::~Salvage() { CloseDb(); }

bool Salvage::MayLack(const std::string& family) const {
  return has_new_manifest_ || has_lost_commits_ ||
         std::any_of(lost_.begin(), lost_.end(),
                     [&](const LostFile& file) { return file.family == family; });
}

Status Salvage::MendCurrent() {
  const std::string path = directory_ + "/CURRENT";
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory_));
  std::string newest;
  const auto content = ReadFile(path, kCurrentBytesMax);
  for (const std::string& name : names) {
    if (!name.starts_with(kManifest)) continue;
    if (content.ok() && *content == name + "\n") return Status::Ok();
    newest = std::max(newest, name);
  }
  if (newest.empty()) return Status::Ok();
  lost_.push_back({"CURRENT", {}, "CURRENT names no manifest: the newest one was taken"});
  RemoveFile(path).IgnoreError();
  return WriteFileAtomically(path, newest + "\n");
}

Status Salvage::MendDamagedLogs() {
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<MendedLog> logs, MendLogs(directory_));
  for (const MendedLog& log : logs) {
    has_lost_commits_ = has_lost_commits_ || log.has_lost;
    lost_.push_back(
        {log.name,
         {},
         log.name + " is damaged at byte " + std::to_string(log.damaged_at) + ": " +
             (log.has_lost ? "commits in it are lost, deletes among them; how many messages they "
                             "had is known only as far as later commits tell"
                           : "one bit of a length or checksum was flipped, and is mended")});
  }
  return Status::Ok();
}

rocksdb::DBOptions Salvage::DbOptions() const {
  rocksdb::DBOptions options = MakeDbOptions(resources_, /*read_only=*/true);
  options.paranoid_checks = false;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  // AddFamilies opens the copy for writing, and must change nothing but the column families.
  options.avoid_flush_during_recovery = true;
  options.verify_sst_unique_id_in_manifest = false;  // files that were replaced have others
  return options;
}

rocksdb::ColumnFamilyOptions Salvage::FamilyOptions() const {
  rocksdb::ColumnFamilyOptions options;
  options.disable_auto_compactions = true;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = resources_.block_cache;
  table.filter_policy = nullptr;  // filters may be damaged, too
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

Result<Families> Salvage::ListFamilies() const {
  std::vector<std::string> names;
  TOPICDB_RETURN_IF_ERROR(FromRocks(
      rocksdb::DB::ListColumnFamilies(DbOptions(), directory_, &names), "opening " + directory_));
  Families families;
  families.reserve(names.size());
  for (const std::string& name : names) families.emplace_back(name, FamilyOptions());
  return families;
}

Status Salvage::OpenDb() {
  const rocksdb::DBOptions options = DbOptions();
  const std::string context = "opening " + directory_;
  TOPICDB_ASSIGN_OR_RETURN(const Families families, ListFamilies());
  FamilyHandles handles;
  TOPICDB_RETURN_IF_ERROR(
      FromRocks(rocks::OpenForReadOnly(options, directory_, families, &handles, &db_), context));
  for (rocksdb::ColumnFamilyHandle* handle : handles) families_[handle->GetName()] = handle;
  return Status::Ok();
}

void Salvage::CloseDb() {
  for (const auto& [name, handle] : families_) {
    db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  families_.clear();
  db_.reset();
}

Result<std::string> Salvage::FindNewerTable() const {
  if (has_new_manifest_) return std::string();
  std::vector<rocksdb::LiveFileMetaData> tables;
  db_->GetLiveFilesMetaData(&tables);
  std::uint64_t last = 0;
  for (const auto& table : tables) last = std::max(last, table.file_number);
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory_));
  for (const std::string& name : names) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_table = error == std::errc() && std::string_view(end) == ".sst";
    if (!is_table || number <= last) continue;
    rocksdb::SstFileReader reader{rocksdb::Options()};
    if (reader.Open(directory_ + "/" + name).ok()) return name;
  }
  return std::string();
}

// A process that is killed may leave a table file that no edit of the manifest names yet. What the
// file has is then still where it was before: in a log that was there at the last edit, or in table
// files that the manifest names. RocksDB removes those only once an edit names the new file.
Result<bool> Salvage::HasOldManifest() const {
  std::vector<rocksdb::LiveFileMetaData> tables;
  db_->GetLiveFilesMetaData(&tables);
  for (const rocksdb::LiveFileMetaData& table : tables) {
    if (!Exists(directory_ + "/" + table.relative_filename)) return true;
  }
  EditNumbers last;
  LogReader manifest(ManifestOf(directory_));
  while (manifest.Next() == LogStep::kRecord) {
    const EditNumbers numbers = NumbersOf(manifest.record());
    last.logs_needed_from = std::max(last.logs_needed_from, numbers.logs_needed_from);
    last.next_file = std::max(last.next_file, numbers.next_file);
  }
  TOPICDB_ASSIGN_OR_RETURN(const auto needed, WriteAheadLogs(directory_, last.logs_needed_from));
  TOPICDB_ASSIGN_OR_RETURN(const auto later, WriteAheadLogs(directory_, last.next_file));
  return needed.size() == later.size();
}

Status Salvage::RepairManifest(const std::string& reason) {
  CloseDb();
  lost_.push_back({"MANIFEST", {}, reason + " (the table files were listed anew)"});
  rocksdb::DBOptions options = DbOptions();
  options.create_if_missing = true;
  has_new_manifest_ = true;
  const Families known{{rocksdb::kDefaultColumnFamilyName, FamilyOptions()}};
  TOPICDB_RETURN_IF_ERROR(FromRocks(rocksdb::RepairDB(directory_, options, known, FamilyOptions()),
                                    "repairing " + directory_));
  return OpenDb();
}

Status Salvage::AddFamilies(const std::vector<std::string>& names) {
  CloseDb();
  rocksdb::DBOptions options = DbOptions();
  options.create_missing_column_families = true;
  TOPICDB_ASSIGN_OR_RETURN(Families families, ListFamilies());
  for (const std::string& name : names) families.emplace_back(name, FamilyOptions());
  FamilyHandles handles;
  TOPICDB_RETURN_IF_ERROR(FromRocks(rocks::Open(options, directory_, families, &handles, &db_),
                                    "opening " + directory_));
  for (rocksdb::ColumnFamilyHandle* handle : handles) families_[handle->GetName()] = handle;
  CloseDb();
  return OpenDb();
}

Result<bool> Salvage::ReplaceUnreadable() {
  std::vector<rocksdb::LiveFileMetaData> tables;
  db_->GetLiveFilesMetaData(&tables);
  bool any = false;
  for (const rocksdb::LiveFileMetaData& table : tables) {
    const std::string path = directory_ + "/" + table.relative_filename;
    struct stat info{};
    std::string reason;
    if (stat(path.c_str(), &info) != 0) {
      reason = "is missing";
    } else if (static_cast<std::uint64_t>(info.st_size) != table.size) {
      reason = "has another size than the manifest says";
    } else {
      rocksdb::Options options;
      options.env = rocksdb::Env::Default();
      rocksdb::SstFileReader reader(options);
      const rocksdb::Status status = reader.Open(path);
      if (status.ok()) continue;
      reason = "cannot be opened (" + status.ToString() + ")";
    }
    lost_.push_back({table.relative_filename, table.column_family_name,
                     table.relative_filename + " " + reason + ": all that it had of '" +
                         table.column_family_name + "' is lost, removals of messages too"});
    TOPICDB_RETURN_IF_ERROR(WriteEmptyTable(path, table.smallestkey, table.size));
    any = true;
  }
  return any;
}

}  // namespace topicdb::rocks
