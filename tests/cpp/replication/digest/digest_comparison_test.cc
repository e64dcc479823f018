#include "replication/digest/digest_comparison.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace topicdb::replication {
namespace {

ReplicaDigest With(std::uint64_t keys, std::uint64_t pages = 1) {
  return {{7, 1}, {{"keys", 1, 1, keys}, {"pages", 1, 1, pages}}};
}

std::map<std::string, ReplicaVerification> Compare(const DigestsBySite& digests) {
  std::map<std::string, ReplicaVerification> found;
  for (auto& one :
       CompareDigests(3, digests, [](const std::string& name) { return "the " + name; })) {
    EXPECT_EQ(one.shard, 3U);
    found[one.site] = one;
  }
  return found;
}

TEST(DigestComparison, ReplicasThatHaveTheSameAreSaidTo) {
  for (const auto& [site, found] : Compare({{"a", With(1)}, {"b", With(1)}, {"c", With(1)}})) {
    EXPECT_EQ(found.outcome, ReplicaOutcome::kSame) << site;
    EXPECT_TRUE(found.parts.empty() && found.why.empty()) << site;
  }
}

TEST(DigestComparison, OfThreeTheOneThatDiffersIsNamed) {
  auto found = Compare({{"a", With(1)}, {"b", With(2)}, {"c", With(1)}});
  EXPECT_EQ(found["a"].outcome, ReplicaOutcome::kSame);
  EXPECT_EQ(found["c"].outcome, ReplicaOutcome::kSame);
  EXPECT_EQ(found["b"].outcome, ReplicaOutcome::kDiffers);
  EXPECT_EQ(found["b"].parts, (std::vector<std::string>{"the keys"}));
  EXPECT_EQ(found["b"].why, "");
}

TEST(DigestComparison, AFamilyThatIsMissingOrTooManyIsNamed) {
  ReplicaDigest less = With(1);
  less.families.pop_back();
  EXPECT_EQ(Compare({{"a", With(1)}, {"b", less}, {"c", With(1)}})["b"].parts,
            (std::vector<std::string>{"the pages"}));
  EXPECT_EQ(Compare({{"a", less}, {"b", With(1)}, {"c", less}})["b"].parts,
            (std::vector<std::string>{"the pages"}));
}

// Of two replicas nobody knows which one is right.
TEST(DigestComparison, WithoutAMajorityAllDiffer) {
  for (const DigestsBySite& digests :
       {DigestsBySite{{"a", With(1)}, {"b", With(2)}},
        DigestsBySite{{"a", With(1)}, {"b", With(2)}, {"c", NotLeader("it is down")}},
        DigestsBySite{{"a", With(1)}, {"b", With(2)}, {"c", With(3)}}}) {
    for (const auto& [site, found] : Compare(digests)) {
      if (!digests.at(site).ok()) continue;
      EXPECT_EQ(found.outcome, ReplicaOutcome::kDiffers) << site;
      EXPECT_EQ(found.parts, (std::vector<std::string>{"the keys"}));
      EXPECT_NE(found.why.find("no majority"), std::string::npos) << found.why;
    }
  }
}

TEST(DigestComparison, WhatCouldNotBeReadIsSaid) {
  auto found = Compare({{"a", With(1)},
                        {"b", Corruption("a block is damaged")},
                        {"c", NotLeader("it is down")},
                        {"d", With(1)}});
  EXPECT_EQ(found["a"].outcome, ReplicaOutcome::kSame);
  EXPECT_EQ(found["d"].outcome, ReplicaOutcome::kSame);
  EXPECT_EQ(found["b"].outcome, ReplicaOutcome::kDamaged);
  EXPECT_EQ(found["b"].why, "a block is damaged");
  EXPECT_EQ(found["c"].outcome, ReplicaOutcome::kNotCompared);
  EXPECT_EQ(found["c"].why, "it is down");
}

TEST(DigestComparison, OneReplicaAloneIsNotCompared) {
  auto found = Compare({{"a", With(1)}, {"b", NotLeader("it is down")}});
  EXPECT_EQ(found["a"].outcome, ReplicaOutcome::kNotCompared);
  EXPECT_NE(found["a"].why.find("no other replica"), std::string::npos);
}

}  // namespace
}  // namespace topicdb::replication
