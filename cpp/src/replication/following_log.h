// The log of a shard that another replica leads.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "replication/unlogged_rocks.h"
#include "rocks/local_log.h"
#include "rocks/log/shard_log.h"

namespace topicdb::replication {

// Refuses all writes of the shard, since only entries of the leader are applied. The shard owns it
// while its replica follows. Thread-safe.
class FollowingLog : public rocks::ShardLog {
 public:
  explicit FollowingLog(std::shared_ptr<UnloggedRocks> rocks) : rocks_(std::move(rocks)) {}

  Status Write(const rocks::ShardEntry&, rocksdb::WriteBatch*) override { return MayWrite(); }
  Status Sync() override { return Status::Ok(); }
  Status CheckInPlace() const override {
    return rocks::CheckShardInPlace(*rocks_->db(), rocks_->name());
  }
  Status MayWrite() const override {
    return NotLeader(rocks_->name() + ": this replica follows another one: write there");
  }
  std::uint64_t bytes() const override { return 0; }
  bool reserves_serials() const override { return false; }
  void AddFamilies(const rocks::FamilyHandles& families) override {
    for (rocksdb::ColumnFamilyHandle* family : families) rocks_->Add(family);
  }
  Status PrepareDrop(const rocks::FamilyHandles&) override { return MayWrite(); }
  // Returns all families: the note of the last entry must not be in files without what it did.
  rocks::FamilyHandles FlushedWith(rocks::FamilyHandles) const override {
    return rocks_->Families();
  }

 private:
  const std::shared_ptr<UnloggedRocks> rocks_;
};

}  // namespace topicdb::replication
