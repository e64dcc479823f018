// Reads everything in a column family that can be read, around what is damaged.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <rocksdb/db.h>

#include "topicdb/status.h"

namespace topicdb::rocks {

// The range of keys [begin, end) that could not be read. `end` is empty if nothing behind `begin`
// could be read.
struct KeyGap {
  std::string begin;
  std::string end;
  std::string why;  // names the file
};

// Like RocksDB's iterators, but forwards only, and it skips damage. Where a block of a table file
// is damaged, it continues with the first readable key behind the block. If there are fewer keys
// between two damaged blocks than in the first of them, it may take those keys for damaged, too.
// The database, the snapshot and the family must outlive it. Not thread-safe.
class SkippingIterator {
 public:
  // `snapshot` is null to read the present state.
  SkippingIterator(rocksdb::DB* db, const rocksdb::Snapshot* snapshot,
                   rocksdb::ColumnFamilyHandle* family);

  // Moves to the first key from `key` on that can be read.
  void Seek(std::string_view key);
  // Moves to the next key that can be read. REQUIRES: Valid()
  void Next();
  bool Valid() const { return records_->Valid(); }
  // REQUIRES: Valid()
  std::string_view key() const { return records_->key().ToStringView(); }
  std::string_view value() const { return records_->value().ToStringView(); }

  // Returns the gaps in the order in which they were met.
  const std::vector<KeyGap>& gaps() const { return gaps_; }
  // Returns an error that is not damage, for example that the disk failed.
  const Status& status() const { return status_; }

 private:
  // Returns whether the iterator is where it should be: at a key, or at the end.
  bool IsSound();
  // Seeks with a new iterator, and returns IsSound.
  bool IsSoundAt(const std::string& key);
  // Moves to the first key behind the damage that was met at `key`, and notes the gap.
  void SkipFrom(const std::string& key);

  rocksdb::DB* const db_;
  const rocksdb::Snapshot* const snapshot_;
  rocksdb::ColumnFamilyHandle* const family_;
  std::unique_ptr<rocksdb::Iterator> records_;
  std::string last_;  // the key that was read last
  std::vector<KeyGap> gaps_;
  std::string why_;  // the message of the damage that was met last
  Status status_;
};

}  // namespace topicdb::rocks
