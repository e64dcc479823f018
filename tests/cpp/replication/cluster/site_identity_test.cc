#include "replication/cluster/site_identity.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "every_damage.h"
#include "hex.h"
#include "replication/hashed_bytes.h"
#include "test_directory.h"

namespace topicdb::replication {
namespace {

using Sites = std::map<std::string, std::string>;

const Sites kSites{{"a", "10.0.0.1:1"}, {"b", "10.0.0.2:1"}, {"c", "10.0.0.3:1"}};

class SiteIdentityTest : public testing::Test {
 protected:
  Result<SiteIdentity> Load(const std::string& name, const Sites& sites = kSites) const {
    return LoadSiteIdentity(path_, name, sites);
  }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "identity";
};

TEST_F(SiteIdentityTest, ItIsMadeOnce) {
  const SiteIdentity made = Load("b").value();
  EXPECT_EQ(made.name, "b");
  EXPECT_EQ(made.replica, 2U);
  EXPECT_EQ(Load("b").value(), made);
}

TEST_F(SiteIdentityTest, ItsIdIsRandom) {
  std::set<std::array<std::uint8_t, 16>> ids;
  for (int i = 0; i < 10; ++i) ids.insert(MakeSiteIdentity("a", kSites).id);
  EXPECT_EQ(ids.size(), 10U);
}

// Sites that were given others must not vote for each other.
TEST_F(SiteIdentityTest, TheNamesOfAllSitesDecideTheGroup) {
  const std::uint64_t group = MakeSiteIdentity("a", kSites).group;
  EXPECT_EQ(MakeSiteIdentity("c", kSites).group, group);
  Sites moved = kSites;
  moved["c"] = "10.0.0.9:1";
  EXPECT_EQ(MakeSiteIdentity("a", moved).group, group) << "an address may change";
  Sites fewer = kSites;
  fewer.erase("c");
  EXPECT_NE(MakeSiteIdentity("a", fewer).group, group);
  EXPECT_NE(MakeSiteIdentity("a", {{"a", ""}, {"bc", ""}}).group,
            MakeSiteIdentity("a", {{"a", ""}, {"b", ""}, {"c", ""}}).group);
}

TEST_F(SiteIdentityTest, TheDirectoryOfAnotherSiteIsRefused) {
  ASSERT_TRUE(Load("a").ok());
  const Status other = Load("b").status();
  EXPECT_EQ(other.code(), Code::kInvalidArgument);
  EXPECT_NE(other.message().find("site 'a', not of 'b'"), std::string::npos) << other.message();
  Sites more = kSites;
  more["d"] = "10.0.0.4:1";
  EXPECT_EQ(Load("a", more).status().code(), Code::kInvalidArgument);
}

TEST_F(SiteIdentityTest, ADamagedFileIsNamed) {
  std::ofstream(path_) << "no identity";
  const Status loaded = Load("a").status();
  EXPECT_EQ(loaded.code(), Code::kCorruption);
  EXPECT_TRUE(loaded.message().starts_with(path_)) << loaded.message();
}

TEST_F(SiteIdentityTest, HasTheseBytes) {
  SiteIdentity identity;
  identity.id = {1, 2, 3};
  identity.name = "a";
  identity.replica = 258;
  identity.group = 3;
  const std::string bytes = Encode(identity);
  EXPECT_EQ(
      ToHex(bytes),
      "02010203000000000000000000000000000161020100000000000003000000000000000005c0b3a1a2ed3ad9");
  EXPECT_EQ(DecodeSiteIdentity(bytes).value(), identity);
  ForEachDamage(bytes, [](const std::string& damaged) {
    EXPECT_EQ(DecodeSiteIdentity(damaged).status().code(), Code::kCorruption) << ToHex(damaged);
  });
  std::string later(WithoutHash(bytes).value());
  later[0] = 9;
  AppendHash(&later);
  EXPECT_EQ(DecodeSiteIdentity(later).status().code(), Code::kSchema);
}

TEST_F(SiteIdentityTest, OneOfTheFirstVersionIsRead) {
  const std::string bytes = FromHex(
      "010102030000000000000000000000000001610201000000000000030000000000000051297a042da6b643");
  const SiteIdentity identity = DecodeSiteIdentity(bytes).value();
  EXPECT_EQ(identity.name, "a");
  EXPECT_EQ(identity.replica, 258U);
  EXPECT_EQ(identity.group, 3U);
  EXPECT_FALSE(identity.has_joined);
}

TEST_F(SiteIdentityTest, OneThatJoinsIsTheSameIfItAsksAgain) {
  const SiteIdentity made = LoadJoiningIdentity(path_, "d").value();
  EXPECT_EQ(made.name, "d");
  EXPECT_TRUE(made.has_joined);
  EXPECT_EQ(made.replica, 0U) << "the cluster says it";
  EXPECT_EQ(LoadJoiningIdentity(path_, "d").value(), made);
  SiteIdentity known = made;
  known.replica = 4;
  known.group = 77;
  ASSERT_TRUE(StoreSiteIdentity(path_, known).ok());
  EXPECT_EQ(LoadJoiningIdentity(path_, "d").value(), known);
  EXPECT_EQ(LoadJoiningIdentity(path_, "e").status().code(), Code::kInvalidArgument);
}

TEST_F(SiteIdentityTest, WhoHasJoinedIsNoFounder) {
  ASSERT_TRUE(LoadJoiningIdentity(path_, "a").ok());
  const Status founder = Load("a").status();
  EXPECT_EQ(founder.code(), Code::kInvalidArgument);
  EXPECT_NE(founder.message().find("has joined"), std::string::npos) << founder.message();
}

TEST_F(SiteIdentityTest, WhoHasFoundedDoesNotJoin) {
  ASSERT_TRUE(Load("a").ok());
  const Status joins = LoadJoiningIdentity(path_, "a").status();
  EXPECT_EQ(joins.code(), Code::kInvalidArgument);
  EXPECT_NE(joins.message().find("has founded"), std::string::npos) << joins.message();
}

}  // namespace
}  // namespace topicdb::replication
