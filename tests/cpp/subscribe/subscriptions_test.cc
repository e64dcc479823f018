#include "topicdb/database/subscriptions.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "subscribe/subscribing.h"

namespace topicdb {
namespace {

TEST(Subscriptions, RefuseWhatCannotBe) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  const auto refused = [&](const std::vector<Filter>& filters, const SubscribeFrom& from,
                           const SubscribeWindow& window) {
    const Status status = database->subscriptions().Subscribe(filters, from, window).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message().substr(0, status.message().find(':'));
  };
  const std::vector<Filter> all{Filter::Everything()};
  EXPECT_EQ(refused({}, {}, {}), "filter");
  EXPECT_EQ(refused(all, {}, {0, 1}), "window");
  EXPECT_EQ(refused(all, {}, {1, 0}), "window_bytes");
  SubscribeFrom from;
  from.part = from.parts = 3;
  EXPECT_EQ(refused(all, from, {}), "part");
  from = {};
  from.timestamp_min = -1;
  EXPECT_EQ(refused(all, from, {}), "start");
  from = {};
  from.places->emplace(7, CommitPlace{Serial{1}, 0});
  EXPECT_EQ(refused(all, from, {}), "start");
  EXPECT_EQ(database->subscriptions().GetStats()->subscriptions, 0U);
}

TEST(Subscriptions, AskFirstWhetherThereIsALog) {
  const TestDirectory directory;
  OpenOptions options;
  options.schema.layout = LayoutKind::kSkipstream;
  const auto database = Database::Open(directory / "db", options).value();
  const std::vector<Filter> all{Filter::Everything()};
  const Subscriptions& subscriptions = database->subscriptions();
  for (const SubscribeFrom& from : {SubscribeFrom(), FromNow()}) {
    EXPECT_EQ(subscriptions.CheckLog(all, from).code(), Code::kSchema);
  }
  EXPECT_TRUE(subscriptions.PlacesAt(all, 0, nullptr).ok()) << "nothing is stored";
  Append(*database, {{"a", "x"}});
  EXPECT_EQ(subscriptions.PlacesAt(all, 0, nullptr).status().code(), Code::kSchema);
  EXPECT_EQ(subscriptions.PlacesAt(all, Subscriptions::kBehindAll, nullptr)->at(0),
            (CommitPlace{Serial{2}, 0}));
  SubscribeFrom behind;
  behind.places = {{0, {Serial{2}, 0}}};
  const auto subscription = Subscribe(*database, "#", behind);
  WaitUntilLive(*subscription);  // nothing is missing yet
  Append(*database, {{"a", "x"}});
  EXPECT_EQ(subscription->Next(kPatience).status().code(), Code::kSchema);
}

TEST(Subscriptions, OfOlderTimesThanAGenerationWithoutALogHasNothingIsMissing) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  ASSERT_TRUE(database->upkeep().Rotate(std::nullopt, false, LayoutKind::kSkipstream).ok());
  Append(*database, {{"a", "state"}}, 100);
  ASSERT_TRUE(database->upkeep().Rotate(std::nullopt, false, LayoutKind::kColumnar).ok());
  Append(*database, {{"a", "0"}}, 200);
  const std::vector<Filter> all{Filter::Everything()};
  SubscribeFrom from;
  const auto subscription = database->subscriptions().Subscribe(all, from, {}).value();
  EXPECT_EQ(subscription->Next(kPatience).status().code(), Code::kSchema);
  from.timestamp_min = 101;
  EXPECT_EQ(TakeAll(*database->subscriptions().Subscribe(all, from, {}).value()), Counted(0, 1));
}

TEST(Subscriptions, AreToldWhatWasDroppedOfAGenerationWithoutALog) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendCounted(*database, "a", 0, 2);
  const auto subscription = Subscribe(*database, "a", {}, {1, 1 << 20});
  const auto delivery = subscription->Next(kPatience).value();  // it has no room for more
  ASSERT_TRUE(delivery.has_value());
  ASSERT_TRUE(database->upkeep().Rotate(std::nullopt, false, LayoutKind::kSkipstream).ok());
  for (int i = 0; i < 3; ++i) Append(*database, {{"a", "state"}, {"b", "state"}}, i);
  ASSERT_TRUE(database->upkeep().Rotate(std::nullopt, false, LayoutKind::kColumnar).ok());
  ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{2}).ok());
  AppendCounted(*database, "a", 2, 3);
  ASSERT_TRUE(subscription->Acknowledge(delivery->seqno).ok());
  std::vector<Loss> losses;
  EXPECT_EQ(Take(*subscription, 2, kPatience, &losses), Counted(1, 3));
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].generation, Generation{2});
  EXPECT_EQ(losses[0].messages, 3U) << "those of its topic";
}

TEST(Subscriptions, OfAClosedDatabaseFail) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  ASSERT_TRUE(database->Close().ok());
  const Subscriptions& subscriptions = database->subscriptions();
  const std::vector<Filter> all{Filter::Everything()};
  EXPECT_EQ(subscriptions.Subscribe(all, {}, {}).status().code(), Code::kClosed);
  EXPECT_EQ(subscriptions.PlacesAt(all, 0, nullptr).status().code(), Code::kClosed);
  EXPECT_EQ(subscriptions.CountDropped(0, all, 0, {}, kNoSerial).status().code(), Code::kClosed);
  EXPECT_EQ(subscriptions.GetStats().status().code(), Code::kClosed);
}

TEST(Subscriptions, CountWhatWasDroppedBehindAPlace) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendGenerations(*database, "a");
  ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{1}).ok());
  const Serial first_drop = database->GetStats()->shards.front().serial;
  ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{2}).ok());
  const auto dropped = [&](const std::string& filter, std::uint64_t from, Serial counted,
                           std::int64_t timestamp_min = 0) {
    return database->subscriptions()
        .CountDropped(0, {Filter::Parse(filter).value()}, timestamp_min, {Serial{from}, 0}, counted)
        .value();
  };
  EXPECT_EQ(dropped("#", 16, kNoSerial), 500U);
  EXPECT_EQ(dropped("a", 6, kNoSerial), 1'500U);
  EXPECT_EQ(dropped("a", 6, first_drop), 1'000U) << "the first drop was counted before";
  EXPECT_EQ(dropped("b", 6, kNoSerial), 0U);
  EXPECT_EQ(dropped("a", 6, kNoSerial, Subscriptions::kBehindAll), 0U);
  EXPECT_FALSE(database->subscriptions().CountDropped(9, {}, 0, {}, kNoSerial).ok());
}

TEST(Subscriptions, FromTheBeginningNothingOfBeforeIsLost) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendGenerations(*database, "a");
  ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{1}).ok());
  const auto lost = [&](const SubscribeFrom& from) {
    const auto subscription = Subscribe(*database, "#", from, {10'000, 1 << 20});
    WaitUntilLive(*subscription);
    EXPECT_EQ(subscription->Info().waiting, 2'000U);
    return subscription->Info().lost;
  };
  SubscribeFrom from;
  EXPECT_EQ(lost(from), 0U);
  from.places->emplace(0, CommitPlace{Serial{1}, 0});
  EXPECT_EQ(lost(from), 0U) << "it is the beginning";
  from.places->at(0) = CommitPlace{Serial{1}, 1};
  EXPECT_EQ(lost(from), 1'000U);
  from.places->clear();
  from.counted.emplace(0, kNoSerial);
  EXPECT_EQ(lost(from), 1'000U) << "nothing was counted before";
}

TEST(Subscriptions, KnowThePlacesOfAllShards) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db", 4);
  const std::string topic = "a";
  const std::uint32_t shard = ShardOfTopic(topic, 4);
  Append(*database, {{topic, "0"}}, 100);
  Append(*database, {{topic, "1"}}, 200);
  const auto places = [&](std::int64_t time) {
    return database->subscriptions().PlacesAt({Filter::Everything()}, time, nullptr).value();
  };
  for (const std::int64_t time : {std::int64_t{150}, Subscriptions::kBehindAll}) {
    const auto found = places(time);
    ASSERT_EQ(found.size(), 4U);
    for (const auto& [number, place] : found) {
      if (number == shard) continue;
      EXPECT_EQ(place, (CommitPlace{Serial{1}, 0})) << "it has no commit";
    }
  }
  EXPECT_EQ(places(150).at(shard), (CommitPlace{Serial{2}, 0}));
  EXPECT_EQ(places(Subscriptions::kBehindAll).at(shard), (CommitPlace{Serial{3}, 0}));
}

TEST(Subscriptions, KnowThePlaceOfATime) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  Append(*database, {{"a", "0"}}, 100);
  Append(*database, {{"b", "1"}}, 200);
  Append(*database, {{"a", "2"}}, 50);
  Append(*database, {{"a", "3"}}, 200);
  const auto place = [&](const char* filter, std::int64_t time) {
    return database->subscriptions()
        .PlacesAt({Filter::Parse(filter).value()}, time, nullptr)
        ->at(0);
  };
  const auto values_from = [&](const CommitPlace& at) {
    SubscribeFrom from;
    (*from.places)[0] = at;
    return TakeAll(*Subscribe(*database, "#", from));
  };
  EXPECT_EQ(values_from(place("#", 0)), Counted(0, 4));
  EXPECT_EQ(values_from(place("#", 101)), Counted(1, 4));
  EXPECT_EQ(values_from(place("a", 101)), Counted(3, 4));
  EXPECT_TRUE(values_from(place("a", 201)).empty());
  Append(*database, {{"a", "4"}}, Subscriptions::kBehindAll);  // the latest time that there is
  EXPECT_EQ(values_from(place("#", Subscriptions::kBehindAll - 1)), Counted(4, 5));
  EXPECT_TRUE(values_from(place("#", Subscriptions::kBehindAll)).empty());
}

}  // namespace
}  // namespace topicdb
