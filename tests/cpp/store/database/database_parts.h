// Makes the objects of an open database, for tests that call them directly.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/database/create.h"
#include "store/database/database_jobs.h"
#include "store/database/database_upkeep.h"
#include "store/database/open_shards.h"
#include "store/job/stage.h"
#include "store/view/shard_environment.h"

namespace topicdb {

// Holds what a DatabaseImpl is made of. Makes the database if there is none, and opens its shards.
// No thread seals, maintains the database or applies jobs, so that tests take the steps themselves.
// Whoever takes a view of a shard must give it back before the object is destroyed.
class DatabaseParts {
 public:
  // `adjust` may change the environment before any shard is opened.
  explicit DatabaseParts(const std::string& path, const OpenOptions& options = {},
                         const std::function<void(ShardEnvironment*)>& adjust = nullptr)
      : environment(MakeEnvironment(path, options, adjust)),
        shards(environment, std::make_unique<LocalShards>(environment), options.only_shards,
               options.on_damage),
        jobs(environment, shards, closing),
        upkeep(environment, shards, closing, options) {
    environment->sealer->Stop();
    const Status opened = shards.Open();
    EXPECT_TRUE(opened.ok()) << opened.message();
  }
  ~DatabaseParts() {
    closing = true;
    jobs.Stop();
    upkeep.Stop();
    const Status closed = shards.Close();
    EXPECT_TRUE(closed.ok()) << closed.message();
  }
  DatabaseParts(const DatabaseParts&) = delete;
  DatabaseParts& operator=(const DatabaseParts&) = delete;

  static std::shared_ptr<ShardEnvironment> MakeEnvironment(
      const std::string& path, const OpenOptions& options,
      const std::function<void(ShardEnvironment*)>& adjust = nullptr) {
    auto made = MakeShardEnvironment(path, FindOrCreateDatabase(path, options).value(), options);
    if (adjust) adjust(made.get());
    return made;
  }
  std::shared_ptr<Shard> shard(std::uint32_t index) const { return shards.Find(index).value(); }
  // Commits each message to the shard of its topic.
  void Append(const std::vector<MessageView>& messages) {
    std::map<std::uint32_t, std::vector<MessageView>> by_shard;
    for (const MessageView& message : messages) {
      by_shard[ShardOfTopic(message.topic, environment->schema.shards)].push_back(message);
    }
    for (const auto& [index, of_shard] : by_shard) {
      ShardCommit commit;
      commit.messages = of_shard;
      shard(index)->Commit(&commit);
      EXPECT_TRUE(commit.status.ok()) << commit.status.message();
    }
  }
  // Returns how many messages were written to the open shards.
  std::uint64_t CountMessages() const {
    std::uint64_t messages = 0;
    for (const auto& open : shards.All()) messages += open->Stats().messages;
    return messages;
  }

  const std::shared_ptr<ShardEnvironment> environment;
  std::atomic<bool> closing{false};
  OpenShards shards;
  DatabaseJobs jobs;
  DatabaseUpkeep upkeep;
};

// Returns options for a database of this many shards.
inline OpenOptions WithShards(std::uint32_t shards) {
  OpenOptions options;
  options.schema.shards = shards;
  return options;
}

// Returns a topic that lives in one of so many shards.
inline std::string TopicIn(std::uint32_t shard, std::uint32_t shards) {
  for (int i = 0;; ++i) {
    std::string topic = "t/" + std::to_string(i);
    if (ShardOfTopic(topic, shards) == shard) return topic;
  }
}

}  // namespace topicdb
