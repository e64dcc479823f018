#include "replication/cluster/cluster_state.h"

#include <gtest/gtest.h>

#include <string>

#include "every_damage.h"
#include "hex.h"
#include "replication/hashed_bytes.h"

namespace topicdb::replication {
namespace {

ClusterState State() {
  ClusterState state;
  state.id = {1, 2, 3};
  state.sites = {{"a", 1, "10.0.0.1:8825", "grpc+tls://a:8815"}, {"b", 2, "", ""}};
  state.descriptor = "descriptor";
  state.retention = "retention";
  return state;
}

ClusterCommand Found() {
  ClusterCommand command;
  command.founded = State();
  return command;
}

ClusterCommand SetClients(const std::string& site, const std::string& clients) {
  ClusterCommand command;
  command.kind = ClusterCommandKind::kSetClients;
  command.site = site;
  command.clients = clients;
  return command;
}

std::string OfLaterVersion(const std::string& encoded) {
  std::string bytes(WithoutHash(encoded).value());
  bytes[0] = 9;
  AppendHash(&bytes);
  return bytes;
}

TEST(ClusterState, IsFoundedOnce) {
  ClusterState state;
  EXPECT_FALSE(state.is_founded());
  ASSERT_TRUE(Apply(Found(), &state).ok());
  EXPECT_TRUE(state.is_founded());
  EXPECT_EQ(state.revision, 1U);
  EXPECT_EQ(state.descriptor, "descriptor");
  ClusterCommand other = Found();
  other.founded.descriptor = "of another";
  EXPECT_EQ(Apply(other, &state).code(), Code::kConflict);
  EXPECT_EQ(state.descriptor, "descriptor");
  EXPECT_EQ(state.revision, 1U);
}

TEST(ClusterState, SaysWhereClientsFindASite) {
  ClusterState state;
  EXPECT_EQ(Apply(SetClients("b", "grpc://b:1"), &state).code(), Code::kConflict);
  ASSERT_TRUE(Apply(Found(), &state).ok());
  ASSERT_TRUE(Apply(SetClients("b", "grpc://b:1"), &state).ok());
  EXPECT_EQ(state.FindReplica(2)->clients, "grpc://b:1");
  EXPECT_EQ(state.revision, 2U);
  EXPECT_EQ(Apply(SetClients("b", "grpc://b:1"), &state).code(), Code::kConflict);
  EXPECT_EQ(Apply(SetClients("c", "grpc://c:1"), &state).code(), Code::kConflict);
  EXPECT_EQ(state.revision, 2U);
  EXPECT_EQ(state.FindReplica(3), nullptr);
}

TEST(ClusterState, HasTheseBytes) {
  EXPECT_EQ(ToHex(Encode(SetClients("b", "grpc://b:1"))),
            "010201620a677270633a2f2f623a31b9a629ed39bf9021");
  EXPECT_EQ(ToHex(Encode(Found())),
            "010100000000000000000102030000000000000000000000000002016101000000000000000d3130"
            "2e302e302e313a3838323511677270632b746c733a2f2f613a383831350162020000000000000000"
            "000a64657363726970746f7209726574656e74696f6e4806264569215b05");
  EXPECT_EQ(ToHex(Encode(ClusterSnapshot{258, State()})),
            "01020100000000000000000000000000000102030000000000000000000000000002016101000000"
            "000000000d31302e302e302e313a3838323511677270632b746c733a2f2f613a3838313501620200"
            "00000000000000000a64657363726970746f7209726574656e74696f6e5d04116621ef423e");
}

TEST(ClusterState, IsDecodedAsItWasEncoded) {
  for (const ClusterCommand& command : {Found(), ClusterCommand(), SetClients("b", "x")}) {
    EXPECT_EQ(DecodeClusterCommand(Encode(command)).value(), command);
  }
  for (const ClusterSnapshot& snapshot : {ClusterSnapshot{258, State()}, ClusterSnapshot()}) {
    EXPECT_EQ(DecodeClusterSnapshot(Encode(snapshot)).value(), snapshot);
  }
}

TEST(ClusterState, EveryDamageIsRefused) {
  for (const ClusterCommand& command : {Found(), SetClients("b", "grpc://b:1")}) {
    ForEachDamage(Encode(command), [](const std::string& damaged) {
      EXPECT_EQ(DecodeClusterCommand(damaged).status().code(), Code::kCorruption) << ToHex(damaged);
    });
  }
  ForEachDamage(Encode(ClusterSnapshot{258, State()}), [](const std::string& damaged) {
    EXPECT_EQ(DecodeClusterSnapshot(damaged).status().code(), Code::kCorruption) << ToHex(damaged);
  });
}

TEST(ClusterState, ACommandThatIsNotKnownIsRefused) {
  std::string bytes(WithoutHash(Encode(SetClients("b", "x"))).value());
  bytes[1] = 77;
  AppendHash(&bytes);
  EXPECT_EQ(DecodeClusterCommand(bytes).status().code(), Code::kCorruption);
}

TEST(ClusterState, OneOfALaterVersionIsNotTakenForDamage) {
  EXPECT_EQ(DecodeClusterCommand(OfLaterVersion(Encode(Found()))).status().code(), Code::kSchema);
  EXPECT_EQ(DecodeClusterSnapshot(OfLaterVersion(Encode(ClusterSnapshot()))).status().code(),
            Code::kSchema);
}

}  // namespace
}  // namespace topicdb::replication
