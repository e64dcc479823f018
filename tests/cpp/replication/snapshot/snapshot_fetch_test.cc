// Tests that a replica which gets a snapshot, and the entries behind it, has what the leader has.
#include "replication/snapshot/snapshot_fetch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "replication/replicas.h"
#include "replication/replicated_shard.h"
#include "replication/snapshot/shard_copies.h"
#include "replication/snapshot/snapshot_source.h"
#include "store/database/database_parts.h"
#include "test_directory.h"

namespace topicdb::replication {
namespace {

constexpr std::uint64_t kReplica = 9;

class SnapshotTest : public testing::Test {
 protected:
  SnapshotTest() {
    auto environment = DatabaseParts::MakeEnvironment(path_, {});
    std::filesystem::remove_all(path_ + "/shards/0000");
    EXPECT_TRUE(ReplicatedShard::Open(environment, 0).value()->Close().ok());
    leader_ = std::make_unique<DatabaseParts>(
        path_, OpenOptions(), [&](ShardEnvironment* made) { made->open_log = LeadWith(&log_); });
  }
  void Append(int first, int count) {
    std::vector<std::string> topics;
    for (int i = 0; i < count; ++i) topics.push_back("t/" + std::to_string((first + i) % 50));
    std::vector<MessageView> messages;
    for (int i = 0; i < count; ++i) messages.push_back({topics[i], first + i, value_});
    leader_->Append(messages);
  }
  // Makes the values of later appends long, and such that they take space.
  void UseLargeValues() {
    std::mt19937 random(7);
    value_.clear();
    for (int i = 0; i < 200'000; ++i) value_.push_back(static_cast<char>(random()));
  }
  std::unique_ptr<SnapshotSource> TakeSnapshot() {
    auto made =
        SnapshotSource::Make(leader_->shard(0)->view()->db(), leader_->environment->resources,
                             kReplica, directory_ / "outgoing");
    EXPECT_TRUE(made.ok()) << made.status().message();
    return std::move(*made);
  }
  // Asks a source, and counts the bytes that it hands out.
  AskForChunk From(const SnapshotSource& source) {
    return [this, &source](const ChunkRequest& request) -> Result<std::string> {
      const ChunkRequest asked = DecodeChunkRequest(Encode(request)).value();
      auto chunk = source.Read(asked);
      if (chunk.ok()) fetched_ += chunk->size();
      return chunk;
    };
  }
  Status Fetch(const SnapshotSource& source) {
    return FetchSnapshot(source.manifest(), incoming_, From(source));
  }
  static std::uint64_t BytesOf(const SnapshotManifest& manifest) {
    std::uint64_t bytes = 0;
    for (const SnapshotFile& file : manifest.files) bytes += file.bytes;
    return bytes;
  }
  // Returns what the leader has in families that hold anything.
  Digests LeaderDigests() const {
    const auto view = leader_->shard(0)->view();
    rocks::FamilyHandles families{view->db()->DefaultColumnFamily()};
    for (const SlabView& slab_view : view->slabs()) {
      for (rocksdb::ColumnFamilyHandle* family : slab_view.slab->all_families()) {
        families.push_back(family);
      }
    }
    return DigestsOf(view->db(), families);
  }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "db";
  const std::string incoming_ = directory_ / "incoming";
  Status Install(const SnapshotManifest& manifest) const {
    return InstallSnapshot(incoming_, replica_, manifest.applied.index);
  }

  const std::string replica_ = directory_ / "replica";
  EntryFile log_;
  std::unique_ptr<DatabaseParts> leader_;
  std::uint64_t fetched_ = 0;
  std::string value_ = "a value";
};

TEST_F(SnapshotTest, AReplicaGoesOnFromASnapshot) {
  Append(0, 20'000);
  EXPECT_TRUE(leader_->shard(0)->SealAll().ok());
  const auto source = TakeSnapshot();
  const SnapshotManifest manifest = source->manifest();
  EXPECT_EQ(manifest.replica, kReplica);
  EXPECT_EQ(manifest.applied.index, log_.entries().back().place.index);
  EXPECT_EQ(manifest.serial, leader_->shard(0)->Stats().serial);
  Append(20'000, 500);  // that the snapshot does not have
  ASSERT_TRUE(Fetch(*source).ok());
  EXPECT_EQ(fetched_, BytesOf(manifest));
  ASSERT_TRUE(Install(source->manifest()).ok());
  EXPECT_FALSE(std::filesystem::exists(incoming_));
  Copy replica(replica_);
  EXPECT_EQ(replica.applied(), manifest.applied);
  replica.ApplyFrom(log_);
  EXPECT_EQ(replica.digests(), LeaderDigests());
}

TEST_F(SnapshotTest, ItTakesThePlaceOfAnOlderReplica) {
  ASSERT_TRUE(PrepareCopies(replica_).ok());
  {
    Copy old(replica_);
    old.ApplyFrom(log_);
  }
  Append(0, 1'000);
  const auto source = TakeSnapshot();
  ASSERT_TRUE(Fetch(*source).ok());
  ASSERT_TRUE(Install(source->manifest()).ok());
  EXPECT_FALSE(std::filesystem::exists(incoming_));
  EXPECT_EQ(Copy(replica_).digests(), LeaderDigests());
}

TEST_F(SnapshotTest, FetchingGoesOnWhereItStopped) {
  UseLargeValues();
  for (int i = 0; i < 20; ++i) Append(i, 1);
  const auto source = TakeSnapshot();
  const std::uint64_t bytes = BytesOf(source->manifest());
  ASSERT_GT(bytes, 2 * kSnapshotChunkBytes) << "the test needs a file of more than one chunk";
  // The source goes away after every third chunk.
  int chunks = 0;
  Status fetched;
  do {
    int left = 3;
    fetched = FetchSnapshot(source->manifest(), incoming_,
                            [&](const ChunkRequest& request) -> Result<std::string> {
                              if (left-- == 0) return UnknownOutcome("no answer");
                              ++chunks;
                              return From(*source)(request);
                            });
  } while (!fetched.ok() && chunks < 1'000);
  ASSERT_TRUE(fetched.ok()) << fetched.message();
  EXPECT_EQ(fetched_, bytes) << "nothing is fetched twice";
}

TEST_F(SnapshotTest, WhatIsOfAnotherSnapshotIsReplaced) {
  Append(0, 1'000);
  const auto source = TakeSnapshot();
  std::filesystem::create_directories(incoming_);
  for (const SnapshotFile& file : source->manifest().files) {
    std::ofstream(incoming_ + "/" + file.name) << std::string(file.bytes + 10, 'x');
  }
  std::ofstream(incoming_ + "/999999.sst") << "of nobody";
  ASSERT_TRUE(Fetch(*source).ok());
  EXPECT_FALSE(std::filesystem::exists(incoming_ + "/999999.sst"));
  ASSERT_TRUE(Install(source->manifest()).ok());
  EXPECT_EQ(Copy(replica_).digests(), LeaderDigests());
}

TEST_F(SnapshotTest, DamagedBytesAreNotKept) {
  Append(0, 1'000);
  const auto source = TakeSnapshot();
  const auto damaging = [&](const ChunkRequest& request) {
    auto chunk = From(*source)(request);
    if (request.name == "CURRENT") chunk->front() ^= 1;
    return chunk;
  };
  const Status fetched = FetchSnapshot(source->manifest(), incoming_, damaging);
  EXPECT_EQ(fetched.code(), Code::kCorruption);
  EXPECT_NE(fetched.message().find("CURRENT"), std::string::npos) << fetched.message();
  EXPECT_FALSE(std::filesystem::exists(incoming_ + "/CURRENT"));
  EXPECT_TRUE(Fetch(*source).ok());
}

TEST_F(SnapshotTest, AShortAnswerIsRefused) {
  Append(0, 1'000);
  const auto source = TakeSnapshot();
  const auto shortening = [&](const ChunkRequest& request) {
    auto chunk = From(*source)(request);
    chunk->pop_back();
    return chunk;
  };
  const Status fetched = FetchSnapshot(source->manifest(), incoming_, shortening);
  EXPECT_EQ(fetched.code(), Code::kCorruption);
}

TEST_F(SnapshotTest, ItMayBeInterrupted) {
  const auto source = TakeSnapshot();
  const Status fetched =
      FetchSnapshot(source->manifest(), incoming_, From(*source), [] { return true; });
  EXPECT_EQ(fetched.code(), Code::kInterrupted);
}

TEST_F(SnapshotTest, ASourceHasNothingElse) {
  const auto source = TakeSnapshot();
  ChunkRequest request{source->manifest().applied.index, "CURRENT", 0, 100};
  EXPECT_TRUE(source->Read(request).ok());
  ++request.index;
  EXPECT_EQ(source->Read(request).status().code(), Code::kNotFound);
  --request.index;
  request.name = "LOCK";
  EXPECT_EQ(source->Read(request).status().code(), Code::kNotFound);
}

// The files are links, so they stay while the leader drops what they were made from.
TEST_F(SnapshotTest, ItStaysWholeWhileTheLeaderGoesOn) {
  Append(0, 5'000);
  const Digests then = LeaderDigests();
  auto source = TakeSnapshot();
  const RetentionClassId kept{0};
  ASSERT_TRUE(leader_->shard(0)->Rotate(kept, std::nullopt).ok());
  ASSERT_TRUE(leader_->shard(0)->DropSlab(kept, Generation{1}).ok());
  ASSERT_TRUE(Fetch(*source).ok());
  const SnapshotManifest manifest = source->manifest();
  source.reset();
  EXPECT_FALSE(std::filesystem::exists(directory_ / "outgoing"));
  ASSERT_TRUE(Install(manifest).ok());
  EXPECT_EQ(Copy(replica_).digests(), then);
}

}  // namespace
}  // namespace topicdb::replication
