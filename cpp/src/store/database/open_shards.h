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

// Opens the shards of a database, finds them by number, and gives out views of all of them. A
// DatabaseImpl owns it. Any thread may call it.
//
// The shards are open from Open until TakeAll. A caller that uses them holds the database's
// lifecycle(), or is a thread that ends before TakeAll is called.
class OpenShards {
 public:
  // `only` names the shards to open. If it is absent, all of them are opened.
  OpenShards(std::shared_ptr<const ShardEnvironment> environment,
             std::optional<std::vector<std::uint32_t>> only);

  // Opens the shards. A read-only handle may call it again: shards whose files have changed since
  // are opened anew, and the others stay open. Returns the errors of Shard::Open.
  Status Open() TOPICDB_EXCLUDES(open_mutex_, mutex_);
  // Removes all shards and returns them. The caller must close them.
  std::vector<std::shared_ptr<Shard>> TakeAll() TOPICDB_EXCLUDES(mutex_);

  // Returns the open shards, by number.
  std::vector<std::shared_ptr<Shard>> All() const TOPICDB_EXCLUDES(mutex_);
  // Returns the shard with this number. Returns kReadOnly if the shard is not open here.
  Result<std::shared_ptr<Shard>> Find(std::uint32_t index) const;
  // Returns views for readers. They hide a job that some shards have applied and others have not.
  // With the layout skipstream they do not hide it, because what the job has replaced is gone.
  std::vector<ShardMoment> Moments() const;
  // Returns views that hide nothing, for callers that read the log, or slices that were cut before.
  std::vector<ShardMoment> WholeMoments() const;

  // Returns kReadOnly if the database was opened read-only.
  Status CheckMayWrite() const;
  // Returns kReadOnly, which names `call`, unless all shards are open for writing here.
  Status CheckMayWriteAll(const char* call) const;

 private:
  // Opens the shards that are not open, or whose files have changed.
  Status OpenChanged() TOPICDB_REQUIRES(open_mutex_) TOPICDB_EXCLUDES(mutex_);
  // Returns whether `files` is what files_ has of a shard.
  bool IsUnchanged(std::uint32_t shard, const std::string& files) const TOPICDB_EXCLUDES(mutex_);

  const std::shared_ptr<const ShardEnvironment> environment_;
  const std::optional<std::vector<std::uint32_t>> only_;
  mutable JobCurtain curtain_;
  // Held while shards are opened, and taken before mutex_. If two threads opened shards at once,
  // the slower one could put older shards in the place of newer ones.
  Mutex open_mutex_;
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<Shard>> shards_ TOPICDB_GUARDED_BY(mutex_);  // by index
  // The state of each shard's logs and manifest just before it was opened. Only a read-only handle
  // has it.
  std::map<std::uint32_t, std::string> files_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
