// The file `retention` in a database's directory: its classes since they were changed for the first
// time, or if they have more than an age. Before, those of the descriptor hold.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread/mutex.h"
#include "store/catalog/retention_class.h"

namespace topicdb {

std::string EncodeRetention(const RetentionRules& rules);
// `path` is for messages. kCorruption for foreign or damaged bytes, kSchema for a newer format.
Result<RetentionRules> DecodeRetention(std::string_view bytes, const std::string& path);

// Those of the file in this directory, or of these classes if there is none.
Result<RetentionRules> LoadRetention(const std::string& database_path,
                                     const std::vector<RetentionClass>& created_with);
// Replaces the file; durable when it returns.
Status StoreRetention(const std::string& database_path, const RetentionRules& rules);

// The rules of an open database. Thread-safe.
class RetentionState {
 public:
  explicit RetentionState(RetentionRules rules)
      : rules_(std::make_shared<const RetentionRules>(std::move(rules))) {}
  std::shared_ptr<const RetentionRules> current() const TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return rules_;
  }
  // Older ones than the current are passed over.
  void Set(RetentionRules rules) TOPICDB_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const RetentionRules> rules_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
