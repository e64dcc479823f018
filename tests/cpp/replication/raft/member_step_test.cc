#include "replication/raft/member_step.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace topicdb::replication {
namespace {

constexpr std::uint64_t kOwn = 1;

RaftMember Voter(std::uint64_t replica, std::uint64_t matched = 5'000, bool is_active = true) {
  RaftMember member;
  member.replica = replica;
  member.matched = matched;
  member.is_voter = true;
  member.is_active = is_active;
  return member;
}

RaftMember Learner(std::uint64_t replica, std::uint64_t matched) {
  RaftMember member = Voter(replica, matched);
  member.is_voter = false;
  return member;
}

RaftStatus Group(const std::vector<RaftMember>& members) {
  RaftStatus group;
  group.committed = 5'000;
  group.members = members;
  return group;
}

MemberStep Change(const std::vector<std::uint64_t>& voters,
                  const std::vector<std::uint64_t>& learners) {
  return {MemberStepKind::kChange, 0, voters, learners};
}

MemberStep Next(const RaftStatus& group, const std::set<std::uint64_t>& wanted,
                std::uint64_t last_replica = 4) {
  return NextMemberStep(group, {wanted, {}, last_replica}, kOwn);
}

TEST(MemberStep, NothingIsDoneIfAllIsRight) {
  const RaftStatus group = Group({Voter(1), Voter(2), Voter(3)});
  EXPECT_EQ(Next(group, {1, 2, 3}), MemberStep());
  EXPECT_TRUE(IsSettled(group, {{1, 2, 3}, {}, 3}));
  EXPECT_FALSE(IsSettled(group, {{1, 2, 3, 4}, {}, 4}));
  EXPECT_FALSE(IsSettled(group, {{1, 2}, {}, 3}));
  EXPECT_FALSE(IsSettled(Group({Voter(1), Learner(2, 7)}), {{1, 2}, {}, 2}));
}

TEST(MemberStep, ANewMemberLearnsAndThenVotes) {
  EXPECT_EQ(Next(Group({Voter(1), Voter(2)}), {1, 2, 4}), Change({1, 2}, {4}));
  const auto with = [](const RaftMember& learner) {
    return Next(Group({Voter(1), Voter(2), learner}), {1, 2, 4});
  };
  EXPECT_EQ(with(Learner(4, 0)), MemberStep());
  EXPECT_EQ(with(Learner(4, 3'999)), MemberStep());
  EXPECT_EQ(with(Learner(4, 4'000)), Change({1, 2, 4}, {}));
  RaftMember learner = Learner(4, 5'000);
  learner.is_active = false;
  EXPECT_EQ(with(learner), MemberStep());
  learner = Learner(4, 5'000);
  learner.gets_snapshot = true;
  EXPECT_EQ(with(learner), MemberStep());
}

TEST(MemberStep, AFirstEntryIsNotTakenForAllEntries) {
  RaftStatus group = Group({Voter(1, 3), Learner(2, 0)});
  group.committed = 3;
  EXPECT_EQ(Next(group, {1, 2}), MemberStep());
}

TEST(MemberStep, AMemberThatIsNotWantedGoes) {
  EXPECT_EQ(Next(Group({Voter(1), Voter(2), Voter(3)}), {1, 2}), Change({1, 2}, {}));
  EXPECT_EQ(Next(Group({Voter(1), Voter(2), Learner(3, 0)}), {1, 2}), Change({1, 2}, {}));
  EXPECT_EQ(Next(Group({Voter(1), Voter(2), Voter(3, 5'000, false)}), {1, 2, 4}),
            Change({1, 2}, {4}));
}

// Without this, the others could write no more.
TEST(MemberStep, NobodyGoesWhileTheOthersHaveNoMajority) {
  const RaftMember down = Voter(2, 5'000, false);
  EXPECT_EQ(Next(Group({Voter(1), down, Voter(3)}), {1, 2}), MemberStep());
  EXPECT_EQ(Next(Group({Voter(1), down, Voter(3), Voter(4)}), {1, 2, 4}), Change({1, 2, 4}, {}));
}

TEST(MemberStep, WhoLeadsHandsOverBeforeItGoes) {
  const MemberStep step =
      Next(Group({Voter(1), Voter(2, 70), Voter(3, 90), Voter(4, 95, false)}), {2, 3, 4});
  EXPECT_EQ(step.kind, MemberStepKind::kHandOver);
  EXPECT_EQ(step.to, 3U);
  EXPECT_EQ(Next(Group({Voter(1), Voter(2, 70, false)}), {2}), MemberStep());
}

// The group of the cluster has a site that leaves until it knows that, and needs it for nothing.
TEST(MemberStep, AMemberThatListensLosesItsVote) {
  const WantedMembers wanted{{1, 2}, {3}, 4};
  const auto next = [&](const RaftMember& third) {
    return NextMemberStep(Group({Voter(1), Voter(2), third}), wanted, kOwn);
  };
  EXPECT_EQ(next(Voter(3)), Change({1, 2}, {3}));
  EXPECT_EQ(next(Voter(3, 7, false)), Change({1, 2}, {3})) << "it need not be up";
  EXPECT_EQ(next(Learner(3, 7)), MemberStep());
  EXPECT_FALSE(IsSettled(Group({Voter(1), Voter(2), Voter(3)}), wanted));
  EXPECT_TRUE(IsSettled(Group({Voter(1), Voter(2), Learner(3, 7)}), wanted));
  EXPECT_TRUE(IsSettled(Group({Voter(1), Voter(2)}), wanted)) << "it has gone already";
  EXPECT_FALSE(IsSettled(Group({Voter(1), Learner(2, 7), Learner(3, 7)}), wanted));
  const MemberStep own = NextMemberStep(Group({Voter(1), Voter(2)}), {{2}, {1}, 2}, kOwn);
  EXPECT_EQ(own.kind, MemberStepKind::kHandOver);
}

TEST(MemberStep, NothingIsDoneWhileAChangeIsUnderWay) {
  RaftMember leaving = Voter(3);
  leaving.is_leaving = true;
  const RaftStatus group = Group({Voter(1), Voter(2), leaving});
  EXPECT_EQ(Next(group, {1, 2, 4}), MemberStep());
  EXPECT_FALSE(IsSettled(group, {{1, 2}, {}, 4}));
  EXPECT_FALSE(HasVoter(group, 3));
  EXPECT_TRUE(HasMember(group, 3));
  EXPECT_TRUE(NeedsVote(group, 3));
  EXPECT_FALSE(NeedsVote(Group({Voter(1), Learner(3, 7)}), 3));
}

// A leader may know an older state of the cluster than the one that has added a member.
TEST(MemberStep, AMemberThatIsNewerThanTheStateStays) {
  EXPECT_EQ(Next(Group({Voter(1), Voter(2), Voter(9)}), {1, 2}), MemberStep());
  EXPECT_EQ(Next(Group({Voter(1), Voter(2), Learner(9, 5'000)}), {1, 2}), MemberStep());
}

}  // namespace
}  // namespace topicdb::replication
