// The shards of an open database.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread/mutex.h"
#include "store/database/job_views.h"
#include "store/read/stream_plan.h"
#include "store/shard/shard.h"

namespace topicdb {

// Opens the shards of one database, finds them, and looks at all of them at one moment. A
// DatabaseImpl owns it. Any thread may call it.
//
// The shards are open from Open until TakeAll. Who calls holds the database's lifecycle(), or is a
// thread that ends before TakeAll is called.
class OpenShards {
 public:
  // `only` names the shards to open. If it is absent, all of them are opened.
  OpenShards(std::shared_ptr<const ShardEnvironment> environment,
             std::optional<std::vector<std::uint32_t>> only);

  // Opens the shards. Those that are open already stay open if their files have not changed since.
  Status Open() TOPICDB_EXCLUDES(mutex_);
  // Takes the shards out, for the caller to close.
  std::vector<std::shared_ptr<Shard>> TakeAll() TOPICDB_EXCLUDES(mutex_);

  // Returns the open shards, by number.
  std::vector<std::shared_ptr<Shard>> All() const TOPICDB_EXCLUDES(mutex_);
  // Returns the shard with this number. kReadOnly if the shard is not open here.
  Result<std::shared_ptr<Shard>> Find(std::uint32_t index) const;
  // Returns views for readers. They hide a job that some shards have applied and others have not.
  // With the layout skipstream they do not hide it, because what the job has replaced is gone.
  std::vector<ShardMoment> Moments() const;
  // Returns views with everything, for callers that read the log, or what was chosen before.
  std::vector<ShardMoment> WholeMoments() const;

  // kReadOnly if the database was opened read-only.
  Status CheckMayWrite() const;
  // kReadOnly, naming `call`, unless all shards are open for writing here.
  Status CheckMayWriteAll(const char* call) const;

 private:
  Status OpenChanged() TOPICDB_EXCLUDES(mutex_);
  bool IsUnchanged(std::uint32_t shard, const std::string& files) const TOPICDB_EXCLUDES(mutex_);

  const std::shared_ptr<const ShardEnvironment> environment_;
  const std::optional<std::vector<std::uint32_t>> only_;
  mutable JobCurtain curtain_;
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<Shard>> shards_ TOPICDB_GUARDED_BY(mutex_);  // by index
  // The state of each shard's logs and manifest just before it was opened. Only a read-only handle
  // has it.
  std::map<std::uint32_t, std::string> files_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
