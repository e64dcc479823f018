// The file `retention` in a database's directory. It exists once the retention classes have been
// changed, or if they have more than an age, such as a layout. Until then, the classes in the
// descriptor hold.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread/mutex.h"
#include "store/catalog/retention_class.h"

namespace topicdb {

std::string EncodeRetention(const RetentionRules& rules);
// Returns the rules that these bytes encode. Errors name `path`. Returns kCorruption for foreign or
// damaged bytes, and kSchema for a newer format.
Result<RetentionRules> DecodeRetention(std::string_view bytes, const std::string& path);

// Reads the rules from the file in the database's directory. Makes them from `created_with` if
// there is no file. Fails as DecodeRetention and RetentionRules::Make do.
Result<RetentionRules> LoadRetention(const std::string& database_path,
                                     const std::vector<RetentionClass>& created_with);
// Replaces the file. The new file is durable when this returns.
Status StoreRetention(const std::string& database_path, const RetentionRules& rules);
// Removes the file if there is one. The removal is durable when this returns.
Status RemoveRetention(const std::string& database_path);

// Holds the current rules of an open database. The ShardEnvironment of the database owns it.
// Thread-safe.
class RetentionState {
 public:
  explicit RetentionState(RetentionRules rules)
      : rules_(std::make_shared<const RetentionRules>(std::move(rules))) {}
  std::shared_ptr<const RetentionRules> current() const TOPICDB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return rules_;
  }
  // Makes these rules the current ones, unless the current ones are as new or newer.
  void Set(RetentionRules rules) TOPICDB_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const RetentionRules> rules_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
