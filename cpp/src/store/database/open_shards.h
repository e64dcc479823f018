// The shards of an open database.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread/mutex.h"
#include "store/database/job_views.h"
#include "store/database/missing_shards.h"
#include "store/read/stream_plan.h"
#include "store/shard/shard.h"
#include "store/shard/shard_source.h"

namespace topicdb {

// Opens the shards of a database, finds them by number, and gives out views of all of them. A
// DatabaseImpl owns it. Any thread may call it.
//
// The shards are open from Open until Close. A caller that uses them holds the database's
// lifecycle(), or is a thread that ends before Close is called.
class OpenShards {
 public:
  // `only` names the shards to open. If it is absent, all of them are opened.
  OpenShards(std::shared_ptr<const ShardEnvironment> environment,
             std::unique_ptr<ShardSource> source, std::optional<std::vector<std::uint32_t>> only,
             OnDamage on_damage = OnDamage::kRaise);
  ~OpenShards() { Close().IgnoreError(); }  // before the source may replace a shard
  OpenShards(const OpenShards&) = delete;
  OpenShards& operator=(const OpenShards&) = delete;

  // Opens the shards. A read-only handle may call it again: shards whose files have changed since
  // are opened anew, and the others stay open. Returns the errors of Shard::Open.
  //
  // OnDamage::kSkip leaves out the shards that are damaged or gone, unless none would remain. A
  // later call tries them again once their files have changed. A shard that was open once is never
  // left out: the call then returns its error, and everything stays as it was.
  Status Open() TOPICDB_EXCLUDES(open_mutex_, mutex_);
  // Closes all shards. Returns what ShardSource::Close returns.
  Status Close() TOPICDB_EXCLUDES(mutex_);

  // Returns the open shards, by number.
  std::vector<std::shared_ptr<Shard>> All() const TOPICDB_EXCLUDES(mutex_);
  // Returns those of them that this process may write: all, unless they are replicas.
  std::vector<std::shared_ptr<Shard>> Writable() const TOPICDB_EXCLUDES(mutex_);
  // Returns the shard with this number. Returns kMissingShard if it was left out, and kReadOnly if
  // the handle was to open others only.
  Result<std::shared_ptr<Shard>> Find(std::uint32_t index) const;
  // Returns kNotFound for a shard that is not open here, or kMissingShard if it was left out.
  Status NotOpen(std::uint32_t index) const;
  // Returns views for readers. They hide a job that some shards have applied and others have not.
  // Slabs without a log show it all the same; see MasksOf.
  std::vector<ShardMoment> Moments() const;
  // Returns views that hide nothing, for callers that read the log, or slices that were cut before.
  std::vector<ShardMoment> WholeMoments() const;

  // Returns kReadOnly if the database was opened read-only.
  Status CheckMayWrite() const;
  // Returns kReadOnly or kMissingShard, which name `call`, unless all shards are open for writing
  // here.
  Status CheckMayWriteAll(const char* call) const;
  bool is_replicated() const { return source_->is_replicated(); }
  // Works as ShardSource::SetRules does.
  Status SetRules(const RetentionRules& rules) const { return source_->SetRules(rules, All()); }
  // Does what ShardSource::AwaitAcknowledged does.
  Status AwaitAcknowledged(std::chrono::milliseconds patience) const {
    return source_->AwaitAcknowledged(patience);
  }
  // Does what ShardSource::jobs does.
  ReplicatedJobs* replicated_jobs() const { return source_->jobs(); }
  // Returns kReadOnly, which names `call`, if the shards are replicas.
  Status CheckNotReplicated(const char* call) const;

  // Returns the shards that were left out. Not null.
  std::shared_ptr<const MissingShards> Missing() const TOPICDB_EXCLUDES(mutex_);
  // Returns those of them that a read of messages of these filters needs, and why they were left
  // out. Unless `partial`, returns kMissingShard if there are any.
  Result<MissingReasons> LeftOut(const std::vector<Filter>& filters, bool partial) const;
  // Returns kMissingShard if a shard was left out that a change of messages of these filters needs.
  Status CheckMayChange(const std::vector<Filter>& filters) const;

 private:
  // Opens the shards that are not open, or whose files have changed.
  Status OpenChanged() TOPICDB_REQUIRES(open_mutex_) TOPICDB_EXCLUDES(mutex_);
  // What became of one shard: it is open, or it was left out for a reason.
  struct Outcome {
    std::string files;  // as in files_
    std::shared_ptr<Shard> shard;
    Status reason;
  };
  // Opens a shard, unless it is the one in `known`, or was left out, and its files have not changed
  // since. Returns the error if the shard may not be left out.
  Result<Outcome> OpenOne(std::uint32_t index, const std::shared_ptr<Shard>& known)
      TOPICDB_EXCLUDES(mutex_);
  // Puts a shard in the place of the one with its number, if that is open.
  void Replace(std::shared_ptr<Shard> shard) TOPICDB_EXCLUDES(mutex_);
  // Returns whether `files` is what files_ has of a shard.
  bool IsUnchanged(std::uint32_t shard, const std::string& files) const TOPICDB_EXCLUDES(mutex_);

  const std::shared_ptr<const ShardEnvironment> environment_;
  const std::unique_ptr<ShardSource> source_;  // nothing of it is called with mutex_ held
  const std::optional<std::vector<std::uint32_t>> only_;
  const OnDamage on_damage_;
  mutable JobCurtain curtain_;
  // Held while shards are opened, and taken before mutex_. If two threads opened shards at once,
  // the slower one could put older shards in the place of newer ones.
  Mutex open_mutex_;
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<Shard>> shards_ TOPICDB_GUARDED_BY(mutex_);  // by index
  // The shards that were left out. A read may find fewer of them than another that began before it,
  // and never more.
  std::shared_ptr<const MissingShards> missing_ TOPICDB_GUARDED_BY(mutex_) =
      std::make_shared<const MissingShards>();
  // The state of each shard's logs and manifest just before it was opened, or left out. Only a
  // read-only handle has it.
  std::map<std::uint32_t, std::string> files_ TOPICDB_GUARDED_BY(mutex_);
};

}  // namespace topicdb
