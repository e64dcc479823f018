// Makes the objects of one shard, for tests that call them directly.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/database/create.h"
#include "store/read/point_lookup.h"
#include "store/shard/commit/committer.h"
#include "store/shard/commit/delete_finisher.h"
#include "store/shard/commit/merge_deletes.h"
#include "store/shard/commit/shard_jobs.h"
#include "store/shard/commit/transaction_check.h"
#include "store/shard/generation/generations.h"
#include "store/shard/generation/slab_dropper.h"
#include "store/shard/generation/slab_maker.h"
#include "store/shard/state/disk_usage.h"
#include "store/shard/state/shard_loader.h"
#include "store/shard/state/shard_state.h"
#include "store/shard/upkeep/garbage_collector.h"
#include "store/shard/upkeep/shard_sealing.h"
#include "test_directory.h"

namespace topicdb {

// Holds what a Shard is made of: shard 0 of a new database, loaded, with its slabs published. No
// thread seals, so that tests take the steps themselves, unless they keep the sealer.
class ShardParts {
 private:
  const TestDirectory directory_;
  LoadedShard loaded_;

 public:
  explicit ShardParts(const OpenOptions& options = {}, bool keeps_sealer = false)
      : loaded_(Load(options, keeps_sealer)) {
    const MutexLock lock(state.mutex);
    state.Publish(std::make_shared<const std::vector<SlabView>>(std::move(loaded_.slabs)),
                  state.deletes);
  }
  ~ShardParts() {
    committer.Close();
    sealing.Forget();
    deletes.Forget();
    state.StopBackgroundWork();
    {
      const MutexLock lock(state.mutex);
      maker.Clear();
      dropper.Clear();
    }
    EXPECT_TRUE(state.CloseRocks().ok());
  }
  ShardParts(const ShardParts&) = delete;
  ShardParts& operator=(const ShardParts&) = delete;

  // Commits messages, and what a transaction does besides.
  std::unique_ptr<ShardCommit> Commit(const std::vector<MessageView>& messages,
                                      TransactionOps* ops = nullptr) {
    auto commit = std::make_unique<ShardCommit>();
    commit->messages = messages;
    commit->transaction = ops;
    committer.Commit(commit.get());
    commit->messages = {};
    commit->transaction = nullptr;
    return commit;
  }
  // Commits messages, which must not fail. Returns the serial.
  Serial Append(const std::vector<MessageView>& messages) {
    const auto commit = Commit(messages);
    EXPECT_TRUE(commit->status.ok()) << commit->status.message();
    return commit->serial;
  }
  std::unique_ptr<ShardCommit> Delete(const std::string& filter, const TimeRange& range = {}) {
    TransactionOps ops;
    ops.deletes.push_back({Filter::Parse(filter).value(), range});
    return Commit({}, &ops);
  }

  // Returns the value that readers see now, or nothing if there is no such message.
  std::optional<std::string> Get(std::string_view topic, std::int64_t timestamp) const {
    const std::shared_ptr<const ShardView> view = state.view();
    const PointLookup lookup{view->slabs(),    view->deletes(), view->db(),
                             view->snapshot(), Classes(topic),  {}};
    auto found = lookup.Find(topic, timestamp);
    EXPECT_TRUE(found.ok()) << found.status().message();
    if (!found.ok() || !found->has_value()) return std::nullopt;
    return (*found)->value;
  }
  // Returns the current slab of the first class.
  const Slab& Current() const { return *state.view()->current().front().slab; }
  std::uint64_t FreshBlocks() const { return Current().layout_state()->fresh_blocks; }

  ShardState& state = *loaded_.state;
  DiskUsage disk{state};
  GarbageCollector garbage{state, disk};
  ShardSealing sealing{state};
  TransactionCheck transactions{state};
  MergeDeletes merge_deletes;
  DeleteFinisher deletes{state, sealing};
  ShardJobs jobs{state};
  SlabMaker maker{state};
  SlabDropper dropper{state, disk, transactions};
  Generations generations{state, sealing, transactions, maker};
  Committer committer{{state, disk, sealing, transactions, merge_deletes, jobs}};

 private:
  LoadedShard Load(const OpenOptions& options, bool keeps_sealer) const {
    const std::string path = directory_ / "db";
    const FoundDatabase found = FindOrCreateDatabase(path, options).value();
    const auto environment = MakeShardEnvironment(path, found, options);
    if (!keeps_sealer) environment->sealer->Stop();
    environment->commit.conflict_window = std::chrono::hours(1);  // however slow the machine is
    auto loaded = LoadShard(environment, 0, ShardUse::kWrite);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return std::move(loaded).value();
  }
  std::vector<RetentionClassId> Classes(std::string_view topic) const {
    const MutexLock lock(state.mutex);
    return state.rules->ClassesWith(topic);
  }
};

}  // namespace topicdb
