#include "subscribe/track.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "subscribe/log_parts.h"

namespace topicdb {
namespace {

constexpr std::uint32_t kShard = 3;

class TrackTest : public ::testing::Test {
 protected:
  // Adds a client with a lane at this place, and returns the lane.
  Lane* Add(std::uint64_t number, const SharedInterest& interest, const CommitPlace& place,
            std::uint64_t window = 1'000) {
    Client& client = clients_[number];
    client.number = number;
    client.subscriber = std::make_shared<Subscriber>(SubscribeWindow{window, 1 << 20},
                                                     SubscribeFrom::Places{{kShard, place}});
    client.interest = interest;
    client.lanes.push_back({&client, &track_, place, false, {}});
    track_.Add(&client.lanes.front());
    return &client.lanes.front();
  }
  // Returns the places of the messages that wait for a subscriber, and takes them.
  static std::vector<CommitPlace> Taken(const Lane* lane) {
    std::vector<CommitPlace> places;
    Subscriber& subscriber = *lane->client->subscriber;
    while (subscriber.Info().waiting > 0) {
      const auto delivery = subscriber.Next(std::chrono::microseconds(0), nullptr, 1'000).value();
      for (std::size_t row = 0; delivery.has_value() && row < delivery->batch->size(); ++row) {
        places.push_back({delivery->batch->serial(row), delivery->rows[row]});
      }
    }
    return places;
  }
  // Returns the messages of the losses that wait for a subscriber. Nothing else may wait.
  static std::vector<std::uint64_t> Losses(const Lane* lane) {
    std::vector<std::uint64_t> messages;
    while (true) {
      const auto delivery =
          lane->client->subscriber->Next(std::chrono::microseconds(0), nullptr, 1'000).value();
      if (!delivery.has_value()) return messages;
      EXPECT_TRUE(delivery->loss.has_value());
      if (delivery->loss.has_value()) messages.push_back(delivery->loss->messages);
    }
  }
  // Makes all lanes live that are at this place, where the log ends.
  void JoinAt(const CommitPlace& place, const SharedInterest& interest) {
    LogSpan span = SpanOf(place, place, {});
    span.at_end = true;
    LogPage page(SetOf({interest}), std::move(span));
    track_.ServeReady(&page, 1'000);
  }
  // Returns a page with one message of topic "a" in each commit.
  static std::shared_ptr<LogPage> PageOf(std::vector<SharedInterest> interests, std::uint64_t first,
                                         std::uint64_t end, bool at_end = false) {
    std::vector<LogRow> rows;
    for (std::uint64_t serial = first; serial < end; ++serial) rows.push_back({At(serial)});
    LogSpan span = SpanOf(At(first), At(end), rows);
    span.at_end = at_end;
    return std::make_shared<LogPage>(SetOf(std::move(interests)), std::move(span));
  }
  // Notes that the commit `serial` has dropped messages of these topics, up to the commit `last`.
  void Drop(std::uint64_t serial, std::uint64_t last, std::uint64_t messages,
            const std::string& topics = "#") {
    meta::DropRecord drop;
    drop.serial = Serial{serial};
    drop.last_timestamp = 100;
    drop.parts = {{topics, {{Serial{last}, messages}}}};
    track_.Learn({{drop}, ++version_});
  }

  const SharedInterest a_ = InterestIn(1, {"a"});
  const SharedInterest b_ = InterestIn(2, {"b"});
  std::map<std::uint64_t, Client> clients_;
  std::uint64_t version_ = 0;
  Track track_{kShard};
};

TEST_F(TrackTest, LanesAreBehindAtFirst) {
  EXPECT_EQ(track_.NextReady(), nullptr);
  EXPECT_EQ(track_.BeginLiveRead(), nullptr);
  Lane* lane = Add(1, a_, At(4, 2));
  EXPECT_TRUE(track_.has_behind());
  EXPECT_EQ(track_.NextReady(), lane);
  EXPECT_EQ(track_.PlaceOf(*lane), At(4, 2));
  EXPECT_EQ(track_.BeginLiveRead(), nullptr) << "none is live";
  track_.Remove(lane);
  EXPECT_FALSE(track_.has_behind());
  EXPECT_EQ(track_.NextReady(), nullptr);
}

TEST_F(TrackTest, APageServesTheLanesInItFromTheirPlacesOn) {
  Lane* before = Add(1, a_, At(1));
  Lane* first = Add(2, a_, At(2));
  Lane* within = Add(3, a_, At(4));
  Lane* of_others = Add(4, b_, At(3));
  Lane* behind = Add(5, a_, At(6));
  Lane* too_new = Add(6, a_, At(2));
  EXPECT_EQ(track_.ServeReady(PageOf({a_}, 2, 6).get(), 5), 2U);
  EXPECT_EQ(Taken(first), (std::vector<CommitPlace>{At(2), At(3), At(4), At(5)}));
  EXPECT_EQ(Taken(within), (std::vector<CommitPlace>{At(4), At(5)}));
  for (const Lane* lane : {before, of_others, behind, too_new}) {
    EXPECT_EQ(lane->client->subscriber->Info().waiting, 0U) << lane->client->number;
  }
  EXPECT_EQ(first->place, At(6));
  EXPECT_EQ(within->place, At(6));
  EXPECT_EQ(of_others->place, At(3)) << "what it wants was not read";
  EXPECT_EQ(too_new->place, At(2));
  EXPECT_FALSE(first->is_live) << "the log goes on";
}

TEST_F(TrackTest, LanesTakeTurnsInTheOrderOfPlaces) {
  Lane* slow = Add(1, b_, At(3));
  Lane* first = Add(2, a_, At(1));
  Lane* last = Add(3, a_, At(9));
  EXPECT_EQ(track_.NextReady(), first);
  track_.ServeReady(PageOf({a_}, 1, 6).get(), 9);
  EXPECT_EQ(track_.NextReady(), last) << "not the one that was just served, nor one before it";
  track_.ServeReady(PageOf({a_}, 9, 12).get(), 9);
  EXPECT_EQ(track_.NextReady(), slow);
}

TEST_F(TrackTest, LanesThatTakeNothingAreNotReady) {
  Lane* lane = Add(1, a_, At(2));
  lane->client->SetOpen(false);
  EXPECT_EQ(track_.NextReady(), nullptr);
  EXPECT_TRUE(track_.has_behind());
  EXPECT_TRUE(track_.ReadyAt(At(2), *a_).empty());
  EXPECT_EQ(track_.ServeReady(PageOf({a_}, 2, 6).get(), 9), 0U);
  EXPECT_EQ(lane->place, At(2));
  lane->client->SetOpen(true);
  EXPECT_EQ(track_.NextReady(), lane);
}

TEST_F(TrackTest, OneThatIsFullStopsBeforeWhatItDidNotTake) {
  Lane* lane = Add(1, a_, At(2), 3);
  EXPECT_EQ(track_.ServeReady(PageOf({a_}, 2, 9, true).get(), 9), 1U);
  EXPECT_EQ(lane->place, At(5));
  EXPECT_FALSE(lane->is_live) << "although the page ends where the log does";
  EXPECT_FALSE(lane->client->is_open);
  EXPECT_EQ(track_.NextReady(), nullptr);
  EXPECT_EQ(Taken(lane), (std::vector<CommitPlace>{At(2), At(3), At(4)}));
  ASSERT_TRUE(lane->client->subscriber->Acknowledge(3).value());
  lane->client->SetOpen(true);
  track_.ServeReady(PageOf({a_}, 5, 6).get(), 9);
  EXPECT_EQ(Taken(lane), std::vector<CommitPlace>{At(5)});
}

TEST_F(TrackTest, FindsWhoseInterestsOnePageMayServe) {
  Lane* lane = Add(1, a_, At(10));
  Add(2, b_, At(10, 4));
  Add(3, InterestIn(3, {"c"}), At(13))->client->SetOpen(false);
  Add(4, a_, At(10));
  Add(5, InterestIn(4, {"d"}), At(9));
  Lane* other = Add(6, b_, At(10));
  const auto numbers_near = [&] {
    std::vector<std::uint64_t> numbers;
    for (const SharedInterest& interest : track_.InterestsNear(*lane)) {
      numbers.push_back(interest->number);
    }
    return numbers;
  };
  EXPECT_EQ(numbers_near(), (std::vector<std::uint64_t>{1, 2}));
  LogPage page(SetOf({InterestIn(9, {"x"})}), SpanOf(At(50), At(54), {}));
  track_.ServeReady(&page, 9);
  EXPECT_EQ(numbers_near(), (std::vector<std::uint64_t>{1, 2, 3})) << "as far as the last page";
  EXPECT_EQ(track_.ReadyAt(At(10), *b_), std::vector<Lane*>{other});
  EXPECT_EQ(track_.ReadyAt(At(10), *a_).size(), 2U);
}

TEST_F(TrackTest, LanesThatComeToTheEndAreLive) {
  Lane* lane = Add(1, a_, At(2));
  Lane* far_behind = Add(2, a_, At(1));
  EXPECT_FALSE(track_.TakeJoined());
  EXPECT_EQ(track_.ServeReady(PageOf({a_}, 2, 5, true).get(), 9), 1U);
  EXPECT_TRUE(lane->is_live);
  EXPECT_TRUE(track_.TakeJoined());
  EXPECT_FALSE(track_.TakeJoined()) << "it tells that once";
  EXPECT_EQ(track_.live_place(), At(5));
  EXPECT_EQ(track_.NextReady(), far_behind);
  const auto interests = track_.BeginLiveRead();
  ASSERT_EQ(interests->interests().size(), 1U);
  EXPECT_TRUE(interests->Has(*a_));
  EXPECT_EQ(track_.BeginLiveRead(), interests) << "nothing has changed";

  JoinAt(At(1), a_);
  EXPECT_FALSE(far_behind->is_live) << "the live ones are further now";
}

TEST_F(TrackTest, LiveLanesMoveTogetherWhetherTheyTakeSomethingOrNot) {
  Lane* lane = Add(1, a_, At(5));
  Lane* other = Add(2, b_, At(5));
  JoinAt(At(5), a_);
  JoinAt(At(5), b_);
  ASSERT_TRUE(lane->is_live && other->is_live);
  const auto interests = track_.BeginLiveRead();
  ASSERT_EQ(interests->interests().size(), 2U);
  EXPECT_EQ(track_.ServeLive(PageOf(interests->interests(), 5, 8).get()), 1U);
  EXPECT_EQ(Taken(lane), (std::vector<CommitPlace>{At(5), At(6), At(7)}));
  EXPECT_EQ(track_.live_place(), At(8));
  EXPECT_EQ(track_.PlaceOf(*lane), At(8));
  EXPECT_EQ(track_.PlaceOf(*other), At(8));
  track_.Remove(other);
  EXPECT_EQ(track_.BeginLiveRead()->interests().size(), 1U);
}

TEST_F(TrackTest, ALiveOneThatIsFullFallsBehind) {
  Lane* lane = Add(1, a_, At(5), 2);
  Lane* other = Add(2, a_, At(5));
  JoinAt(At(5), a_);
  EXPECT_EQ(track_.ServeLive(PageOf({a_}, 5, 9).get()), 2U);
  EXPECT_FALSE(lane->is_live);
  EXPECT_FALSE(lane->client->is_open);
  EXPECT_EQ(track_.PlaceOf(*lane), At(7));
  EXPECT_TRUE(other->is_live);
  EXPECT_EQ(track_.PlaceOf(*other), At(9));
}

TEST_F(TrackTest, WithoutTheirPageAllLiveOnesAreBehindAtTheirPlace) {
  Lane* lane = Add(1, a_, At(5));
  Lane* other = Add(2, b_, At(5));
  JoinAt(At(5), a_);
  JoinAt(At(5), b_);
  track_.BeginLiveRead();
  track_.ServeLive(PageOf({a_, b_}, 5, 8).get());
  track_.BeginLiveRead();
  track_.AbandonLive();
  for (const Lane* one : {lane, other}) {
    EXPECT_FALSE(one->is_live);
    EXPECT_EQ(track_.PlaceOf(*one), At(8)) << "it was given all before";
  }
  EXPECT_EQ(track_.BeginLiveRead(), nullptr);
  EXPECT_NE(track_.NextReady(), nullptr);
}

TEST_F(TrackTest, WhoJoinsDuringALiveReadTakesThePageIfItCan) {
  Add(1, a_, At(5));
  JoinAt(At(5), a_);
  const auto interests = track_.BeginLiveRead();  // of "a" alone
  Lane* same = Add(2, InterestIn(7, {"a"}), At(5));
  Lane* other = Add(3, b_, At(5));
  JoinAt(At(5), InterestIn(8, {"+"}));
  ASSERT_TRUE(same->is_live && other->is_live);
  EXPECT_EQ(track_.ServeLive(PageOf(interests->interests(), 5, 7).get()), 2U);
  EXPECT_EQ(Taken(same), (std::vector<CommitPlace>{At(5), At(6)}));
  EXPECT_TRUE(same->is_live);
  EXPECT_FALSE(other->is_live) << "what it wants was not read";
  EXPECT_EQ(track_.PlaceOf(*other), At(5));
}

TEST_F(TrackTest, WhoJoinsBeforeAPageThatIsReadDoesNotMissWhatIsInBetween) {
  Lane* gone = Add(1, a_, At(8));
  JoinAt(At(8), a_);
  const auto interests = track_.BeginLiveRead();
  track_.Remove(gone);
  Lane* lane = Add(2, a_, At(5));
  JoinAt(At(5), a_);
  ASSERT_TRUE(lane->is_live) << "there is no other any more";
  EXPECT_EQ(track_.ServeLive(PageOf(interests->interests(), 8, 10).get()), 0U);
  EXPECT_FALSE(lane->is_live);
  EXPECT_EQ(track_.PlaceOf(*lane), At(5));
}

TEST_F(TrackTest, KnowsEachDropOnce) {
  EXPECT_EQ(track_.drops_until(), kNoSerial);
  meta::DropRecord drop;
  drop.serial = Serial{20};
  track_.Learn({{drop}, 7});
  EXPECT_EQ(track_.drops_until(), Serial{20});
  EXPECT_EQ(track_.drops_version(), 7U);
  meta::DropRecord next = drop;
  next.serial = Serial{30};
  track_.Learn({{drop, next}, 9});
  EXPECT_EQ(track_.drops_until(), Serial{30});
  EXPECT_EQ(track_.drops_version(), 9U);
}

TEST_F(TrackTest, TellsOfWhatWasDroppedBeforeALaneCameToIt) {
  Lane* lane = Add(1, a_, At(5));
  Lane* has_read = Add(2, a_, At(8));
  Lane* of_others = Add(3, b_, At(5));
  Lane* counted = Add(4, a_, At(5));
  counted->counted = Serial{10};
  Drop(10, 7, 40, "a");
  Drop(10, 7, 99, "a");  // known already
  LogPage page(SetOf({a_, b_}), SpanOf(At(5), At(11), {}));
  track_.ServeReady(&page, 9);
  EXPECT_EQ(Losses(lane), std::vector<std::uint64_t>{40});
  for (const Lane* other : {has_read, of_others, counted}) {
    EXPECT_TRUE(Losses(other).empty()) << other->client->number;
  }
  LogPage next(SetOf({a_, b_}), SpanOf(At(11), At(12), {}));
  track_.ServeReady(&next, 9);
  EXPECT_TRUE(Losses(lane).empty()) << "it tells that once";
}

TEST_F(TrackTest, TellsOfADropOnlyWithAPageOfAViewThatKnowsIt) {
  Lane* lane = Add(1, a_, At(5));
  Drop(20, 18, 40);
  LogSpan span = SpanOf(At(5), At(7), {});
  span.view_serial = Serial{19};
  LogPage older(SetOf({a_}), span);
  track_.ServeReady(&older, 9);
  EXPECT_TRUE(Losses(lane).empty());
  span = SpanOf(At(7), At(8), {});
  span.view_serial = Serial{20};
  LogPage newer(SetOf({a_}), span);
  track_.ServeReady(&newer, 9);
  EXPECT_EQ(Losses(lane), std::vector<std::uint64_t>{40});
}

TEST_F(TrackTest, TellsLiveOnesOfWhatWasDroppedBehindTheirPlace) {
  Lane* lane = Add(1, a_, At(5));
  JoinAt(At(5), a_);
  Drop(8, 4, 30);  // it was given these
  LogPage page(SetOf({a_}), SpanOf(At(5), At(9), {}));
  track_.ServeLive(&page);
  EXPECT_TRUE(Losses(lane).empty());
  Drop(12, 10, 50);
  LogPage next(SetOf({a_}), SpanOf(At(9), At(13), {}));
  track_.ServeLive(&next);
  EXPECT_EQ(Losses(lane), std::vector<std::uint64_t>{50});
  EXPECT_EQ(lane->counted, Serial{12});
}

}  // namespace
}  // namespace topicdb
