// Opens a damaged RocksDB such that everything in it that is readable can be read. RocksDB itself
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

// A file of a RocksDB that is lost, in whole or in part.
struct LostFile {
  std::string name;
  std::string family;  // for a table file: the column family whose keys it had; else empty
  std::string what;    // a sentence about the loss
};

// Opens a copy of a directory, which it mends as far as is needed to open it. The caller of Open
// owns it. Destroying it closes the copy. Not thread-safe.
//
// It mends the following. A CURRENT that names no manifest gets the name of the newest one. A table
// file that is missing, or whose index cannot be read, is replaced by an empty one, since it would
// make all keys of its level unreadable. Damaged records of logs are mended or left out. If no
// manifest can be read to its end, RocksDB's own repair makes one from the table files that are
// whole. Damaged blocks of table files stay; see SkippingIterator.
class Salvage {
 public:
  // Makes the copy at a path where there is nothing, and opens it. Links table files where it can.
  // Returns kStorage, or kCorruption if nothing helps.
  static Result<std::unique_ptr<Salvage>> Open(const std::string& directory,
                                               const std::string& copy,
                                               const SharedResources& resources);
  ~Salvage();
  Salvage(const Salvage&) = delete;
  Salvage& operator=(const Salvage&) = delete;

  rocksdb::DB* db() const { return db_.get(); }
  // Returns the column families by name, including the default one.
  const std::map<std::string, rocksdb::ColumnFamilyHandle*>& families() const { return families_; }
  const std::vector<LostFile>& lost() const { return lost_; }
  // Returns whether the manifest was made anew. Column families may then be missing, and table
  // files that were removed long ago may be there again.
  bool has_new_manifest() const { return has_new_manifest_; }
  // Returns whether commits of a damaged log are lost. They may be of any column families, and the
  // last of them leave no trace.
  bool has_lost_commits() const { return has_lost_commits_; }
  // Makes empty column families. The handles that were given before are not valid any more.
  Status AddFamilies(const std::vector<std::string>& names);
  // Returns whether the family may lack keys: because of a new manifest, a lost commit, or a lost
  // table file of the family.
  bool MayLack(const std::string& family) const;

 private:
  Salvage(std::string directory, const SharedResources& resources)
      : directory_(std::move(directory)), resources_(resources) {}

  // Has CURRENT name the newest manifest, if it names none.
  Status MendCurrent();
  // Mends the logs, and notes which of them have lost commits.
  Status MendDamagedLogs();
  // Opens the copy with all its column families, for reading.
  Status OpenDb();
  // Returns the column families that the manifest names.
  Result<Families> ListFamilies() const;
  void CloseDb();
  // Has RocksDB make a manifest from the table files, and opens the copy with it.
  Status RepairManifest(const std::string& reason);
  // Returns the name of a whole table file that is newer than all that the manifest names; empty if
  // there is none.
  Result<std::string> FindNewerTable() const;
  // Returns whether files are gone that the manifest names or needs.
  Result<bool> HasOldManifest() const;
  // Replaces unreadable table files by empty ones. Returns whether there were any.
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
