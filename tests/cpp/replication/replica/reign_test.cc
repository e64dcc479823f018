#include "replication/replica/reign.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>

#include "replication/entry_parts.h"
#include "replication/raft/raft_alone.h"
#include "test_directory.h"

namespace topicdb::replication {
namespace {

constexpr std::chrono::milliseconds kPatience(60'000);

class ReignTest : public testing::Test {
 protected:
  ReignTest() {
    EXPECT_TRUE(site_->Join(kGroup, {kReplica}, 0, &client_).ok());
    term_ = client_.AwaitLeading();
    const LogPlace began{site_->StatusOf(kGroup)->last, term_};
    reign_ = std::make_unique<Reign>(site_.get(), kGroup, began, kPatience, [this] { ++ended_; });
  }

  Entry Batch(std::uint64_t number, std::string_view body) const {
    Entry entry;
    entry.epoch = term_;
    entry.number = number;
    entry.body = body;
    return entry;
  }
  // Proposes in another thread, and waits until the site says that the entry is committed.
  std::future<Result<LogPlace>> Propose(const Entry& entry) {
    const std::uint64_t before = site_->StatusOf(kGroup)->last;
    auto answer = std::async(std::launch::async, [this, entry] { return reign_->Propose(entry); });
    entries_ = client_.AwaitEntry(before + DivideEntry(entry, Encode(entry)).size());
    return answer;
  }
  // Passes what is committed and has not passed yet.
  void PassAll() {
    for (; passed_ < entries_.size(); ++passed_) reign_->Pass(entries_[passed_]);
  }
  static KeptEntry Begins(LogPlace place) {
    Entry entry;
    entry.kind = EntryKind::kLead;
    return {place, KeptBytes(Encode(entry))};
  }

  const TestDirectory directory_;
  KeepingClient client_;
  std::unique_ptr<RaftSite> site_ = RaftSite::Open(AloneAt(directory_ / "log")).value();
  std::uint64_t term_ = 0;
  std::atomic<int> ended_{0};
  std::unique_ptr<Reign> reign_;
  KeptEntries entries_;  // that are committed
  std::size_t passed_ = 0;
};

TEST_F(ReignTest, AProposalIsAnsweredWhenItsEntryHasPassed) {
  auto answer = Propose(Batch(1, "a"));
  const LogPlace place = entries_.back().place;
  EXPECT_EQ(answer.wait_for(std::chrono::milliseconds(0)), std::future_status::timeout);
  PassAll();
  EXPECT_EQ(answer.get().value(), place);
  EXPECT_FALSE(reign_->is_over());
  EXPECT_EQ(ended_, 0);
  reign_->NoteApplied(place);
  EXPECT_EQ(reign_->applied(), place.index);
  EXPECT_EQ(site_->StatusOf(kGroup)->applied, place.index);
  EXPECT_TRUE(reign_->TakeRest(0).empty());
}

TEST_F(ReignTest, ALargeEntryHasThePlaceOfItsLastPart) {
  const std::string body(3 * kEntryBytesMax, 'x');
  auto answer = Propose(Batch(1, body));
  PassAll();
  EXPECT_EQ(answer.get().value(), entries_.back().place);
  PartJoiner joiner;
  std::size_t parts = 0;
  std::optional<std::string> whole;
  for (const KeptEntry& entry : entries_) {
    if (entry.bytes.empty()) continue;
    whole = joiner.Add(entry.bytes.view()).value();
    ++parts;
  }
  EXPECT_EQ(parts, 4U);
  EXPECT_EQ(whole, Encode(Batch(1, body)));
}

// The entry is in the log, and does nothing in any replica.
TEST_F(ReignTest, AnEntryBehindTheBeginningOfAnotherReignIsRefused) {
  auto answer = Propose(Batch(1, "a"));
  const LogPlace place = entries_.back().place;
  entries_.insert(entries_.end() - 1, Begins({place.index - 1, term_ + 1}));
  PassAll();
  EXPECT_EQ(answer.get().status().code(), Code::kNotLeader);
  EXPECT_TRUE(reign_->is_over());
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(reign_->Propose(Batch(2, "b")).status().code(), Code::kNotLeader);
  // The replica applies all of it when it follows.
  const KeptEntries rest = reign_->TakeRest(0);
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[1].place, place);
}

TEST_F(ReignTest, AnEntryBeforeTheBeginningOfAnotherReignCounts) {
  auto answer = Propose(Batch(1, "a"));
  const LogPlace place = entries_.back().place;
  PassAll();
  reign_->Pass(Begins({place.index + 1, term_ + 1}));
  EXPECT_EQ(answer.get().value(), place);
  EXPECT_EQ(reign_->MayWrite().code(), Code::kNotLeader);
  reign_->NoteApplied(place);
  EXPECT_EQ(reign_->TakeRest(0).size(), 1U);
}

// Its own beginning comes twice if the first proposal of it was not answered in time.
TEST_F(ReignTest, ItsOwnBeginningDoesNotEndIt) {
  const std::uint64_t last = site_->StatusOf(kGroup)->last;
  reign_->Pass(Begins({last + 1, term_}));
  EXPECT_FALSE(reign_->is_over());
  EXPECT_TRUE(reign_->TakeRest(0).empty());
}

TEST_F(ReignTest, WhatCannotBeReadEndsIt) {
  reign_->Pass({{site_->StatusOf(kGroup)->last + 1, term_ + 1}, KeptBytes("no entry")});
  EXPECT_TRUE(reign_->is_over());
  EXPECT_EQ(reign_->TakeRest(0).size(), 1U);
}

// A thread that got no answer does not write its entry, so the replica does when it follows.
TEST_F(ReignTest, WhatIsNotKnownToBeAppliedIsLeft) {
  auto first = Propose(Batch(1, "a"));
  PassAll();
  const LogPlace place = first.get().value();
  auto second = Propose(Batch(2, "b"));
  PassAll();
  const LogPlace behind = second.get().value();
  reign_->NoteApplied(place);
  reign_->End(NotLeader("another replica leads"));
  EXPECT_EQ(reign_->Propose(Batch(3, "c")).status().code(), Code::kNotLeader);
  const KeptEntries rest = reign_->TakeRest(place.index);
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].place, behind);
}

// Entries with an epoch that is over may still come. They do nothing, and nobody applies them.
TEST_F(ReignTest, EntriesOfAnEarlierEpochAreNotLeft) {
  auto answer = Propose(Batch(1, "a"));
  PassAll();
  reign_->NoteApplied(answer.get().value());
  Entry late = Batch(9, "late");
  late.epoch = term_ - 1;
  auto of_late = Propose(late);
  PassAll();
  const LogPlace place = of_late.get().value();
  EXPECT_EQ(site_->StatusOf(kGroup)->applied, place.index);
  EXPECT_TRUE(reign_->TakeRest(0).empty());
}

// What comes after a proposal without an answer would build upon what is not certain.
TEST_F(ReignTest, AnUnknownOutcomeEndsIt) {
  const LogPlace began{site_->StatusOf(kGroup)->last, term_};
  Reign impatient(site_.get(), kGroup, began, std::chrono::milliseconds(50), [this] { ++ended_; });
  EXPECT_EQ(impatient.Propose(Batch(1, "never passes")).status().code(), Code::kUnknownOutcome);
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(impatient.Propose(Batch(2, "b")).status().code(), Code::kNotLeader);
  EXPECT_EQ(ended_, 1);
}

// Kinds of entries that come with later versions are not for sites that do not know them.
TEST_F(ReignTest, AnEntryOfALaterFormatThanTheOneInForceIsRefused) {
  std::uint32_t in_force = kClusterFormatFirst;
  const LogPlace began{site_->StatusOf(kGroup)->last, term_};
  Reign reign(
      site_.get(), kGroup, began, kPatience, [this] { ++ended_; }, [&] { return in_force; });
  Entry later = Batch(1, "a");
  later.kind = static_cast<EntryKind>(static_cast<std::uint8_t>(EntryKind::kPart) + 1);
  const Status refused = reign.Propose(later).status();
  EXPECT_EQ(refused.code(), Code::kCluster);
  EXPECT_NE(refused.message().find("this needs format 2"), std::string::npos) << refused.message();
  EXPECT_FALSE(reign.is_over());
  EXPECT_EQ(ended_, 0);
}

}  // namespace
}  // namespace topicdb::replication
