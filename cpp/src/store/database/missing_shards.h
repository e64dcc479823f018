// Which shards of an open database are missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topicdb/options.h"
#include "topicdb/status.h"
#include "topicdb/topic.h"

namespace topicdb {

// Returns whether OnDamage::kSkip leaves out a shard that cannot be opened with this error: if its
// files are damaged or gone, or the disk cannot read them. A shard is as it should be if somebody
// has locked it, if the disk is full, or if this process may not open so many files.
bool MayLeaveOut(const Status& opened);

// The shards that a handle should have and does not, with the error that opening each has met. A
// value: OpenShards makes a new one whenever it opens shards, and gives out what it has.
class MissingShards {
 public:
  void Add(std::uint32_t shard, Status reason) { reasons_.emplace(shard, std::move(reason)); }

  bool empty() const { return reasons_.empty(); }
  std::size_t size() const { return reasons_.size(); }
  bool Has(std::uint32_t shard) const { return reasons_.contains(shard); }
  // Returns the errors by shard.
  const std::map<std::uint32_t, Status>& reasons() const { return reasons_; }
  // Returns the part of these shards in which messages may be that any of the filters matches: all,
  // unless there is no filter. A transaction may have written any topic to any shard.
  MissingShards For(const std::vector<Filter>& filters) const;
  // Returns this shard alone, or none if it is not missing.
  MissingShards Only(std::uint32_t shard) const;
  // Returns kMissingShard, which names the database, the shards and the first reason, and ends in
  // `then`. Returns OK if there are none.
  Status Fault(const std::string& database_path, std::string_view then = {}) const;

 private:
  std::map<std::uint32_t, Status> reasons_;
};

}  // namespace topicdb
