#include "replication/digest/replica_digest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "every_damage.h"
#include "hex.h"
#include "replication/digest/family_digest.h"
#include "replication/hashed_bytes.h"
#include "replication/replicas.h"
#include "test_directory.h"

namespace topicdb::replication {
namespace {

ReplicaDigest Digest() {
  return {{258, 3}, {{"default", 1, 2, 3}, {"slab", 4, 5, 0x1122334455667788}}};
}

// Sites of different versions compare these.
TEST(ReplicaDigest, HasTheseBytes) {
  EXPECT_EQ(ToHex(std::string(WithoutHash(Encode(Digest())).value())),
            "010201000000000000030000000000000002"
            "0764656661756c74010000000000000002000000000000000300000000000000"
            "04736c6162040000000000000005000000000000008877665544332211");
  EXPECT_EQ(DecodeReplicaDigest(Encode(Digest())).value(), Digest());
}

TEST(ReplicaDigest, EveryDamageIsRefused) {
  ForEachDamage(Encode(Digest()), [](const std::string& damaged) {
    EXPECT_EQ(DecodeReplicaDigest(damaged).status().code(), Code::kCorruption) << ToHex(damaged);
  });
}

// A family that a copy has, with some rows.
class FamilyDigestTest : public testing::Test {
 protected:
  FamilyDigest DigestOf(const Copy& copy) const {
    return DigestFamily(copy.db(), copy.db()->DefaultColumnFamily(), nullptr, [] { return false; })
        .value();
  }
  static void Put(const Copy& copy, const std::string& key, const std::string& value) {
    EXPECT_TRUE(copy.db()->Put(rocksdb::WriteOptions(), key, value).ok());
  }

  const TestDirectory directory_;
  const Copy one_{directory_ / "one"};
  const Copy other_{directory_ / "other"};
};

TEST_F(FamilyDigestTest, TellsKeysAndValuesApart) {
  Put(one_, "k", "v");
  Put(other_, "k", "v");
  EXPECT_EQ(DigestOf(one_), DigestOf(other_));
  EXPECT_EQ(DigestOf(one_).keys, 1U);
  EXPECT_EQ(DigestOf(one_).bytes, 2U);
  EXPECT_EQ(DigestOf(one_).family, "default");
  Put(other_, "k", "w");
  EXPECT_NE(DigestOf(one_).hash, DigestOf(other_).hash);
  Put(one_, "kv", "");  // the same bytes, divided in another way
  Put(other_, "k", "v");
  Put(other_, "kv", "x");
  EXPECT_NE(DigestOf(one_).hash, DigestOf(other_).hash);
}

TEST_F(FamilyDigestTest, LeavesOutTheNoteOfTheLastEntry) {
  Put(one_, "k", "v");
  Put(one_, meta::AppliedKey(), "one place");
  Put(other_, "k", "v");
  EXPECT_EQ(DigestOf(one_), DigestOf(other_));
}

TEST_F(FamilyDigestTest, HasWhatTheSnapshotHas) {
  Put(one_, "k", "v");
  const FamilyDigest before = DigestOf(one_);
  const rocksdb::Snapshot* const snapshot = one_.db()->GetSnapshot();
  Put(one_, "l", "v");
  const auto digest =
      DigestFamily(one_.db(), one_.db()->DefaultColumnFamily(), snapshot, [] { return false; });
  EXPECT_EQ(digest.value(), before);
  one_.db()->ReleaseSnapshot(snapshot);
}

TEST_F(FamilyDigestTest, IsGivenUpWhenNobodyWantsIt) {
  for (int i = 0; i < 1'000; ++i) Put(one_, std::to_string(i), "v");
  const auto digest =
      DigestFamily(one_.db(), one_.db()->DefaultColumnFamily(), nullptr, [] { return true; });
  EXPECT_EQ(digest.status().code(), Code::kInterrupted);
}

}  // namespace
}  // namespace topicdb::replication
