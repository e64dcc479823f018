// Tests that replicas which apply a leader's entries have what the leader has.
#include "replication/replicated_shard_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "in_child.h"
#include "replication/replicas.h"
#include "replication/replicated_shard.h"
#include "store/database/database_parts.h"
#include "test_directory.h"
#include "topicdb/database.h"

namespace topicdb::replication {
namespace {

using namespace std::chrono_literals;

constexpr int kDays = 4;
constexpr int kRows = 200;  // of each append

class ReplicatedShardLogTest : public testing::TestWithParam<LayoutKind> {
 protected:
  ReplicatedShardLogTest() {
    options_.schema.layout = GetParam();
    options_.schema.retention = {{"old/#", 1h * 24, 0, 1h * 24, 0}, {"last/#", 0us, 0, 1us, 2}};
    options_.maintenance_interval = 0us;
    // Makes the database. What it has then is where all replicas begin.
    DatabaseParts::MakeEnvironment(path_, options_);
    std::filesystem::copy(path_ + "/shards/0000", directory_ / "begin");
  }

  // Opens the database as its leader.
  std::unique_ptr<DatabaseParts> Lead(EntryFile* log) const {
    return std::make_unique<DatabaseParts>(path_, options_, [log](ShardEnvironment* environment) {
      environment->open_log = LeadWith(log);
    });
  }
  static void Append(DatabaseParts* database, int round, const std::string& root) {
    std::vector<std::string> topics;
    for (int i = 0; i < kRows; ++i) {
      topics.push_back(root + "/" + std::to_string(i % 17) + "/" + std::to_string(i % 5));
    }
    std::vector<MessageView> messages;
    for (int i = 0; i < kRows; ++i) {
      messages.push_back({topics[i], round * 1'000 + i, "a value of some length"});
    }
    database->Append(messages);
  }
  static void Delete(DatabaseParts* database, const std::string& filter) {
    TransactionOps ops;
    ops.deletes.push_back({Filter::Parse(filter).value(), {}});
    ShardCommit commit;
    commit.transaction = &ops;
    database->shard(0)->Commit(&commit);
    EXPECT_TRUE(commit.status.ok()) << commit.status.message();
  }
  // Does everything that changes a shard: appends, deletes, sealing, rotation, drops, merges.
  static void DoEverything(DatabaseParts* database) {
    WallTime now{4'000'000'000s};
    for (int day = 0; day < kDays; ++day) {
      for (const char* root : {"old", "last", "kept"}) Append(database, day, root);
      EXPECT_TRUE(database->shard(0)->SealAll().ok());
      for (const char* root : {"old", "last", "kept"}) Append(database, day, root);
      Delete(database, "kept/3/#");
      Delete(database, "+/4/2");
      EXPECT_TRUE(database->shard(0)->FinishDeletes().ok());
      now += 24h;
      const auto maintained = database->upkeep.Maintain(now, nullptr);
      EXPECT_TRUE(maintained.ok()) << maintained.status().message();
    }
    Append(database, kDays, "kept");
  }
  // Returns how many messages of the class that is kept for ever were ever written.
  static std::uint64_t CountKept(const DatabaseParts& database) {
    const auto view = database.shard(0)->view();
    const SlabView* const kept = view->Find({0, RetentionClassId{2}, Generation{1}});
    EXPECT_NE(kept, nullptr);
    return kept == nullptr ? 0 : kept->slab->Info({}).messages;
  }
  static Digests DigestsOfShard(const DatabaseParts& database) {
    const auto view = database.shard(0)->view();
    rocks::FamilyHandles families{view->db()->DefaultColumnFamily()};
    for (const SlabView& slab_view : view->slabs()) {
      for (rocksdb::ColumnFamilyHandle* family : slab_view.slab->all_families()) {
        families.push_back(family);
      }
    }
    return DigestsOf(view->db(), families);
  }
  // Returns the directory of a new replica, which has what the database had when it was made.
  std::string NewReplica(const std::string& name) const {
    std::filesystem::copy(directory_ / "begin", directory_ / name);
    return directory_ / name;
  }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "db";
  OpenOptions options_;
};

TEST_P(ReplicatedShardLogTest, AReplicaHasWhatTheLeaderHas) {
  EntryFile log;
  Digests leader;
  {
    const auto database = Lead(&log);
    DoEverything(database.get());
    leader = DigestsOfShard(*database);
    Copy replica(NewReplica("replica"));
    replica.ApplyFrom(log);
    EXPECT_EQ(replica.digests(), leader);
    EXPECT_EQ(log.applied(), log.entries().back().place);
  }
  EXPECT_GT(leader.size(), 2U);
}

TEST_P(ReplicatedShardLogTest, LargeEntriesGoInParts) {
  EntryFile log;
  log.entry_bytes_max = 1'000;
  const auto database = Lead(&log);
  DoEverything(database.get());
  Copy replica(NewReplica("replica"));
  replica.ApplyFrom(log);
  EXPECT_EQ(replica.digests(), DigestsOfShard(*database));
  const auto is_part = [](const EntryFile::Stored& entry) {
    return DecodeEntry(entry.bytes)->kind == EntryKind::kPart;
  };
  EXPECT_GT(std::count_if(log.entries().begin(), log.entries().end(), is_part), 10);
}

// Nobody makes the shard beforehand: its first leader does, with entries.
TEST_P(ReplicatedShardLogTest, TheFirstLeaderMakesTheShard) {
  std::filesystem::remove_all(path_ + "/shards/0000");
  EntryFile log;
  // What a replica has before anybody leads.
  auto environment = DatabaseParts::MakeEnvironment(path_, options_);
  ASSERT_TRUE(ReplicatedShard::Open(environment, 0).value()->Close().ok());
  const auto database = Lead(&log);
  DoEverything(database.get());
  Copy replica(directory_ / "replica");
  replica.ApplyFrom(log);
  EXPECT_EQ(replica.digests(), DigestsOfShard(*database));
}

// Whoever follows may have to lead at once, and then needs all families of a slab.
TEST_P(ReplicatedShardLogTest, AReplicaHasAllFamiliesAfterTheirRecordIsThere) {
  std::filesystem::remove_all(path_ + "/shards/0000");
  auto environment = DatabaseParts::MakeEnvironment(path_, options_);
  ASSERT_TRUE(ReplicatedShard::Open(environment, 0).value()->Close().ok());
  EntryFile log;
  const auto database = Lead(&log);
  Append(database.get(), 0, "kept");
  Copy replica(directory_ / "replica");
  replica.ApplyFrom(log);
  const auto view = database->shard(0)->view();
  for (const SlabView& slab_view : view->slabs()) {
    for (rocksdb::ColumnFamilyHandle* family : slab_view.slab->all_families()) {
      EXPECT_TRUE(replica.Has(family->GetName())) << family->GetName();
    }
  }
}

// A leader may be lost after any entry. Another one begins with what the log has.
TEST_P(ReplicatedShardLogTest, AShardThatIsHalfMadeIsMadeByTheNextLeader) {
  std::filesystem::remove_all(path_ + "/shards/0000");
  EntryFile whole;
  auto environment = DatabaseParts::MakeEnvironment(path_, options_);
  ASSERT_TRUE(ReplicatedShard::Open(environment, 0).value()->Close().ok());
  std::filesystem::copy(path_ + "/shards/0000", directory_ / "empty");
  Lead(&whole);
  ASSERT_GT(whole.entries().size(), 2U);
  for (std::size_t made = 1; made < whole.entries().size(); ++made) {
    std::filesystem::remove_all(path_ + "/shards/0000");
    std::filesystem::copy(directory_ / "empty", path_ + "/shards/0000");
    EntryFile log;
    log.Take(whole, made);
    const auto database = Lead(&log);
    Append(database.get(), 0, "kept");
    EXPECT_EQ(CountKept(*database), static_cast<std::uint64_t>(kRows)) << made;
  }
}

// What was applied may be applied again, from any entry on, since a crash may take the last notes
// of a replica with it. The column families may have other numbers.
TEST_P(ReplicatedShardLogTest, EntriesMayBeAppliedAgainFromAnyOneOn) {
  EntryFile log;
  const auto database = Lead(&log);
  DoEverything(database.get());
  const Digests leader = DigestsOfShard(*database);
  Copy replica(NewReplica("replica"));
  replica.ShiftFamilyNumbers();
  std::vector<Progress> notes{replica.progress()};
  for (const EntryFile::Stored& entry : log.entries()) {
    ASSERT_TRUE(replica.Apply(entry.place, entry.bytes).ok());
    notes.push_back(replica.progress());
  }
  ASSERT_EQ(replica.digests(), leader);
  const std::size_t step = notes.size() / 12 + 1;
  for (std::size_t from = 0; from < notes.size(); from += step) {
    replica.ForgetSince(notes[from]);
    replica.ApplyFrom(log);
    EXPECT_EQ(replica.digests(), leader) << "from entry " << from + 1;
  }
}

TEST_P(ReplicatedShardLogTest, AReplicaMayStopAfterAnyEntry) {
  EntryFile log;
  const auto database = Lead(&log);
  DoEverything(database.get());
  const Digests leader = DigestsOfShard(*database);
  const std::string path = NewReplica("replica");
  const std::size_t step = log.entries().size() / 8 + 1;
  for (std::size_t next = 0; next < log.entries().size();) {
    Copy replica(path);
    EXPECT_EQ(replica.applied().index, next == 0 ? 0 : log.entries()[next - 1].place.index);
    for (std::size_t i = 0; i < step && next < log.entries().size(); ++i, ++next) {
      const EntryFile::Stored& entry = log.entries()[next];
      ASSERT_TRUE(replica.Apply(entry.place, entry.bytes).ok());
      if (i % 3 == 0) replica.Flush();
    }
  }
  EXPECT_EQ(Copy(path).digests(), leader);
}

// The process ends without closing anything: what RocksDB had in memory only is in the log.
TEST_P(ReplicatedShardLogTest, WhatWasAcknowledgedIsThereAfterTheProcessHasEnded) {
  const std::string entries = directory_ / "entries";
  const int ended = InChild([&] {
    EntryFile log(entries);
    auto database = Lead(&log);
    DoEverything(database.get());
    Append(database.get(), kDays + 1, "kept");
    database.release();  // not closed
    return testing::Test::HasFailure() ? 1 : 0;
  });
  ASSERT_EQ(ended, 0);
  Digests after;
  {
    EntryFile log(entries);
    const std::size_t before = log.entries().size();
    const auto database = Lead(&log);
    EXPECT_GT(log.entries().size(), before);  // it leads anew
    Append(database.get(), kDays + 2, "kept");
    Copy replica(NewReplica("replica"));
    replica.ApplyFrom(log);
    after = DigestsOfShard(*database);
    EXPECT_EQ(replica.digests(), after);
    EXPECT_EQ(CountKept(*database), kRows * (2U * kDays + 3U));
  }
}

TEST_P(ReplicatedShardLogTest, WhatCameBeforeADropIsInFilesWhenTheFamilyGoes) {
  EntryFile log;
  const auto database = Lead(&log);
  Append(database.get(), 0, "kept");
  const RetentionClassId kept{2};
  ASSERT_TRUE(database->shard(0)->Rotate(kept, std::nullopt).ok());
  ASSERT_TRUE(database->shard(0)->DropSlab(kept, Generation{1}).ok());
  std::filesystem::copy(path_ + "/shards/0000", directory_ / "after a crash");
  std::uint64_t drop = 0;
  for (const EntryFile::Stored& entry : log.entries()) {
    if (DecodeEntry(entry.bytes)->kind == EntryKind::kDrop) drop = entry.place.index;
  }
  ASSERT_GT(drop, 0U);
  EXPECT_GE(Copy(directory_ / "after a crash").applied().index, drop);
}

// If only some families were moved to files, the note of the last entry would be there without what
// the entry did.
TEST_P(ReplicatedShardLogTest, AllFamiliesAreFlushedTogether) {
  EntryFile log;
  Copy replica(NewReplica("replica"));
  const auto all = replica.families();
  const ReplicatedShardLog leading(Unowned(&log), replica.rocks());
  EXPECT_EQ(leading.FlushedWith({all.back()}), all);
}

TEST_P(ReplicatedShardLogTest, ADatabaseThatIsReplicatedIsNotWrittenByItself) {
  EntryFile log;
  Lead(&log);
  const auto opened = Database::Open(path_, options_);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::kReadOnly);
  EXPECT_NE(opened.status().message().find("by way of its site"), std::string::npos)
      << opened.status().message();
  OpenOptions reading = options_;
  reading.read_only = true;
  EXPECT_TRUE(Database::Open(path_, reading).ok());
}

INSTANTIATE_TEST_SUITE_P(Layouts, ReplicatedShardLogTest,
                         testing::Values(LayoutKind::kColumnar, LayoutKind::kSkipstream),
                         [](const auto& of) {
                           return of.param == LayoutKind::kColumnar ? "Columnar" : "Skipstream";
                         });

}  // namespace
}  // namespace topicdb::replication
