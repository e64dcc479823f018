// One sorted run of keys with a common prefix, within a range of time: the messages of a stream, or
// the index entries of one word at one level. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "layout/layout.h"

namespace topicdb::skipstream {

class KeyRun {
 public:
  KeyRun(const RocksSource& source, std::string prefix, const TimeRange& range,
         std::uint32_t timestamp_bytes);
  // RocksDB keeps the bounds by their address.
  KeyRun(const KeyRun&) = delete;
  KeyRun& operator=(const KeyRun&) = delete;

  bool Valid() const { return iterator_->Valid(); }
  Status status() const;
  // REQUIRES: Valid(). They point into memory of the run until it moves.
  std::string_view Suffix() const { return iterator_->key().ToStringView().substr(prefix_.size()); }
  std::string_view value() const { return iterator_->value().ToStringView(); }

  void SeekToLast() { iterator_->SeekToLast(); }
  void Next() { iterator_->Next(); }
  void Prev() { iterator_->Prev(); }
  // To the first key with a suffix >= `suffix`. scratch: memory that may be used.
  void Seek(std::string_view suffix, std::string* scratch);
  // The same for one that is not behind. Tries one step first.
  void AdvanceTo(std::string_view suffix, std::string* scratch);

 private:
  const std::string prefix_;
  std::string lower_;
  std::string upper_;
  rocksdb::Slice lower_slice_;
  rocksdb::Slice upper_slice_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

}  // namespace topicdb::skipstream
