#include "replication/snapshot/damage_note.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/file/files.h"
#include "every_damage.h"
#include "hex.h"
#include "replication/hashed_bytes.h"
#include "test_directory.h"

namespace topicdb::replication {
namespace {

const DamageNote kNote{"0002.copy-7", true, "a block is damaged"};

// They are in the directories of replicas: they must not change.
TEST(DamageNote, HasTheseBytes) {
  EXPECT_EQ(ToHex(std::string(WithoutHash(Encode(kNote)).value())),
            "010b303030322e636f70792d370112"
            "6120626c6f636b2069732064616d61676564");
  EXPECT_EQ(DecodeDamageNote(Encode(kNote)).value(), kNote);
}

TEST(DamageNote, EveryDamageIsRefused) {
  ForEachDamage(Encode(kNote), [](const std::string& damaged) {
    EXPECT_EQ(DecodeDamageNote(damaged).status().code(), Code::kCorruption) << ToHex(damaged);
  });
  EXPECT_EQ(DecodeDamageNote(Encode({"../other", false, ""})).status().code(), Code::kCorruption);
}

class DamageNoteTest : public testing::Test {
 protected:
  DamageNoteTest() {
    std::filesystem::create_directories(copy_);
    std::ofstream(copy_ + "/CURRENT") << "damaged";
    EXPECT_TRUE(SetLink(shard_, "0002.copy-7").ok());
  }
  std::size_t Quarantined() const {
    std::size_t count = 0;
    if (!Exists(directory_ / "db/quarantine")) return 0;
    for (const auto& one : std::filesystem::directory_iterator(directory_ / "db/quarantine")) {
      count += Exists(one.path().string() + "/0002/CURRENT") ? 1 : 0;
    }
    return count;
  }

  const TestDirectory directory_;
  const std::string shard_ = directory_ / "db/shards/0002";
  const std::string copy_ = shard_ + ".copy-7";
};

TEST_F(DamageNoteTest, IsThereUntilTheCopyIsAside) {
  EXPECT_FALSE(LoadDamageNote(shard_).value().has_value());
  const DamageNote note{"0002.copy-7", false, "why"};
  ASSERT_TRUE(StoreDamageNote(shard_, note).ok());
  EXPECT_EQ(LoadDamageNote(shard_).value(), note);
  ASSERT_TRUE(FinishDamage(shard_, "0002.copy-8").ok()) << "of another copy";
  EXPECT_TRUE(Exists(copy_ + "/CURRENT"));
  ASSERT_TRUE(FinishDamage(shard_, "0002.copy-7").ok());
  EXPECT_FALSE(LoadDamageNote(shard_).value().has_value());
  EXPECT_FALSE(Exists(copy_));
  EXPECT_EQ(Quarantined(), 1U);
  ASSERT_TRUE(FinishDamage(shard_, "0002.copy-7").ok()) << "may be repeated";
}

TEST_F(DamageNoteTest, AnEmptyCopyIsRemoved) {
  ASSERT_TRUE(MoveAside(shard_, "0002.copy-7").ok());
  EXPECT_EQ(Quarantined(), 1U);
  std::filesystem::create_directories(copy_);
  ASSERT_TRUE(StoreDamageNote(shard_, {"0002.copy-7", true, "why"}).ok());
  ASSERT_TRUE(FinishDamage(shard_, "0002.copy-7").ok());
  EXPECT_FALSE(Exists(copy_));
  EXPECT_EQ(Quarantined(), 1U);
}

// Whoever has a note had damage. So one that cannot be read says the same of the copy in use.
TEST_F(DamageNoteTest, ADamagedNoteSaysThatTheCopyIsDamaged) {
  ASSERT_TRUE(StoreDamageNote(shard_, kNote).ok());
  std::fstream(shard_ + ".damaged") << "x";
  const auto note = LoadDamageNote(shard_).value();
  ASSERT_TRUE(note.has_value());
  EXPECT_EQ(note->copy, "0002.copy-7");
  EXPECT_FALSE(note->is_aside);
}

}  // namespace
}  // namespace topicdb::replication
