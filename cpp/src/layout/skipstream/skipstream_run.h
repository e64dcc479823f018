// A run: sorted keys with a common prefix, within a range of time. A run has the messages of a
// stream, or the index entries of one word at one level.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "layout/layout.h"

namespace topicdb::skipstream {

// Moves over the keys of one run. A cursor or a reader owns it. Not thread-safe.
class KeyRun {
 public:
  // Makes a run of the keys that begin with `prefix`, without moving to one of them.
  KeyRun(const RocksSource& source, std::string prefix, const TimeRange& range,
         std::uint32_t timestamp_bytes);
  // A KeyRun cannot be copied: RocksDB refers to its bounds by their address.
  KeyRun(const KeyRun&) = delete;
  KeyRun& operator=(const KeyRun&) = delete;

  // Returns whether the run stands at a key. Returns false at the end and after an error, which
  // status() tells apart.
  bool Valid() const { return iterator_->Valid(); }
  Status status() const;
  // The suffix and the value point into memory of the run, and are valid until it moves.
  // REQUIRES (Suffix, value): Valid()
  std::string_view Suffix() const { return iterator_->key().ToStringView().substr(prefix_.size()); }
  std::string_view value() const { return iterator_->value().ToStringView(); }

  // Move to the last key of the range, and to the next or the previous key.
  // REQUIRES (Next, Prev): Valid()
  void SeekToLast() { iterator_->SeekToLast(); }
  void Next() { iterator_->Next(); }
  void Prev() { iterator_->Prev(); }
  // Moves to the first key with a suffix >= `suffix`. Uses `scratch` as working memory.
  void Seek(std::string_view suffix, std::string* scratch);
  // As Seek, but never moves back, and tries a single step before it seeks. Does nothing if the run
  // stands at no key.
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
