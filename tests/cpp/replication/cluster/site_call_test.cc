#include "replication/cluster/site_call.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "every_damage.h"
#include "hex.h"
#include "replication/hashed_bytes.h"

namespace topicdb::replication {
namespace {

std::vector<SiteCall> Calls() {
  SiteCall join;
  join.kind = SiteCallKind::kJoin;
  join.name = "d";
  join.id = {1, 2, 3};
  join.peers = "10.0.0.4:8825";
  SiteCall standing;
  standing.kind = SiteCallKind::kStanding;
  standing.cluster = {4, 5};
  standing.replica = 3;
  standing.peers = "d:1";
  SiteCall step_down;
  step_down.kind = SiteCallKind::kStepDown;
  SiteCall hand_over;
  hand_over.kind = SiteCallKind::kHandOver;
  hand_over.shard = 7;
  hand_over.replica = 2;
  SiteCall join_with_format = join;
  join_with_format.format = 258;
  SiteCall format;
  format.kind = SiteCallKind::kFormat;
  SiteCall begin_digest;
  begin_digest.kind = SiteCallKind::kBeginDigest;
  begin_digest.shard = 7;
  SiteCall take_digest;
  take_digest.kind = SiteCallKind::kTakeDigest;
  take_digest.shard = 7;
  take_digest.place = {258, 3};
  SiteCall heal;
  heal.kind = SiteCallKind::kHeal;
  heal.shard = 9;
  return {join,   standing,     step_down,   hand_over, join_with_format,
          format, begin_digest, take_digest, heal};
}

SiteAnswer Answer() {
  SiteAnswer answer;
  answer.status = ClusterFault("no");
  answer.group = 77;
  answer.state.revision = 2;
  answer.state.sites = {{"d", 4, "10.0.0.4:8825", "", SiteState::kJoining, {1, 2, 3}}};
  answer.state.last_replica = 4;
  return answer;
}

TEST(SiteCall, HasTheseBytes) {
  const std::vector<std::string> golden{
      "01010164010203000000000000000000000000000d31302e302e302e343a38383235",
      "010204050000000000000000000000000000030000000000000003643a31",
      "0103",
      "0104070000000200000000000000",
      "02010164010203000000000000000000000000000d31302e302e302e343a383832"
      "3502010000",
      "0205",
      "020607000000",
      "02070700000002010000000000000300000000000000",
      "020809000000",
  };
  const std::vector<SiteCall> calls = Calls();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string bytes = Encode(calls[i]);
    EXPECT_EQ(ToHex(std::string(WithoutHash(bytes).value())), golden[i]);
  }
  EXPECT_EQ(ToHex(std::string(WithoutHash(Encode(Answer())).value())),
            "0114026e6f4d000000000000005e0200000000000000000200000000000000000000000000000000"
            "0000000000000001016404000000000000000d31302e302e302e343a383832350001010203000000"
            "00000000000000000000040000000000000000003997463c0b526197");
  SiteAnswer format;
  format.format = 258;
  const std::string bytes(WithoutHash(Encode(format)).value());
  EXPECT_EQ(ToHex(bytes.substr(0, 11)), "0200000000000000000000");
  EXPECT_EQ(ToHex(bytes.substr(bytes.size() - 5)), "0201000000");
  format.digest = "d";
  const std::string with_digest(WithoutHash(Encode(format)).value());
  EXPECT_EQ(ToHex(with_digest.substr(with_digest.size() - 6)), "020100000164");
}

// Sites of earlier versions answer no other calls.
TEST(SiteCall, CallsAfterTheFirstFourCameWithASecondFormat) {
  const std::vector<std::uint32_t> formats{1, 1, 1, 1, 2, 2, 2, 2, 2};
  const std::vector<SiteCall> calls = Calls();
  for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(FormatOf(calls[i]), formats[i]) << i;
}

TEST(SiteCall, IsDecodedAsItWasEncoded) {
  for (const SiteCall& call : Calls()) EXPECT_EQ(DecodeSiteCall(Encode(call)).value(), call);
  const SiteAnswer answer = DecodeSiteAnswer(Encode(Answer())).value();
  EXPECT_EQ(answer.status.code(), Code::kCluster);
  EXPECT_EQ(answer.status.message(), "no");
  EXPECT_EQ(answer.group, 77U);
  EXPECT_EQ(answer.state, Answer().state);
  EXPECT_EQ(answer.format, kClusterFormatFirst);
  SiteAnswer format = Answer();
  format.format = 7;
  EXPECT_EQ(DecodeSiteAnswer(Encode(format)).value().format, 7U);
  SiteAnswer digest = Answer();
  digest.digest = "bytes";
  EXPECT_EQ(DecodeSiteAnswer(Encode(digest)).value().digest, "bytes");
  EXPECT_EQ(DecodeSiteAnswer(Encode(Answer()))->digest, "");
}

TEST(SiteCall, EveryDamageIsRefused) {
  for (const SiteCall& call : Calls()) {
    ForEachDamage(Encode(call), [](const std::string& damaged) {
      EXPECT_EQ(DecodeSiteCall(damaged).status().code(), Code::kCorruption) << ToHex(damaged);
    });
  }
  ForEachDamage(Encode(Answer()), [](const std::string& damaged) {
    EXPECT_EQ(DecodeSiteAnswer(damaged).status().code(), Code::kCorruption) << ToHex(damaged);
  });
}

// Nobody writes the first format in a later version, which would be encoded as another call.
TEST(SiteCall, AFormatThatIsNotThatOfTheVersionIsRefused) {
  SiteCall join = Calls()[0];
  join.format = 2;
  std::string bytes(WithoutHash(Encode(join)).value());
  bytes[bytes.size() - 4] = 1;
  AppendHash(&bytes);
  EXPECT_EQ(DecodeSiteCall(bytes).status().code(), Code::kCorruption);
}

TEST(SiteCall, OneThatIsNotKnownIsRefused) {
  std::string bytes(WithoutHash(Encode(Calls()[2])).value());
  bytes[1] = 77;
  AppendHash(&bytes);
  const Status refused = DecodeSiteCall(bytes).status();
  EXPECT_EQ(refused.code(), Code::kSchema);
  EXPECT_NE(refused.message().find("upgrade TopicDB on this site"), std::string::npos);
  bytes[0] = 9;
  bytes.resize(bytes.size() - 8);
  AppendHash(&bytes);
  EXPECT_EQ(DecodeSiteCall(bytes).status().code(), Code::kSchema);
}

}  // namespace
}  // namespace topicdb::replication
