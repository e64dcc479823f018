// A log of entries in a file, and replicas that apply them, for tests.
#pragma once

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes/hash.h"
#include "replication/entry_applier.h"
#include "replication/entry_parts.h"
#include "replication/replicated_log.h"
#include "replication/replicated_shard_log.h"
#include "replication/unlogged_rocks.h"
#include "rocks/rocks_compat.h"
#include "rocks/rocks_options.h"
#include "store/slab/family_stock.h"

namespace topicdb::replication {

// Keeps entries in memory, and in a file if it has a path. Each opening has the next term. What was
// proposed is there after the process has ended, but not after a loss of power.
class EntryFile : public ReplicatedLog {
 public:
  struct Stored {
    LogPlace place;
    std::string bytes;
  };

  explicit EntryFile(std::string path = {}) : path_(std::move(path)) {
    std::ifstream file(path_, std::ios::binary);
    Stored stored;
    std::uint64_t size = 0;
    while (Read(file, &stored.place.term) && Read(file, &size)) {
      stored.bytes.resize(size);
      file.read(stored.bytes.data(), static_cast<std::streamsize>(size));
      stored.place.index = entries_.size() + 1;
      entries_.push_back(stored);
    }
    if (!entries_.empty()) term_ = entries_.back().place.term + 1;
  }

  Result<LogPlace> Propose(const Entry& entry) override {
    for (std::string& part : DivideEntry(entry, Encode(entry), entry_bytes_max)) {
      Append(std::move(part));
    }
    return entries_.back().place;
  }
  void NoteApplied(const LogPlace& place) override { applied_ = place; }
  void NoteFailed(const Status&) override {}
  Status MayWrite() const override { return Status::Ok(); }
  const std::vector<Stored>& entries() const { return entries_; }
  // Takes the first entries of another log. The next term begins.
  void Take(const EntryFile& other, std::size_t count) {
    entries_.assign(other.entries_.begin(), other.entries_.begin() + count);
    term_ = other.term_ + 1;
  }
  // Begins the next term, in which another replica leads.
  void BeginTerm() { ++term_; }
  // Returns the last entry that the leader said to have applied.
  LogPlace applied() const { return applied_; }

  std::size_t entry_bytes_max = kEntryBytesMax;

 private:
  void Append(std::string entry) {
    const LogPlace place{entries_.size() + 1, term_};
    if (!path_.empty()) {
      std::ofstream file(path_, std::ios::binary | std::ios::app);
      const std::uint64_t size = entry.size();
      file.write(reinterpret_cast<const char*>(&term_), sizeof(term_));
      file.write(reinterpret_cast<const char*>(&size), sizeof(size));
      file.write(entry.data(), static_cast<std::streamsize>(size));
      file.flush();
      EXPECT_TRUE(file.good()) << path_;
    }
    entries_.push_back({place, std::move(entry)});
  }
  static bool Read(std::ifstream& file, std::uint64_t* number) {
    return !!file.read(reinterpret_cast<char*>(number), sizeof(*number));
  }

  const std::string path_;
  std::uint64_t term_ = 1;
  std::vector<Stored> entries_;
  LogPlace applied_;
};

// Returns a log that somebody else owns, and which outlives its user.
inline std::shared_ptr<ReplicatedLog> Unowned(ReplicatedLog* log) {
  return {std::shared_ptr<void>(), log};
}

// Returns what a replica does when it opens a shard, to lead: it begins a reign, and applies what
// the log has and the RocksDB lacks. `log` must outlive the shard.
inline OpenShardLog LeadWith(EntryFile* log) {
  return [log](const OpenedShard& shard) -> Result<std::unique_ptr<rocks::ShardLog>> {
    Entry begins;
    begins.kind = EntryKind::kLead;
    TOPICDB_RETURN_IF_ERROR(log->Propose(begins).status());
    TOPICDB_ASSIGN_OR_RETURN(std::unique_ptr<UnloggedRocks> rocks, UnloggedRocks::Make(shard));
    EntryApplier applier(shard, rocks.get());
    PartJoiner parts;
    for (const EntryFile::Stored& entry : log->entries()) {
      TOPICDB_ASSIGN_OR_RETURN(const auto whole, parts.Add(entry.bytes));
      if (whole.has_value()) TOPICDB_RETURN_IF_ERROR(applier.Apply(entry.place, *whole));
    }
    return std::unique_ptr<rocks::ShardLog>(
        std::make_unique<ReplicatedShardLog>(Unowned(log), std::move(rocks)));
  };
}

// What a RocksDB has: a hash of the keys and values of each column family that is not empty.
using Digests = std::map<std::string, std::uint64_t>;

inline Digests DigestsOf(rocksdb::DB* db, const rocks::FamilyHandles& families) {
  Digests digests;
  for (rocksdb::ColumnFamilyHandle* family : families) {
    std::uint64_t digest = 0;
    const std::unique_ptr<rocksdb::Iterator> rows(db->NewIterator(rocksdb::ReadOptions(), family));
    for (rows->SeekToFirst(); rows->Valid(); rows->Next()) {
      digest = Hash64(rows->key().ToStringView(), digest + 1);
      digest = Hash64(rows->value().ToStringView(), digest + 1);
    }
    EXPECT_TRUE(rows->status().ok()) << rows->status().ToString();
    if (digest != 0) digests[family->GetName()] = digest;
  }
  return digests;
}

// How far a replica is.
struct Progress {
  meta::Applied applied;
  Serial serial;
  std::string commit_state;  // the record
};

// A RocksDB that applies entries, as a ReplicatedShard does, and shows what it has.
class Copy {
 public:
  // Opens the RocksDB in a directory, or makes one.
  explicit Copy(const std::string& directory) {
    const rocksdb::DBOptions options = rocks::MakeDbOptions(resources_, /*read_only=*/false);
    std::vector<std::string> names;
    if (!rocksdb::DB::ListColumnFamilies(options, directory, &names).ok()) {
      names = {rocksdb::kDefaultColumnFamilyName};
    }
    rocks::Families families;
    for (const std::string& name : names) {
      families.emplace_back(name, rocks::FamilyOptions(resources_, FamilyUseOf(name)));
    }
    rocks::FamilyHandles handles;
    const auto opened = rocks::Open(options, directory, families, &handles, &db_);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    for (rocksdb::ColumnFamilyHandle* handle : handles) {
      auto owned = std::make_shared<FamilyHandle>(db_.get(), handle);
      if (handle->GetName() == rocksdb::kDefaultColumnFamilyName) {
        default_family_ = std::move(owned);
      } else {
        families_.Add({{handle->GetName(), std::move(owned)}});
      }
    }
    shard_ = std::make_unique<OpenedShard>(
        OpenedShard{db_.get(), "the replica", *default_family_, &families_, resources_});
    rocks_ = UnloggedRocks::Make(*shard_).value();
  }
  ~Copy() {
    families_.Clear();
    default_family_.reset();
    EXPECT_TRUE(db_->Close().ok());
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  // Makes a column family that no entry names, so that the later ones have other numbers than those
  // of the leader.
  void ShiftFamilyNumbers() {
    rocksdb::ColumnFamilyHandle* handle = nullptr;
    EXPECT_TRUE(db_->CreateColumnFamily(rocksdb::ColumnFamilyOptions(), "shift", &handle).ok());
    families_.Add({{"shift", std::make_shared<FamilyHandle>(db_.get(), handle)}});
  }
  Status Apply(const LogPlace& place, const std::string& bytes) {
    const auto whole = parts_.Add(bytes);
    TOPICDB_RETURN_IF_ERROR(
        whole.status().WithContext("the replica, entry " + std::to_string(place.index)));
    if (!whole->has_value()) return Status::Ok();
    return EntryApplier(*shard_, rocks_.get()).Apply(place, **whole);
  }
  // Returns what writes to the RocksDB.
  std::shared_ptr<UnloggedRocks> rocks() const { return rocks_; }
  // Applies the entries of the log from this index on.
  void ApplyFrom(const EntryFile& log, std::uint64_t index = 1) {
    for (const EntryFile::Stored& entry : log.entries()) {
      if (entry.place.index < index) continue;
      const Status status = Apply(entry.place, entry.bytes);
      ASSERT_TRUE(status.ok()) << status.message();
    }
  }
  // Returns the records that say how far the replica is.
  Progress progress() const {
    Progress found{rocks_->applied(), rocks_->serial(), {}};
    const auto read = db_->Get(rocksdb::ReadOptions(), meta::CommitStateKey(), &found.commit_state);
    EXPECT_TRUE(read.ok()) << read.ToString();
    return found;
  }
  // Makes the replica as a crash may leave it that comes after files of some families were written,
  // and before those of the others: everything is there, but the records say less.
  void ForgetSince(const Progress& then) {
    rocksdb::WriteBatch records;
    EXPECT_TRUE(records.Put(meta::CommitStateKey(), then.commit_state).ok());
    EXPECT_TRUE(rocks_->Write(&records, then.applied, then.serial).ok());
  }
  void Flush() { EXPECT_TRUE(rocks_->Flush().ok()); }
  meta::Applied applied() const { return rocks_->applied(); }
  Digests digests() const { return DigestsOf(db_.get(), rocks_->Families()); }
  rocks::FamilyHandles families() const { return rocks_->Families(); }
  rocksdb::DB* db() const { return db_.get(); }
  OpenedShard opened() const { return *shard_; }
  bool Has(const std::string& family) const { return families_.all().contains(family); }

 private:
  rocks::SharedResources resources_ = rocks::MakeSharedResources(1 << 20, 8 << 20);
  std::unique_ptr<rocksdb::DB> db_;
  std::shared_ptr<FamilyHandle> default_family_;
  ShardFamilies families_;
  std::unique_ptr<OpenedShard> shard_;
  std::shared_ptr<UnloggedRocks> rocks_;
  PartJoiner parts_;
};

}  // namespace topicdb::replication
