// Three sites are killed and stopped while a client appends. Nothing that was acknowledged may be
// lost, nothing may be there twice, and all replicas must have the same in the end.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cluster/site_process.h"
#include "test_directory.h"
#include "topicdb/database.h"

namespace topicdb::replication {
namespace {

using std::chrono::milliseconds;

// Returns how often something happens: TOPICDB_CLUSTER_ROUNDS for the long suite.
int Rounds(int usual) {
  const char* const set = std::getenv("TOPICDB_CLUSTER_ROUNDS");
  return set == nullptr ? usual : std::atoi(set);
}

// Elections come late enough for a machine that is busy with other tests.
milliseconds Election() {
  const char* const set = std::getenv("TOPICDB_CLUSTER_ELECTION_MS");
  return milliseconds(set == nullptr ? 1'000 : std::atoi(set));
}

class ClusterTest : public testing::Test {
 protected:
  explicit ClusterTest(std::uint64_t flush_bytes = 0, std::uint32_t shards = 1, bool links = false)
      : cluster_(directory_ / "", Election(), shards) {
    cluster_.set_flush_bytes(flush_bytes);
    if (links) cluster_.UseLinks();
    cluster_.StartAll();
  }
  ~ClusterTest() override {
    RecordProperty("acknowledged", std::to_string(cluster_.acknowledged().size()));
    RecordProperty("unknown", std::to_string(cluster_.unknown()));
  }
  // Appends until this many more commits are acknowledged.
  void AppendCommits(int commits) {
    while (commits > 0 && !HasFailure()) commits -= cluster_.Append(7) ? 1 : 0;
  }

  const TestDirectory directory_;
  Cluster cluster_;
};

TEST_F(ClusterTest, AllReplicasHaveWhatWasAppended) {
  AppendCommits(20);
  // Half a megabyte of messages: several entries of the log.
  while (cluster_.acknowledged().size() < 60'000 && !HasFailure()) cluster_.Append(20'000);
  cluster_.Leader().Ask("seal");
  AppendCommits(20);
  cluster_.CloseAndCheck();
}

TEST_F(ClusterTest, TheLeaderIsKilledAgainAndAgain) {
  for (int round = 0; round < Rounds(10) && !HasFailure(); ++round) {
    AppendCommits(5);
    SiteProcess& leader = cluster_.Leader();
    if (round % 2 == 0) leader.Ask("seal");
    leader.Kill();
    AppendCommits(3);
    cluster_.StartAll();
  }
  cluster_.CloseAndCheck();
}

TEST_F(ClusterTest, EveryReplicaIsReadWhoeverLeads) {
  for (int round = 0; round < Rounds(4) && !HasFailure(); ++round) {
    AppendCommits(5);
    SiteProcess& leader = cluster_.Leader();
    if (round % 2 == 0) leader.Ask("seal");
    cluster_.ReadEverywhere();
    leader.Kill();
    AppendCommits(3);
    cluster_.ReadEverywhere();
    cluster_.StartAll();
    cluster_.ReadEverywhere();
  }
  cluster_.CloseAndCheck();
}

// What is sealed, and a generation that begins, is whole or not there, whoever leads next.
// It leads itself at times.
TEST_F(ClusterTest, ATailGoesOnWhileLeadersAreKilled) {
  AppendCommits(2);
  SiteProcess& reader = cluster_.site(0);
  reader.Kill();
  cluster_.set_holding(reader);
  cluster_.StartAll();
  for (int round = 0; round < Rounds(4) && !HasFailure(); ++round) {
    AppendCommits(3);
    SiteProcess& leader = cluster_.Leader();
    SiteProcess& killed = &leader == &reader ? cluster_.site(1) : leader;
    if (round % 2 == 0) leader.Ask("seal");
    killed.Kill();
    AppendCommits(3);
    cluster_.StartAll();
  }
  const std::string tailed = reader.Ask("drain" + cluster_.Serials()).value_or("no answer");
  cluster_.CheckSaid(tailed, cluster_.acknowledged(), reader);
  reader.Ask("release");
  cluster_.CloseAndCheck();
}

TEST_F(ClusterTest, TheLeaderIsKilledWhileItSealsAndRotates) {
  for (int round = 0; round < Rounds(6) && !HasFailure(); ++round) {
    AppendCommits(2);
    cluster_.Append(10'000);
    SiteProcess& leader = cluster_.Leader();
    SiteProcess& other = cluster_.site(leader.replica() % 3);
    leader.Say(round % 2 == 0 ? "seal" : "rotate");
    leader.Say(round % 2 == 0 ? "rotate" : "seal");
    for (int i = 0; i < round % 6; ++i) other.AwaitState();  // takes a moment
    leader.Kill();
    AppendCommits(2);
    cluster_.StartAll();
    cluster_.ReadEverywhere();
  }
  cluster_.CloseAndCheck();
}

// The site that leads is killed, or the one that sets them, while the classes come to the sites.
TEST_F(ClusterTest, ASiteIsKilledWhileTheClassesChange) {
  for (int round = 0; round < Rounds(6) && !HasFailure(); ++round) {
    AppendCommits(2);
    SiteProcess& leader = cluster_.Leader();
    SiteProcess& other = cluster_.site(leader.replica() % 3);
    SiteProcess& sets = round % 2 == 0 ? leader : other;
    sets.Say("retain load/" + std::to_string(round % 5) + " " + std::to_string(round + 1));
    SiteProcess& third = cluster_.site(other.replica() % 3);
    for (int i = 0; i < round % 6; ++i) third.AwaitState();  // takes a moment
    (round % 3 == 0 ? other : leader).Kill();
    AppendCommits(2);
    cluster_.StartAll();
    cluster_.ReadEverywhere();
  }
  cluster_.Leader().Tell("retain load/3 1000");
  AppendCommits(2);
  cluster_.CloseAndCheck();
  for (SiteProcess* site : cluster_.sites()) {
    OpenOptions options;
    options.read_only = true;
    const auto database = Database::Open(site->directory() + "/db", options);
    ASSERT_TRUE(database.ok()) << database.status().message();
    const auto classes = (*database)->upkeep().Retention();
    ASSERT_EQ(classes->size(), 1U);
    EXPECT_EQ(classes->front().filter, "load/3");
    EXPECT_EQ(classes->front().age, std::chrono::hours(1'000));
  }
}

TEST_F(ClusterTest, AllAreKilledTogether) {
  for (int round = 0; round < Rounds(3) && !HasFailure(); ++round) {
    AppendCommits(10);
    for (SiteProcess* site : cluster_.sites()) site->Kill();
    cluster_.StartAll();
  }
  AppendCommits(1);
  cluster_.CloseAndCheck();
}

TEST_F(ClusterTest, ALeaderThatIsStoppedIsReplacedAndFollowsAfterwards) {
  for (int round = 0; round < Rounds(2) && !HasFailure(); ++round) {
    AppendCommits(5);
    SiteProcess& leader = cluster_.Leader();
    const std::uint64_t before = leader.AwaitState().term;
    leader.Stop();
    SiteProcess& next = cluster_.Leader();
    EXPECT_NE(next.replica(), leader.replica());
    EXPECT_GT(next.AwaitState().term, before);
    // The client asks the stopped site, too, and gets no answer.
    AppendCommits(1);
    leader.Continue();
    AppendCommits(5);
  }
  cluster_.CloseAndCheck();
}

// A process that is stopped closes no connection, and neither does a machine that vanishes.
TEST_F(ClusterTest, AnAppendIsUnderWayToALeaderThatIsStopped) {
  for (SiteProcess* site : cluster_.sites()) {
    site->Kill();
    site->SetPatience(std::chrono::hours(1));
  }
  cluster_.StartAll();
  AppendCommits(5);
  SiteProcess& leader = cluster_.Leader();
  SiteProcess& follower = cluster_.site(leader.replica() % 3);
  const auto append = [&](const std::string& number) {  // over the connection that there is
    const std::string said = follower.Ask("append " + number + " 1 " + number).value_or("nothing");
    EXPECT_TRUE(said.starts_with("ok")) << said;
  };
  append("1000000");
  leader.Stop();
  append("1000001");
  leader.Continue();
  cluster_.AwaitEqual();
}

TEST_F(ClusterTest, AFollowerThatIsStoppedCatchesUp) {
  AppendCommits(5);
  SiteProcess& leader = cluster_.Leader();
  SiteProcess& follower = cluster_.site(leader.replica() % 3);
  follower.Stop();
  AppendCommits(20);
  follower.Continue();
  cluster_.CloseAndCheck();
}

TEST_F(ClusterTest, WithoutAMajorityNothingIsAcknowledged) {
  AppendCommits(5);
  SiteProcess& leader = cluster_.Leader();
  for (SiteProcess* site : cluster_.sites()) {
    if (site != &leader) site->Kill();
  }
  const std::string answer = leader.Ask("append 1000000 1").value_or("");
  EXPECT_TRUE(answer.starts_with("unknown") || answer.starts_with("refused")) << answer;
  // A leader that hears from nobody leads no more.
  std::string later;
  do {
    later = leader.Ask("append 1000001 1").value_or("");
  } while (later.starts_with("unknown"));
  EXPECT_TRUE(later.starts_with("refused")) << later;
  cluster_.StartAll();
  AppendCommits(5);
}

TEST_F(ClusterTest, TimestampsRiseThoughClocksAreWrong) {
  const std::chrono::hours shifts[] = {std::chrono::hours(0), std::chrono::hours(1),
                                       std::chrono::hours(-1)};
  for (std::size_t i = 0; i < 3; ++i) {
    cluster_.site(i).Kill();
    cluster_.site(i).ShiftClock(shifts[i]);
  }
  cluster_.StartAll();
  std::set<std::uint64_t> led;  // the replicas that have led
  for (int round = 0; (round < Rounds(3) || led.size() < 3) && !HasFailure(); ++round) {
    for (int i = 0; i < 3; ++i) cluster_.Append(5, "stamp");
    SiteProcess& leader = cluster_.Leader();
    led.insert(leader.replica());
    leader.Kill();
    cluster_.Append(5, "stamp");
    cluster_.StartAll();
  }
  std::istringstream said(
      cluster_.Leader().Ask("times" + cluster_.Serials()).value_or("no answer"));
  std::string word;
  said >> word;
  EXPECT_EQ(word, "ok");
  std::int64_t before = 0;
  for (std::int64_t time = 0; said >> time; before = time) EXPECT_GT(time, before);
  const auto soon = std::chrono::system_clock::now() + std::chrono::minutes(30);
  const auto last = std::chrono::system_clock::time_point(std::chrono::microseconds(before));
  EXPECT_GT(last, soon) << "a site whose clock is fast has led";
  cluster_.CloseAndCheck();
}

// Clients that hear nothing send their appends again, to other sites.
TEST_F(ClusterTest, AnAppendThatIsSentAgainIsStoredOnce) {
  for (int round = 0; round < Rounds(6) && !HasFailure(); ++round) {
    cluster_.AppendOnce(5, [](SiteProcess&) {});
    cluster_.AppendOnce(5, [&](SiteProcess& leader) {
      SiteProcess& other = cluster_.site(leader.replica() % 3);
      for (int i = 0; i < round % 3; ++i) other.AwaitState();  // takes a moment
      leader.Kill();
    });
    cluster_.StartAll();
  }
  EXPECT_EQ(cluster_.unknown(), 0U);
  cluster_.CloseAndCheck();
}

// The links between sites fail.
class LinkClusterTest : public ClusterTest {
 protected:
  LinkClusterTest() : ClusterTest(0, 1, /*links=*/true) {}

  void CutFrom(SiteProcess& site) {
    for (SiteProcess* other : cluster_.sites()) {
      if (other != &site) cluster_.link(site, *other).Cut();
    }
  }
  void CutTo(SiteProcess& site) {
    for (SiteProcess* other : cluster_.sites()) {
      if (other != &site) cluster_.link(*other, site).Cut();
    }
  }
  void MendAll() {
    for (Link* link : cluster_.links()) link->Mend();
  }
  // Waits until another site leads than this one.
  void AwaitAnother(const SiteProcess& site) {
    while (&cluster_.Leader() == &site && !HasFailure()) std::this_thread::yield();
  }
};

TEST_F(LinkClusterTest, ALeaderThatIsCutOffAcknowledgesNothing) {
  for (int round = 0; round < Rounds(2) && !HasFailure(); ++round) {
    AppendCommits(3);
    SiteProcess& leader = cluster_.Leader();
    CutFrom(leader);
    CutTo(leader);
    const std::string number = std::to_string(1'000'000 + round);
    const std::string said = leader.Ask("append " + number + " 1").value_or("no answer");
    EXPECT_TRUE(said.starts_with("unknown") || said.starts_with("refused")) << said;
    AwaitAnother(leader);
    AppendCommits(3);
    const std::string later = leader.Ask("append " + number + " 1").value_or("no answer");
    EXPECT_TRUE(later.starts_with("refused")) << later;
    MendAll();
    AppendCommits(3);
    cluster_.AwaitEqual();
  }
}

TEST_F(LinkClusterTest, ALinkFailsInOneDirection) {
  for (int round = 0; round < Rounds(4) && !HasFailure(); ++round) {
    AppendCommits(3);
    SiteProcess& leader = cluster_.Leader();
    SiteProcess& cut = round % 4 < 2 ? leader : cluster_.site(leader.replica() % 3);
    round % 2 == 0 ? CutFrom(cut) : CutTo(cut);
    AppendCommits(3);
    MendAll();
    AppendCommits(3);
  }
  cluster_.CloseAndCheck();
}

TEST_F(LinkClusterTest, LinksComeAndGo) {
  std::mt19937 random(20'261'128);
  for (int round = 0; round < Rounds(30) && !HasFailure(); ++round) {
    const std::vector<Link*> links = cluster_.links();
    Link& link = *links[random() % links.size()];
    random() % 2 == 0 ? link.Cut() : link.Mend();
    if (round % 5 == 4) MendAll();  // else a majority may not come together again
    cluster_.Append(5);
  }
  MendAll();
  cluster_.CloseAndCheck();
}

TEST_F(LinkClusterTest, LinksAreSlow) {
  for (Link* link : cluster_.links()) link->Delay(milliseconds(100), milliseconds(200));
  AppendCommits(5);
  cluster_.ReadEverywhere();
  cluster_.Leader().Kill();
  AppendCommits(5);
  for (Link* link : cluster_.links()) link->Delay(milliseconds(0), milliseconds(0));
  cluster_.StartAll();
  cluster_.CloseAndCheck();
}

// Sites whose logs are cut often, so that a replica which was away needs a snapshot.
class SnapshotClusterTest : public ClusterTest {
 protected:
  SnapshotClusterTest() : ClusterTest(64 << 10) {}

  // Returns how many copies of the shard a site has.
  static int CopiesOf(const SiteProcess& site) {
    int copies = 0;
    const std::filesystem::path shards = site.directory() + "/db/shards";
    for (const auto& entry : std::filesystem::directory_iterator(shards)) {
      copies += entry.path().filename().string().find(".copy-") != std::string::npos ? 1 : 0;
    }
    return copies;
  }
  // Returns the copy that a site uses.
  static std::filesystem::path CopyOf(const SiteProcess& site) {
    return std::filesystem::read_symlink(site.directory() + "/db/shards/0000");
  }
  // Kills a follower, and appends until the log lacks what it has not got.
  void Cut(SiteProcess* follower) {
    const std::uint64_t last = cluster_.Leader().AwaitState().last;  // it cannot have more
    follower->Kill();
    cluster_.AppendUntilCut(last);
  }
  // Returns a site that does not lead.
  SiteProcess& Follower() { return cluster_.site(cluster_.Leader().replica() % 3); }
};

TEST_F(SnapshotClusterTest, AFollowerThatWasAwayTooLongGetsASnapshot) {
  for (int round = 0; round < Rounds(2) && !HasFailure(); ++round) {
    AppendCommits(3);
    SiteProcess& follower = Follower();
    Cut(&follower);
    cluster_.Leader().Tell("retain load/" + std::to_string(round) + " 1");  // it comes along
    const auto copy = CopyOf(follower);
    cluster_.StartAll();
    cluster_.ReadEverywhere();
    cluster_.AwaitEqual();
    EXPECT_NE(CopyOf(follower), copy);
  }
  AppendCommits(3);
  cluster_.CloseAndCheck();
}

// A scan and a tail that began before a snapshot took the place of the shard go on.
TEST_F(SnapshotClusterTest, ASnapshotTakesThePlaceOfWhatIsBeingRead) {
  AppendCommits(3);
  SiteProcess& follower = Follower();
  follower.Tell("await" + cluster_.Serials());
  const std::set<std::uint64_t> before = cluster_.acknowledged();
  follower.Tell("close");  // moves all to files
  Cut(&follower);
  cluster_.set_holding(follower);
  cluster_.StartAll();
  AppendCommits(20);
  cluster_.ReadEverywhere();
  EXPECT_EQ(CopiesOf(follower), 2) << "the scan keeps the older one";
  const std::string tailed = follower.Ask("drain" + cluster_.Serials()).value_or("no answer");
  cluster_.CheckSaid(tailed, cluster_.acknowledged(), follower);
  cluster_.CheckSaid(follower.Ask("release").value_or("no answer"), before, follower);
  while (CopiesOf(follower) > 1) std::this_thread::sleep_for(milliseconds(10));
  cluster_.CloseAndCheck();
}

TEST_F(SnapshotClusterTest, ASnapshotIsInterrupted) {
  for (int round = 0; round < Rounds(2) && !HasFailure(); ++round) {
    AppendCommits(3);
    SiteProcess& follower = Follower();
    Cut(&follower);
    // Killed at any moment: while it waits, while it fetches, while it installs, or afterwards.
    for (int i = 0; i < 5; ++i) {
      cluster_.StartAll();
      AppendCommits(i);
      follower.Kill();
    }
    // The leader goes, too, which had made the snapshot.
    cluster_.StartAll();
    cluster_.Leader().Kill();
    AppendCommits(1);
    cluster_.StartAll();
    cluster_.AwaitEqual();
  }
  cluster_.CloseAndCheck();
}

// A disk fails at some call, and so do all later calls. Whoever has it takes part no more, or at
// least acknowledges nothing that is lost, and the others go on.
class FailingDiskClusterTest : public ClusterTest {
 protected:
  FailingDiskClusterTest() : ClusterTest(64 << 10, 2) {}

  // Has the disk of the site that leads, or of one that follows, fail in turn.
  void FailAndGoOn(const std::string& directory, int error_number) {
    std::mt19937 random(20'261'128);
    const auto prepare = [&](SiteProcess& site) {
      site.Kill();
      site.MendDisk();
      const int from = std::uniform_int_distribution(1, 30)(random);
      site.PrepareToFail(directory, from, error_number);
    };
    for (SiteProcess* site : cluster_.sites()) prepare(*site);
    cluster_.StartAll();
    for (int round = 0; round < Rounds(6) && !HasFailure(); ++round) {
      AppendCommits(2);
      SiteProcess& leader = cluster_.Leader();
      SiteProcess& failing = round % 2 == 0 ? leader : cluster_.site(leader.replica() % 3);
      failing.FailDisk();
      while (!failing.has_failed() && !HasFailure()) cluster_.Append(1'000);
      AppendCommits(20);
      prepare(failing);
      cluster_.StartAll();
    }
    cluster_.CloseAndCheck();
  }
};

TEST_F(FailingDiskClusterTest, TheLogCannotBeWritten) { FailAndGoOn("db/site", EIO); }
TEST_F(FailingDiskClusterTest, TheLogHasNoRoom) { FailAndGoOn("db/site", ENOSPC); }
TEST_F(FailingDiskClusterTest, AShardCannotBeWritten) { FailAndGoOn("db/shards", EIO); }
TEST_F(FailingDiskClusterTest, AShardHasNoRoom) { FailAndGoOn("db/shards", ENOSPC); }

// Four shards, which different sites may lead.
class ShardsClusterTest : public ClusterTest {
 protected:
  static constexpr std::uint32_t kShards = 4;

  ShardsClusterTest() : ClusterTest(0, kShards) {}
};

TEST_F(ShardsClusterTest, TheLeaderOfAShardIsKilledAgainAndAgain) {
  for (int round = 0; round < Rounds(6) && !HasFailure(); ++round) {
    AppendCommits(2 * kShards);
    SiteProcess& leader = cluster_.Leader(static_cast<std::uint32_t>(round) % kShards);
    leader.Say(round % 2 == 0 ? "seal" : "rotate");
    leader.Kill();
    AppendCommits(2 * kShards);
    cluster_.ReadEverywhere();
    cluster_.StartAll();
  }
  for (SiteProcess* site : cluster_.sites()) site->Tell("maintain");
  cluster_.CloseAndCheck();
}

TEST_F(ShardsClusterTest, AllAreKilledTogether) {
  for (int round = 0; round < Rounds(2) && !HasFailure(); ++round) {
    AppendCommits(2 * kShards);
    for (SiteProcess* site : cluster_.sites()) site->Kill();
    cluster_.StartAll();
  }
  AppendCommits(kShards);
  cluster_.ReadEverywhere();
  cluster_.CloseAndCheck();
}

}  // namespace
}  // namespace topicdb::replication
