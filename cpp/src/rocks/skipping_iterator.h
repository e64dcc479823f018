// Reads all of a column family that can be read, around what is damaged.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <rocksdb/db.h>

#include "topicdb/status.h"

namespace topicdb::rocks {

// Keys that could not be read: from the first one on to the one before the second; that is empty if
// nothing behind them could be read either.
struct KeyGap {
  std::string begin;
  std::string end;
  std::string why;  // names the file
};

// As RocksDB's iterators, forwards only. Where a block of a table file is damaged it goes on with
// the first key behind it that can be read. Of two damaged blocks with fewer keys between them than
// the first one has, it may take what is between for damaged, too. Not thread-safe.
class SkippingIterator {
 public:
  // snapshot: null for now
  SkippingIterator(rocksdb::DB* db, const rocksdb::Snapshot* snapshot,
                   rocksdb::ColumnFamilyHandle* family);

  void Seek(std::string_view key);
  void Next();
  bool Valid() const { return records_->Valid(); }
  // REQUIRES: Valid()
  std::string_view key() const { return records_->key().ToStringView(); }
  std::string_view value() const { return records_->value().ToStringView(); }

  // In the order in which they were met.
  const std::vector<KeyGap>& gaps() const { return gaps_; }
  // What is no damage: the disk failed, say.
  const Status& status() const { return status_; }

 private:
  // True if the iterator is where it should be: at a key, or at the end.
  bool IsSound();
  bool IsSoundAt(const std::string& key);
  void SkipFrom(const std::string& key);

  rocksdb::DB* const db_;
  const rocksdb::Snapshot* const snapshot_;
  rocksdb::ColumnFamilyHandle* const family_;
  std::unique_ptr<rocksdb::Iterator> records_;
  std::string last_;  // key that was read last
  std::vector<KeyGap> gaps_;
  std::string why_;  // of the damage that was met last
  Status status_;
};

}  // namespace topicdb::rocks
