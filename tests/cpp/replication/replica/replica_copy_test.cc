#include "replication/replica/replica_copy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/file/files.h"
#include "replication/entry.h"
#include "replication/snapshot/shard_copies.h"
#include "store/database/database_parts.h"
#include "store/shard/state/shard_rocks.h"
#include "test_directory.h"

namespace topicdb::replication {
namespace {

class ReplicaCopyTest : public testing::Test {
 protected:
  ReplicaCopyTest() : environment_(DatabaseParts::MakeEnvironment(directory_ / "db", {})) {
    environment_->sealer->Stop();
    shard_ = ShardDirectory(directory_ / "db", 0);
    std::filesystem::remove_all(shard_);
  }
  std::unique_ptr<ReplicaCopy> NewCopy() {
    return std::make_unique<ReplicaCopy>(environment_, 0, [](const LogPlace&) {});
  }
  // Returns a copy that is open.
  std::unique_ptr<ReplicaCopy> Open() {
    auto copy = NewCopy();
    EXPECT_FALSE(copy->Open(nullptr, /*heals=*/false).value().has_value());
    return copy;
  }
  // Makes a copy that has applied the entry 1 and has it in a table, and closes it.
  void MakeOne() {
    const auto copy = Open();
    Entry begins;
    begins.kind = EntryKind::kLead;
    ASSERT_TRUE(copy->replicated().Apply({1, 1}, Encode(begins)).ok());
    ASSERT_TRUE(copy->Close().ok());
  }
  bool IsQuarantined() const {
    const std::string all = directory_ / "db/quarantine";
    if (!Exists(all)) return false;
    for (const auto& one : std::filesystem::directory_iterator(all)) {
      if (IsDirectory(one.path().string() + "/0000")) return true;
    }
    return false;
  }

  const TestDirectory directory_;
  std::shared_ptr<ShardEnvironment> environment_;
  std::string shard_;
};

TEST_F(ReplicaCopyTest, ANewCopyIsEmptyAndKeepsItsLock) {
  const auto copy = Open();
  EXPECT_FALSE(copy->IsMade());
  EXPECT_EQ(copy->replicated().applied().index, 0U);
  EXPECT_EQ(NewCopy()->Open(nullptr, /*heals=*/true).status().code(), Code::kLocked);
  ASSERT_TRUE(copy->Close().ok());
  ASSERT_TRUE(copy->Close().ok());
  EXPECT_EQ(copy->shard(), nullptr);
  ASSERT_TRUE(Open()->Close().ok());
}

// As after a crash in the first flush. The log has all entries, which are applied again.
TEST_F(ReplicaCopyTest, ATableThatTheManifestDoesNotKnowIsNoDamage) {
  ASSERT_TRUE(Open()->Close().ok());
  std::ofstream(shard_ + "/000099.sst") << "a part of a table";
  const auto copy = Open();
  EXPECT_EQ(copy->replicated().applied().index, 0U);
  ASSERT_TRUE(copy->Close().ok());
}

TEST_F(ReplicaCopyTest, ACopyThatCannotBeOpenedIsQuarantinedIfItIsToBeHealed) {
  MakeOne();
  ASSERT_TRUE(RemoveFile(shard_ + "/CURRENT").ok());
  EXPECT_EQ(NewCopy()->Open(nullptr, /*heals=*/false).status().code(), Code::kCorruption);
  EXPECT_FALSE(IsQuarantined());

  auto copy = NewCopy();
  const auto note = copy->Open(nullptr, /*heals=*/true).value();
  ASSERT_TRUE(note.has_value());
  EXPECT_TRUE(note->is_aside);
  EXPECT_NE(note->why.find("CURRENT"), std::string::npos) << note->why;
  EXPECT_TRUE(IsQuarantined());
  EXPECT_EQ(copy->replicated().applied().index, 0U);
  ASSERT_TRUE(copy->Close().ok());

  copy = NewCopy();  // the note is there until another copy has taken its place
  EXPECT_EQ(copy->Open(nullptr, /*heals=*/false).value(), note);
  ASSERT_TRUE(copy->Close().ok());
}

TEST_F(ReplicaCopyTest, ADamagedCopyIsReadUntilNobodyHasIt) {
  MakeOne();
  std::filesystem::copy(FollowLink(shard_), RefillDirectory(shard_));
  // Opening removes what a healed replica has left there.
  std::filesystem::rename(RefillDirectory(shard_), directory_ / "kept");
  const auto copy = Open();
  std::shared_ptr<Shard> seen;
  copy->Watch([&seen](std::shared_ptr<Shard> shard) { seen = std::move(shard); });
  std::shared_ptr<Shard> before = copy->shard();
  EXPECT_EQ(seen, before);
  ASSERT_TRUE(copy->NoteDamage("it was hit").ok());
  std::filesystem::rename(directory_ / "kept", RefillDirectory(shard_));

  ASSERT_TRUE(copy->TakeRefill(1).ok());
  EXPECT_NE(copy->shard(), before);
  EXPECT_EQ(seen, copy->shard());
  EXPECT_TRUE(copy->has_retired());
  EXPECT_FALSE(copy->MayRemoveRetired()) << "somebody has it";
  before.reset();
  EXPECT_TRUE(copy->MayRemoveRetired());
  copy->RemoveRetired();
  EXPECT_FALSE(copy->has_retired());
  EXPECT_TRUE(IsQuarantined());
  EXPECT_FALSE(LoadDamageNote(shard_).value().has_value());
  seen.reset();
  ASSERT_TRUE(copy->Close().ok());
}

TEST_F(ReplicaCopyTest, WaitingEndsWithTheShardOrWhenNothingComes) {
  const auto copy = Open();
  const auto any = [](const Shard&) { return true; };
  const auto none = [](const Shard&) { return false; };
  const auto never = [] { return false; };
  EXPECT_EQ(copy->Await(any, std::chrono::milliseconds(0), never), copy->shard());
  EXPECT_EQ(copy->Await(none, std::chrono::milliseconds(0), never), nullptr);
  EXPECT_EQ(copy->Await(none, std::chrono::hours(1), [] { return true; }), nullptr);
  ASSERT_TRUE(copy->Close().ok());
}

}  // namespace
}  // namespace topicdb::replication
