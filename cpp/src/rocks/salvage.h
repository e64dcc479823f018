// Opens a damaged RocksDB so that all of it can be read that is readable, where RocksDB itself
// would refuse it as a whole.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <rocksdb/db.h>

#include "rocks/rocks_compat.h"
#include "rocks/rocks_options.h"
#include "topicdb/status.h"

namespace topicdb::rocks {

// A file of a RocksDB that is lost, or something of it.
struct LostFile {
  std::string name;
  std::string family;  // of a table file: the column family whose keys it had; else empty
  std::string what;    // a sentence about it
};

// A copy of a directory, mended as far as it must be to be opened. Not thread-safe.
//
// What is mended: a CURRENT that names no manifest names the newest one. A table file that is
// missing, or whose index cannot be read, is replaced by an empty one, since the unreadable file
// would make all keys of its level unreadable. Damaged records of logs are mended or left out.
// Without a manifest that can be read to its end RocksDB's own repair makes one from the table
// files that are whole. Damaged blocks of table files stay (SkippingIterator).
class Salvage {
 public:
  // Makes the copy, at a path where there is nothing; table files are linked where that can be.
  // kStorage, kCorruption if nothing helps.
  static Result<std::unique_ptr<Salvage>> Open(const std::string& directory,
                                               const std::string& copy,
                                               const SharedResources& resources);
  ~Salvage();
  Salvage(const Salvage&) = delete;
  Salvage& operator=(const Salvage&) = delete;

  rocksdb::DB* db() const { return db_.get(); }
  // By name, the default one too.
  const std::map<std::string, rocksdb::ColumnFamilyHandle*>& families() const { return families_; }
  const std::vector<LostFile>& lost() const { return lost_; }
  // Column families may be missing, and table files that were removed long ago be there again.
  bool has_new_manifest() const { return has_new_manifest_; }
  // Those of a damaged log: of any column families, and the last of them leave no trace.
  bool has_lost_commits() const { return has_lost_commits_; }
  // Makes empty column families. Handles that were given before are of no more use.
  Status AddFamilies(const std::vector<std::string>& names);
  // Keys of the family may be lost as a whole, by a file that is.
  bool MayLack(const std::string& family) const;

 private:
  Salvage(std::string directory, const SharedResources& resources)
      : directory_(std::move(directory)), resources_(resources) {}

  Status MendCurrent();
  Status MendDamagedLogs();
  Status OpenDb();
  Result<Families> ListFamilies() const;
  void CloseDb();
  Status RepairManifest(const std::string& reason);
  // A whole table file that was written after all that the manifest knows; empty if there is none.
  Result<std::string> FindNewerTable() const;
  // Whether files are gone that it names or needs.
  Result<bool> HasOldManifest() const;
  // Whether some were.
  Result<bool> ReplaceUnreadable();
  rocksdb::DBOptions DbOptions() const;
  rocksdb::ColumnFamilyOptions FamilyOptions() const;

  const std::string directory_;
  const SharedResources resources_;
  std::unique_ptr<rocksdb::DB> db_;
  std::map<std::string, rocksdb::ColumnFamilyHandle*> families_;
  std::vector<LostFile> lost_;
  bool has_new_manifest_ = false;
  bool has_lost_commits_ = false;
};

}  // namespace topicdb::rocks
