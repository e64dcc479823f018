#include "store/database/missing_shards.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace topicdb {

namespace {

// Returns whether all that the filter matches is in the shard of its text. TopicDB's own topics lie
// in other shards than that: what a consumer stores in each shard has the same topic in all.
bool IsInOneShard(const Filter& filter) {
  return filter.is_topic() && !IsReservedTopic(filter.text());
}

}  // namespace

bool MayLeaveOut(const Status& opened) {
  if (opened.code() == Code::kCorruption) return true;
  // Errors of the file system have its code in words alone.
  return opened.code() == Code::kStorage &&
         opened.message().find(std::generic_category().message(EIO)) != std::string::npos;
}

MissingShards MissingShards::For(const std::vector<Filter>& filters, std::uint32_t shards) const {
  MissingShards found;
  for (const auto& [shard, reason] : reasons_) {
    const bool is_needed =
        std::any_of(filters.begin(), filters.end(), [&, number = shard](const Filter& filter) {
          return !IsInOneShard(filter) || ShardOfTopic(filter.text(), shards) == number;
        });
    if (is_needed) found.Add(shard, reason);
  }
  return found;
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
