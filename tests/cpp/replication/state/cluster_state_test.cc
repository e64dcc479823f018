#include "replication/state/cluster_state.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "every_damage.h"
#include "hex.h"
#include "replication/hashed_bytes.h"

namespace topicdb::replication {
namespace {

ClusterState State() {
  ClusterState state;
  state.id = {1, 2, 3};
  state.sites = {{"a", 1, "10.0.0.1:8825", "grpc+tls://a:8815", SiteState::kMember, {}},
                 {"b", 2, "", "", SiteState::kMember, {}}};
  state.last_replica = 2;
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

ClusterCommand AddSite(const std::string& site, const std::string& peers, std::uint8_t id = 9) {
  ClusterCommand command;
  command.kind = ClusterCommandKind::kAddSite;
  command.site = site;
  command.peers = peers;
  command.id = {id};
  return command;
}

ClusterCommand SetPeers(const std::string& site, const std::string& peers) {
  ClusterCommand command;
  command.kind = ClusterCommandKind::kSetPeers;
  command.site = site;
  command.peers = peers;
  return command;
}

ClusterCommand SetState(const std::string& site, std::uint64_t replica, SiteState state) {
  ClusterCommand command;
  command.kind = ClusterCommandKind::kSetState;
  command.site = site;
  command.replica = replica;
  command.state = state;
  return command;
}

ClusterCommand RemoveSite(const std::string& site, std::uint64_t replica) {
  ClusterCommand command;
  command.kind = ClusterCommandKind::kRemoveSite;
  command.site = site;
  command.replica = replica;
  return command;
}

ClusterCommand SetRetention(const ClusterState& before, const std::string& retention) {
  ClusterCommand command;
  command.kind = ClusterCommandKind::kSetRetention;
  command.based_on = RetentionHash(before);
  command.retention = retention;
  return command;
}

ClusterCommand Upgrade(std::uint32_t format, std::uint64_t last_replica) {
  ClusterCommand command;
  command.kind = ClusterCommandKind::kUpgrade;
  command.format = format;
  command.based_on = last_replica;
  return command;
}

ClusterState WithFormat(ClusterState state) {
  state.format = 2;
  return state;
}

ClusterJob Job(const std::string& name, std::uint64_t epoch = 0) {
  ClusterJob job;
  job.job = name;
  job.epoch = epoch;
  job.commit = {7};
  job.sequence = name;
  job.messages = 300;
  job.committed_at = 5;
  job.shards = {0, 3};
  return job;
}

ClusterCommand AddJob(const ClusterJob& job) {
  ClusterCommand command;
  command.kind = ClusterCommandKind::kAddJob;
  command.job = job;
  return command;
}

ClusterCommand ForgetJob(const ClusterJob& job) {
  ClusterCommand command = AddJob(job);
  command.kind = ClusterCommandKind::kForgetJob;
  return command;
}

ClusterCommand RemoveJob(const std::string& name) {
  ClusterCommand command = AddJob({});
  command.job.kind = ClusterJobKind::kRemove;
  command.job.job = name;
  return command;
}

// Those that came with a second format.
std::vector<ClusterCommand> LaterCommands() {
  ClusterCommand found = Found();
  found.founded.format = 2;
  ClusterCommand add = AddSite("d", "10.0.0.4:8825");
  add.format = 2;
  return {found, add, Upgrade(2, 258), AddJob(Job("load")), ForgetJob(Job("load"))};
}

// One of each kind.
std::vector<ClusterCommand> Commands() {
  return {Found(),
          SetClients("b", "grpc://b:1"),
          SetRetention(State(), "new"),
          AddSite("d", "10.0.0.4:8825"),
          SetPeers("b", "10.0.0.2:8825"),
          SetState("b", 2, SiteState::kLeaving),
          RemoveSite("b", 2)};
}

// Returns a state with the sites a and b.
ClusterState Founded() {
  ClusterState state;
  EXPECT_TRUE(Apply(Found(), &state).ok());
  return state;
}

std::string HashedFromHex(const std::string& hex) {
  std::string bytes = FromHex(hex);
  AppendHash(&bytes);
  return bytes;
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
  EXPECT_EQ(Apply(SetClients("b", "grpc://b:1"), &state).code(), Code::kCluster);
  ASSERT_TRUE(Apply(Found(), &state).ok());
  ASSERT_TRUE(Apply(SetClients("b", "grpc://b:1"), &state).ok());
  EXPECT_EQ(state.FindReplica(2)->clients, "grpc://b:1");
  EXPECT_EQ(state.revision, 2U);
  EXPECT_EQ(Apply(SetClients("b", "grpc://b:1"), &state).code(), Code::kConflict);
  EXPECT_EQ(Apply(SetClients("c", "grpc://c:1"), &state).code(), Code::kCluster);
  EXPECT_EQ(state.revision, 2U);
  EXPECT_EQ(state.FindReplica(3), nullptr);
}

TEST(ClusterState, ANewSiteJoinsUnderAnIdThatNobodyHad) {
  ClusterState state = Founded();
  ASSERT_TRUE(Apply(AddSite("d", "10.0.0.4:1"), &state).ok());
  const ClusterSite* const site = state.FindSite("d");
  ASSERT_NE(site, nullptr);
  EXPECT_EQ(site->replica, 3U);
  EXPECT_EQ(site->state, SiteState::kJoining);
  EXPECT_EQ(site->peers, "10.0.0.4:1");
  EXPECT_EQ(Apply(AddSite("d", "10.0.0.4:1"), &state).code(), Code::kConflict) << "it asks again";
  ASSERT_TRUE(Apply(SetState("d", 3, SiteState::kMember), &state).ok());
  ASSERT_TRUE(Apply(SetState("d", 3, SiteState::kLeaving), &state).ok());
  EXPECT_FALSE(state.HasLeft(3));
  ASSERT_TRUE(Apply(RemoveSite("d", 3), &state).ok());
  EXPECT_TRUE(state.HasLeft(3));
  ASSERT_TRUE(Apply(AddSite("d", "10.0.0.4:1", 10), &state).ok());
  EXPECT_EQ(state.FindSite("d")->replica, 4U);
  EXPECT_FALSE(state.HasLeft(4));
  EXPECT_FALSE(state.HasLeft(5)) << "it may be newer than this state";
}

TEST(ClusterState, SitesAreInTheOrderOfTheirNames) {
  ClusterState state = Founded();
  for (const char* name : {"d", "aa", "c"}) {
    ASSERT_TRUE(Apply(AddSite(name, name), &state).ok());
  }
  EXPECT_EQ(state.Names(), "a, aa, b, c, d");
}

TEST(ClusterState, ASiteThatCannotBeIsNotAdded) {
  ClusterState unfounded;
  EXPECT_EQ(Apply(AddSite("d", "x:1"), &unfounded).code(), Code::kCluster);
  ClusterState state = Founded();
  const Status name = Apply(AddSite("b", "x:1"), &state);
  EXPECT_EQ(name.code(), Code::kCluster);
  EXPECT_NE(name.message().find("has a site 'b' already"), std::string::npos) << name.message();
  const Status address = Apply(AddSite("d", "10.0.0.1:8825"), &state);
  EXPECT_EQ(address.code(), Code::kCluster);
  EXPECT_NE(address.message().find("site 'a' has the address"), std::string::npos);
  for (int i = 0; i < 5; ++i) {
    const std::string other = "d" + std::to_string(i);
    ASSERT_TRUE(Apply(AddSite(other, other), &state).ok());
  }
  EXPECT_EQ(Apply(AddSite("e", "e"), &state).code(), Code::kCluster) << "there are seven";
  EXPECT_EQ(state.sites.size(), kSitesMax);
}

TEST(ClusterState, TheLastSiteWithAllShardsDoesNotLeave) {
  ClusterState state = Founded();
  ASSERT_TRUE(Apply(AddSite("d", "x:1"), &state).ok());  // has none yet
  ASSERT_TRUE(Apply(SetState("a", 1, SiteState::kLeaving), &state).ok());
  EXPECT_EQ(Apply(SetState("b", 2, SiteState::kLeaving), &state).code(), Code::kCluster);
  EXPECT_EQ(Apply(SetState("a", 1, SiteState::kLeaving), &state).code(), Code::kConflict);
  EXPECT_EQ(Apply(SetState("a", 1, SiteState::kMember), &state).code(), Code::kCluster);
  EXPECT_EQ(Apply(SetState("d", 2, SiteState::kLeaving), &state).code(), Code::kCluster)
      << "that is the replica of another site";
  ASSERT_TRUE(Apply(SetState("d", 3, SiteState::kMember), &state).ok());
  EXPECT_TRUE(Apply(SetState("b", 2, SiteState::kLeaving), &state).ok());
}

TEST(ClusterState, OnlyASiteThatLeavesIsRemoved) {
  ClusterState state = Founded();
  EXPECT_EQ(Apply(RemoveSite("b", 2), &state).code(), Code::kCluster);
  ASSERT_TRUE(Apply(SetState("b", 2, SiteState::kLeaving), &state).ok());
  EXPECT_EQ(Apply(RemoveSite("b", 1), &state).code(), Code::kCluster);
  EXPECT_TRUE(Apply(RemoveSite("b", 2), &state).ok());
  EXPECT_EQ(state.Names(), "a");
}

TEST(ClusterState, ASiteMoves) {
  ClusterState state = Founded();
  ASSERT_TRUE(Apply(SetPeers("b", "10.0.0.9:1"), &state).ok());
  EXPECT_EQ(state.FindSite("b")->peers, "10.0.0.9:1");
  EXPECT_EQ(Apply(SetPeers("b", "10.0.0.9:1"), &state).code(), Code::kConflict);
  EXPECT_EQ(Apply(SetPeers("x", "10.0.0.9:1"), &state).code(), Code::kCluster);
}

TEST(ClusterState, RetentionThatHasChangedMeanwhileIsNotReplaced) {
  ClusterState state;
  EXPECT_EQ(Apply(SetRetention(state, "1"), &state).code(), Code::kConflict) << "not founded";
  ASSERT_TRUE(Apply(Found(), &state).ok());
  const ClusterState before = state;
  ASSERT_TRUE(Apply(SetRetention(before, "1"), &state).ok());
  EXPECT_EQ(state.retention, "1");
  EXPECT_EQ(state.revision, 2U);
  EXPECT_EQ(Apply(SetRetention(before, "2"), &state).code(), Code::kConflict);
  EXPECT_EQ(state.retention, "1");
  EXPECT_EQ(state.revision, 2U);
  ASSERT_TRUE(Apply(SetClients("b", "grpc://b:1"), &state).ok());
  ASSERT_TRUE(Apply(SetRetention(state, "2"), &state).ok());
  EXPECT_EQ(state.retention, "2");
}

TEST(ClusterState, AFormatThatAllKnowIsInForce) {
  ClusterState unfounded;
  EXPECT_EQ(Apply(Upgrade(2, 0), &unfounded).code(), Code::kCluster);
  ClusterState state = Founded();
  EXPECT_EQ(state.format, kClusterFormatFirst);
  EXPECT_EQ(Apply(Upgrade(1, 2), &state).code(), Code::kConflict) << "it is in force";
  EXPECT_EQ(Apply(Upgrade(2, 1), &state).code(), Code::kCluster) << "b has joined meanwhile";
  ASSERT_TRUE(Apply(Upgrade(2, 2), &state).ok());
  EXPECT_EQ(state.format, 2U);
  EXPECT_EQ(state.revision, 2U);
  EXPECT_EQ(Apply(Upgrade(2, 2), &state).code(), Code::kConflict);
  const Status old = Apply(AddSite("d", "x:1"), &state);
  EXPECT_EQ(old.code(), Code::kCluster);
  EXPECT_NE(old.message().find("upgrade TopicDB there"), std::string::npos) << old.message();
  ClusterCommand added = AddSite("d", "x:1");
  added.format = 2;
  EXPECT_TRUE(Apply(added, &state).ok());
}

TEST(ClusterState, CommandsOfTheFirstFormatStayAsTheyWere) {
  for (const ClusterCommand& command : Commands()) {
    EXPECT_EQ(FormatOf(command), kClusterFormatFirst);
    EXPECT_EQ(Encode(command)[0], 2);
  }
  for (const ClusterCommand& command : LaterCommands()) {
    EXPECT_EQ(FormatOf(command), 2U);
    EXPECT_EQ(Encode(command)[0], 3);
  }
}

TEST(ClusterState, AJobIsCommittedOnce) {
  ClusterState state;
  EXPECT_EQ(Apply(AddJob(Job("a")), &state).code(), Code::kConflict) << "not founded";
  state = Founded();
  ASSERT_TRUE(Apply(AddJob(Job("a")), &state).ok());
  EXPECT_EQ(*state.FindJob("a"), Job("a"));
  EXPECT_EQ(state.FindJob("b"), nullptr);
  EXPECT_EQ(Apply(AddJob(Job("a")), &state).code(), Code::kConflict);
  ASSERT_TRUE(Apply(AddJob(Job("b")), &state).ok());
  ASSERT_TRUE(Apply(ForgetJob(Job("a")), &state).ok());
  EXPECT_EQ(state.jobs, std::vector<ClusterJob>{Job("b")});
  EXPECT_EQ(Apply(ForgetJob(Job("a")), &state).code(), Code::kConflict);
  // What was chosen before may be gone since.
  EXPECT_EQ(Apply(AddJob(Job("c")), &state).code(), Code::kConflict);
  EXPECT_TRUE(Apply(AddJob(Job("c", state.jobs_epoch)), &state).ok());
}

TEST(ClusterState, AnEarlierJobOfASequenceIsNotCommittedBehindALaterOne) {
  ClusterState state = Founded();
  ClusterJob second = Job("second");
  second.sequence = "s";
  second.number = 2;
  ASSERT_TRUE(Apply(AddJob(second), &state).ok());
  ClusterJob other = second;
  other.job = "other";
  EXPECT_EQ(Apply(AddJob(other), &state).code(), Code::kConflict);
  other.number = 1;
  EXPECT_EQ(Apply(AddJob(other), &state).code(), Code::kConflict);
  other.number = 3;
  EXPECT_TRUE(Apply(AddJob(other), &state).ok());
}

TEST(ClusterState, AJobThatIsAbortedIsNotCommitted) {
  ClusterState state = Founded();
  const std::uint64_t before = state.jobs_epoch;
  ASSERT_TRUE(Apply(RemoveJob("a"), &state).ok());
  EXPECT_EQ(state.FindJob("a")->epoch, before);
  EXPECT_EQ(Apply(AddJob(Job("a", state.jobs_epoch)), &state).code(), Code::kConflict);
  EXPECT_EQ(Apply(AddJob(Job("b", before)), &state).code(), Code::kConflict);
  ASSERT_TRUE(Apply(AddJob(Job("b", state.jobs_epoch)), &state).ok());
  EXPECT_EQ(Apply(RemoveJob("b"), &state).code(), Code::kConflict);
  ASSERT_TRUE(Apply(ForgetJob(*state.FindJob("a")), &state).ok());
  EXPECT_TRUE(Apply(AddJob(Job("a", state.jobs_epoch)), &state).ok());
}

TEST(ClusterState, TooManyJobsAreNotTaken) {
  ClusterState state = Founded();
  for (std::size_t i = 0; i < kJobsMax; ++i) {
    ASSERT_TRUE(Apply(AddJob(Job(std::to_string(i))), &state).ok());
  }
  EXPECT_EQ(Apply(AddJob(Job("one more")), &state).code(), Code::kConflict);
}

TEST(ClusterState, HasTheseBytes) {
  const std::vector<std::string> golden{
      "020100000000000000000102030000000000000000000000000002016101000000000000000d3130"
      "2e302e302e313a3838323511677270632b746c733a2f2f613a383831350000000000000000000000"
      "00000000000001620200000000000000000000000000000000000000000000000000000200000000"
      "0000000a64657363726970746f7209726574656e74696f6e",
      "020201620a677270633a2f2f623a31",
      "0203a481959bfa5d7c05036e6577",
      "020401640d31302e302e302e343a3838323509000000000000000000000000000000",
      "020501620d31302e302e302e323a38383235",
      "02060162020000000000000002",
      "020701620200000000000000",
  };
  const std::vector<ClusterCommand> commands = Commands();
  for (std::size_t i = 0; i < commands.size(); ++i) {
    EXPECT_EQ(ToHex(std::string(WithoutHash(Encode(commands[i])).value())), golden[i]);
  }
  EXPECT_EQ(ToHex(Encode(ClusterSnapshot{258, State()})),
            "02020100000000000000000000000000000102030000000000000000000000000002016101000000"
            "000000000d31302e302e302e313a3838323511677270632b746c733a2f2f613a3838313500000000"
            "00000000000000000000000000016202000000000000000000000000000000000000000000000000"
            "000002000000000000000a64657363726970746f7209726574656e74696f6ece58f76512136707");
  const std::vector<std::string> later{
      "030100000000000000000102030000000000000000000000000002016101000000000000000d3130"
      "2e302e302e313a3838323511677270632b746c733a2f2f613a383831350000000000000000000000"
      "00000000000001620200000000000000000000000000000000000000000000000000000200000000"
      "0000000a64657363726970746f7209726574656e74696f6e02000000000000000000000000",
      "030401640d31302e302e302e343a383832350900000000000000000000000000000002000000",
      "0308020000000201000000000000",
      "030901046c6f6164000000000000000007000000000000000000000000000000046c6f616400ac02"
      "000500000000000000020003",
      "030a01046c6f6164000000000000000007000000000000000000000000000000046c6f616400ac02"
      "000500000000000000020003",
  };
  const std::vector<ClusterCommand> later_commands = LaterCommands();
  for (std::size_t i = 0; i < later_commands.size(); ++i) {
    EXPECT_EQ(ToHex(std::string(WithoutHash(Encode(later_commands[i])).value())), later[i]);
  }
  EXPECT_EQ(
      ToHex(std::string(WithoutHash(Encode(ClusterSnapshot{258, WithFormat(State())})).value())),
      "03020100000000000000000000000000000102030000000000000000000000000002016101000000"
      "000000000d31302e302e302e313a3838323511677270632b746c733a2f2f613a3838313500000000"
      "00000000000000000000000000016202000000000000000000000000000000000000000000000000"
      "000002000000000000000a64657363726970746f7209726574656e74696f6e020000000000000000"
      "00000000");
}

// Clusters of the first version have these in their logs and files.
TEST(ClusterState, TheFirstVersionIsRead) {
  EXPECT_EQ(DecodeClusterCommand(FromHex("010201620a677270633a2f2f623a31b9a629ed39bf9021")).value(),
            SetClients("b", "grpc://b:1"));
  const std::string found = FromHex(
      "010100000000000000000102030000000000000000000000000002016101000000000000000d3130"
      "2e302e302e313a3838323511677270632b746c733a2f2f613a383831350162020000000000000000"
      "000a64657363726970746f7209726574656e74696f6e4806264569215b05");
  EXPECT_EQ(DecodeClusterCommand(found).value(), Found());
  const std::string snapshot = FromHex(
      "01020100000000000000000000000000000102030000000000000000000000000002016101000000"
      "000000000d31302e302e302e313a3838323511677270632b746c733a2f2f613a3838313501620200"
      "00000000000000000a64657363726970746f7209726574656e74696f6e5d04116621ef423e");
  EXPECT_EQ(DecodeClusterSnapshot(snapshot).value(), (ClusterSnapshot{258, State()}));
}

// Clusters without jobs have these.
TEST(ClusterState, TheSecondVersionIsRead) {
  EXPECT_EQ(DecodeClusterCommand(HashedFromHex("02060162020000000000000002")).value(),
            SetState("b", 2, SiteState::kLeaving));
  const std::string snapshot = HashedFromHex(
      "02020100000000000000000000000000000102030000000000000000000000000002016101000000"
      "000000000d31302e302e302e313a3838323511677270632b746c733a2f2f613a3838313500000000"
      "00000000000000000000000000016202000000000000000000000000000000000000000000000000"
      "000002000000000000000a64657363726970746f7209726574656e74696f6e");
  EXPECT_EQ(DecodeClusterSnapshot(snapshot).value(), (ClusterSnapshot{258, State()}));
}

TEST(ClusterState, IsDecodedAsItWasEncoded) {
  for (const ClusterCommand& command : Commands()) {
    EXPECT_EQ(DecodeClusterCommand(Encode(command)).value(), command);
  }
  for (const ClusterCommand& command : LaterCommands()) {
    EXPECT_EQ(DecodeClusterCommand(Encode(command)).value(), command);
  }
  ClusterState joined = Founded();
  EXPECT_TRUE(Apply(AddSite("d", "x:1"), &joined).ok());
  ClusterState with_jobs = WithFormat(joined);
  EXPECT_TRUE(Apply(RemoveJob("aborted"), &with_jobs).ok());
  EXPECT_TRUE(Apply(AddJob(Job("load", 1)), &with_jobs).ok());
  for (const ClusterState& state :
       {State(), joined, ClusterState(), WithFormat(State()), with_jobs}) {
    const ClusterSnapshot snapshot{258, state};
    EXPECT_EQ(DecodeClusterSnapshot(Encode(snapshot)).value(), snapshot);
  }
}

TEST(ClusterState, EveryDamageIsRefused) {
  std::vector<ClusterCommand> commands = LaterCommands();
  for (const ClusterCommand& command : Commands()) commands.push_back(command);
  for (const ClusterCommand& command : commands) {
    ForEachDamage(Encode(command), [](const std::string& damaged) {
      EXPECT_EQ(DecodeClusterCommand(damaged).status().code(), Code::kCorruption) << ToHex(damaged);
    });
  }
  ForEachDamage(Encode(ClusterSnapshot{258, State()}), [](const std::string& damaged) {
    EXPECT_EQ(DecodeClusterSnapshot(damaged).status().code(), Code::kCorruption) << ToHex(damaged);
  });
}

TEST(ClusterState, AStateOfASiteThatThereIsNotIsRefused) {
  std::string bytes(WithoutHash(Encode(SetState("b", 2, SiteState::kLeaving))).value());
  bytes.back() = 3;
  AppendHash(&bytes);
  EXPECT_EQ(DecodeClusterCommand(bytes).status().code(), Code::kCorruption);
}

// Nobody writes the first format in a later version, which would be encoded as another state.
TEST(ClusterState, AFormatThatIsNotThatOfTheVersionIsRefused) {
  std::string state(WithoutHash(Encode(ClusterSnapshot{258, WithFormat(State())})).value());
  state[state.size() - 13] = 1;  // after it are the epoch of jobs, and how many there are
  AppendHash(&state);
  EXPECT_EQ(DecodeClusterSnapshot(state).status().code(), Code::kCorruption);
  ClusterCommand joins = AddSite("d", "x:1");
  joins.format = 2;
  std::string command(WithoutHash(Encode(joins)).value());
  command[command.size() - 4] = 1;
  AppendHash(&command);
  EXPECT_EQ(DecodeClusterCommand(command).status().code(), Code::kCorruption);
}

TEST(ClusterState, ACommandThatIsNotKnownIsRefused) {
  std::string bytes(WithoutHash(Encode(SetClients("b", "x"))).value());
  bytes[1] = 77;
  AppendHash(&bytes);
  const Status refused = DecodeClusterCommand(bytes).status();
  EXPECT_EQ(refused.code(), Code::kSchema);
  EXPECT_NE(refused.message().find("upgrade TopicDB on this site"), std::string::npos);
}

TEST(ClusterState, OneOfALaterVersionIsNotTakenForDamage) {
  EXPECT_EQ(DecodeClusterCommand(OfLaterVersion(Encode(Found()))).status().code(), Code::kSchema);
  EXPECT_EQ(DecodeClusterSnapshot(OfLaterVersion(Encode(ClusterSnapshot()))).status().code(),
            Code::kSchema);
}

}  // namespace
}  // namespace topicdb::replication
