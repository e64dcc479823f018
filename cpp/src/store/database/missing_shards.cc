#include "store/database/missing_shards.h"

#include <cerrno>
#include <system_error>

namespace topicdb {

bool MayLeaveOut(const Status& opened) {
  if (opened.code() == Code::kCorruption) return true;
  // Errors of the file system have its code in words alone.
  return opened.code() == Code::kStorage &&
         opened.message().find(std::generic_category().message(EIO)) != std::string::npos;
}

MissingShards MissingShards::For(const std::vector<Filter>& filters) const {
  return filters.empty() ? MissingShards() : *this;
}

MissingShards MissingShards::Only(std::uint32_t shard) const {
  MissingShards found;
  if (const auto known = reasons_.find(shard); known != reasons_.end()) {
    found.Add(shard, known->second);
  }
  return found;
}

Status MissingShards::Fault(const std::string& database_path, std::string_view then) const {
  if (empty()) return Status::Ok();
  std::string numbers;
  for (const auto& [shard, reason] : reasons_) {
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(shard);
  }
  return MissingShardFault(database_path + " was opened without shard" + (size() > 1 ? "s " : " ") +
                           numbers + " (" + reasons_.begin()->second.message() + ")" +
                           std::string(then));
}

}  // namespace topicdb
