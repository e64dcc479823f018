#include "topicdb/subscription.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>

#include "subscribe/subscribing.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

TEST(Subscription, GivesWhatIsStoredAndThenWhatComes) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendCounted(*database, "a/b", 0, 10);
  Append(*database, {{"other", "x"}});
  const auto subscription = Subscribe(*database, "a/#");
  EXPECT_EQ(Take(*subscription, 10), Counted(0, 10));
  AppendCounted(*database, "a/c", 10, 20);
  Append(*database, {{"other", "x"}, {"a", "20"}});
  EXPECT_EQ(Take(*subscription, 11), Counted(10, 21));
  EXPECT_TRUE(TakeAll(*subscription).empty());
}

TEST(Subscription, FromNowOnGivesNothingOlder) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendCounted(*database, "a", 0, 10);
  const auto subscription = Subscribe(*database, "#", FromNow());
  AppendCounted(*database, "a", 10, 12);
  EXPECT_EQ(Take(*subscription, 2), Counted(10, 12));
  EXPECT_TRUE(TakeAll(*subscription).empty());
}

TEST(Subscription, OfAStartNothingEarlierLateOrNot) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  Append(*database, {{"a", "old"}}, 99);
  Append(*database, {{"a", "0"}}, 100);
  SubscribeFrom from;
  from.timestamp_min = 100;
  const auto subscription = Subscribe(*database, "a", from);
  EXPECT_EQ(Take(*subscription, 1), Counted(0, 1));
  Append(*database, {{"a", "late"}}, 50);
  Append(*database, {{"a", "1"}}, 200);
  Append(*database, {{"a", "2"}}, 100);
  EXPECT_EQ(Take(*subscription, 2), Counted(1, 3));
}

TEST(Subscription, StopsAtItsWindowAndGoesOnAfterAcknowledgement) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  const auto subscription = Subscribe(*database, "#", {}, {8, 1 << 20});
  AppendCounted(*database, "a", 0, 30);  // one commit, which the window cuts
  std::vector<std::string> values;
  std::uint64_t seqno = 0;
  const auto take = [&](std::chrono::milliseconds timeout = kPatience) {
    auto delivery = subscription->Next(timeout).value();
    if (!delivery.has_value()) return std::size_t{0};
    EXPECT_LE(delivery->batch->size(), 8U);
    for (std::size_t row = 0; row < delivery->batch->size(); ++row) {
      values.emplace_back(delivery->batch->value(row));
    }
    seqno = delivery->seqno;
    EXPECT_EQ(seqno, values.size());
    return delivery->batch->size();
  };
  EXPECT_EQ(take(), 8U);
  EXPECT_EQ(take(100ms), 0U);
  EXPECT_EQ(subscription->Info().state, SubscriptionState::kFull);
  ASSERT_TRUE(subscription->Acknowledge(3).ok());
  EXPECT_EQ(take(), 3U);
  EXPECT_EQ(take(100ms), 0U);
  while (values.size() < 30) {
    ASSERT_TRUE(subscription->Acknowledge(seqno).ok());
    ASSERT_GT(take(), 0U);
  }
  EXPECT_EQ(values, Counted(0, 30));
}

TEST(Subscription, AWindowOfBytesTakesOneLargerMessageAtATime) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  const auto subscription = Subscribe(*database, "#", {}, {1'000, 100});
  const std::string large(1'000, 'v');
  for (int i = 0; i < 3; ++i) Append(*database, {{"a", large}});
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const auto delivery = subscription->Next(kPatience).value();
    ASSERT_TRUE(delivery.has_value());
    EXPECT_EQ(delivery->batch->size(), 1U);
    EXPECT_FALSE(subscription->Next(20ms).value().has_value());
    ASSERT_TRUE(subscription->Acknowledge(i).ok());
  }
}

TEST(Subscription, RefusesAcknowledgementsOfNothingAndTwice) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendCounted(*database, "a", 0, 5);
  const auto subscription = Subscribe(*database, "#");
  EXPECT_EQ(subscription->Acknowledge(1).code(), Code::kInvalidArgument);
  ASSERT_TRUE(subscription->Next(kPatience).value().has_value());
  EXPECT_EQ(subscription->Acknowledge(6).code(), Code::kInvalidArgument);
  EXPECT_TRUE(subscription->Acknowledge(5).ok());
  EXPECT_EQ(subscription->Acknowledge(5).code(), Code::kInvalidArgument);
  EXPECT_EQ(subscription->Acknowledge(0).code(), Code::kInvalidArgument);
}

TEST(Subscription, PausesAndGoesOn) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  const auto subscription = Subscribe(*database, "#");
  AppendCounted(*database, "a", 0, 5);
  EXPECT_EQ(Take(*subscription, 5), Counted(0, 5));
  subscription->Pause();
  AppendCounted(*database, "a", 5, 10);
  EXPECT_TRUE(Take(*subscription, 1, 50ms).empty());
  EXPECT_EQ(subscription->Info().state, SubscriptionState::kPaused);
  subscription->Resume();
  EXPECT_EQ(Take(*subscription, 5), Counted(5, 10));
}

TEST(Subscription, APlaceWithinACommitIsWhereAnotherGoesOn) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendCounted(*database, "a", 0, 20);
  SubscribeFrom from;
  {
    const auto first = Subscribe(*database, "#", {}, {7, 1 << 20});
    const auto delivery = first->Next(kPatience).value();
    ASSERT_TRUE(delivery.has_value());
    ASSERT_EQ(delivery->batch->size(), 7U);
    from.places->emplace(delivery->shard, delivery->next);
  }
  ASSERT_TRUE(database->Flush().ok());  // sealing makes other blocks, but places stay
  const auto second = Subscribe(*database, "#", from);
  EXPECT_EQ(Take(*second, 13), Counted(7, 20));
}

// Acknowledges messages until the subscription reports a loss, and returns the loss.
Loss NextLoss(Subscription& subscription) {
  while (true) {
    const auto delivery = subscription.Next(kPatience).value();
    EXPECT_TRUE(delivery.has_value());
    if (!delivery.has_value() || delivery->loss.has_value()) return delivery->loss.value_or(Loss());
    EXPECT_TRUE(subscription.Acknowledge(delivery->seqno).ok());
  }
}

TEST(Subscription, TellsWhereMessagesWereDroppedBeforeTheyCame) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendGenerations(*database, "a");
  const auto subscription = Subscribe(*database, "#", {}, {100, 1 << 20});
  const auto first = subscription->Next(kPatience).value();
  ASSERT_TRUE(first.has_value());
  ASSERT_EQ(first->next, (CommitPlace{Serial{2}, 0}));
  ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{1}).ok());
  ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{2}).ok());
  ASSERT_TRUE(subscription->Acknowledge(first->seqno).ok());
  std::vector<Loss> losses;
  EXPECT_EQ(Take(*subscription, 1'000, kPatience, &losses), Counted(2'000, 3'000));
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_EQ(losses[0].generation, Generation{1});
  EXPECT_EQ(losses[0].retention_class, "#");
  EXPECT_EQ(losses[0].messages, 900U);
  EXPECT_EQ(losses[1].generation, Generation{2});
  EXPECT_EQ(losses[1].messages, 1'000U);
  EXPECT_EQ(subscription->Info().lost, 1'900U);
}

TEST(Subscription, OneThatHasReadItLosesNothing) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendGenerations(*database, "a");
  const auto subscription = Subscribe(*database, "#", {}, {10'000, 1 << 20});
  const auto other = Subscribe(*database, "b/#", {}, {10, 1 << 20});
  EXPECT_EQ(Take(*subscription, 3'000), Counted(0, 3'000));
  WaitUntilLive(*other);
  for (const std::uint32_t generation : {1, 2, 3}) {
    ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{generation}).ok());
  }
  Append(*database, {{"b/1", "0"}});
  EXPECT_EQ(Take(*subscription, 1), Counted(0, 1));
  EXPECT_EQ(Take(*other, 1), Counted(0, 1));
  EXPECT_EQ(subscription->Info().lost + other->Info().lost, 0U);
  const auto later = Subscribe(*database, "#");  // from the oldest message that is left
  EXPECT_EQ(Take(*later, 1), Counted(0, 1));
  EXPECT_EQ(later->Info().lost, 0U);
}

TEST(Subscription, OfAPlaceWhatWasDroppedBehindItIsLost) {
  const TestDirectory directory;
  {
    const auto database = OpenOk(directory / "db");
    AppendGenerations(*database, "a");
    ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{1}).ok());
    ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{2}).ok());
  }
  const auto database = OpenOk(directory / "db");  // the losses are known after a restart, too
  SubscribeFrom from;
  from.places->emplace(0, CommitPlace{Serial{16}, 0});
  EXPECT_EQ(NextLoss(*Subscribe(*database, "#", from)).messages, 500U);
  EXPECT_EQ(NextLoss(*Subscribe(*database, "+", from)).messages, 500U);
  EXPECT_EQ(Take(*Subscribe(*database, "b/#", from), 1, 10ms).size(), 0U);
  from.counted.emplace(0, database->GetStats()->shards.front().serial);
  const auto counted = Subscribe(*database, "#", from);
  EXPECT_EQ(Take(*counted, 1'000).size(), 1'000U);
  EXPECT_EQ(counted->Info().lost, 0U);
}

TEST(Subscription, WhatWasDeletedIsNotLost) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendGenerations(*database, "a");
  SubscribeFrom from;
  from.places->emplace(0, CommitPlace{Serial{6}, 0});
  ASSERT_TRUE(database->Delete(Filter::Everything(), {}).ok());
  ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{1}).ok());
  const auto subscription = Subscribe(*database, "#", from);
  Append(*database, {{"b", "0"}});
  EXPECT_EQ(Take(*subscription, 1), Counted(0, 1));
  EXPECT_EQ(subscription->Info().lost, 0U);
}

TEST(Subscription, ALiveOneIsToldOfWhatWentBeforeItCouldBeRead) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  const auto subscription = Subscribe(*database, "#", FromNow(), {10, 1 << 20});
  WaitUntilLive(*subscription);
  AppendCounted(*database, "a", 0, 10);
  AppendCounted(*database, "a", 10, 500);
  ASSERT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
  ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{1}).ok());
  AppendCounted(*database, "a", 500, 501);
  std::vector<Loss> losses;
  std::size_t count = 0;
  for (std::string last; last != "500"; ++count) {
    const auto values = Take(*subscription, 1, kPatience, &losses);
    ASSERT_FALSE(values.empty());
    last = values.back();
    count += values.size() - 1;
  }
  // A commit of which only a part was delivered counts as lost as a whole.
  EXPECT_GE(count + subscription->Info().lost, 501U);
  EXPECT_LE(subscription->Info().lost, 500U) << "the generation had no more";
  EXPECT_FALSE(losses.empty());
}

TEST(Subscription, ClosingEndsACallThatWaits) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  const auto subscription = Subscribe(*database, "#");
  std::thread waiting([&] {
    const auto delivery = subscription->Next(std::nullopt);
    ASSERT_TRUE(delivery.ok());
    EXPECT_FALSE(delivery->has_value());
  });
  std::this_thread::sleep_for(20ms);
  subscription->Close();
  waiting.join();
  EXPECT_TRUE(subscription->closed());
}

TEST(Subscription, ClosingTheDatabaseEndsIt) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendCounted(*database, "a", 0, 5);
  const auto subscription = Subscribe(*database, "#");
  EXPECT_EQ(Take(*subscription, 5), Counted(0, 5));
  std::thread waiting(
      [&] { EXPECT_EQ(subscription->Next(std::nullopt).status().code(), Code::kClosed); });
  std::this_thread::sleep_for(20ms);
  ASSERT_TRUE(database->Close().ok());
  waiting.join();
  EXPECT_EQ(subscription->Info().state, SubscriptionState::kFailed);
}

TEST(Subscription, OfFiltersThatOverlapEachMessageOnce) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  std::vector<Filter> filters;
  for (const char* text : {"a/#", "a/+", "b", "#", "c/d", "+/d", "e"}) {
    filters.push_back(Filter::Parse(text).value());
  }
  filters.erase(filters.begin() + 3);  // '#' covers all others
  const auto subscription = database->subscriptions().Subscribe(filters, {}, {}).value();
  const auto other = Subscribe(*database, "c/#");
  Append(*database, {{"a/d", "0"}, {"x", "no"}, {"b", "1"}, {"c/d", "2"}, {"a", "3"}});
  EXPECT_EQ(Take(*subscription, 4), Counted(0, 4));
  EXPECT_EQ(Take(*other, 1), Counted(2, 3));
}

TEST(Subscription, GivesAsManyAtATimeAsAreWanted) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendCounted(*database, "a", 0, 10);
  const auto subscription = Subscribe(*database, "#");
  std::vector<std::string> values;
  for (std::uint64_t seqno : {3U, 6U, 9U, 10U}) {
    const auto delivery = subscription->Next(kPatience, nullptr, 3).value();
    ASSERT_TRUE(delivery.has_value());
    EXPECT_EQ(delivery->seqno, seqno);
    for (std::size_t row = 0; row < delivery->batch->size(); ++row) {
      values.emplace_back(delivery->batch->value(row));
    }
    EXPECT_EQ(subscription->Info().waiting, 10 - seqno);
  }
  EXPECT_EQ(values, Counted(0, 10));
  EXPECT_EQ(subscription->Info().waiting_bytes, 0U);
}

// Writers append, rotate and flush. Subscribers come, are slow, pause, leave and go on. Each must
// get every message of its filter once, and those of a topic in their order.
TEST(Subscription, EachMessageOnceAndInOrderWhateverHappens) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db", 2);
  constexpr int kWriters = 2;
  constexpr int kCommits = 150;
  constexpr int kEach = 7;  // messages of a commit, each of another topic
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&, writer] {
      for (int commit = 0; commit < kCommits; ++commit) {
        std::vector<std::pair<std::string, std::string>> messages;
        for (int i = 0; i < kEach; ++i) {
          messages.emplace_back("w/" + std::to_string(writer) + "/" + std::to_string(i),
                                std::to_string(commit));
        }
        Append(*database, messages);
        if (commit % 40 == 20) {
          EXPECT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
        }
        if (commit % 50 == 30) {
          EXPECT_TRUE(database->Flush().ok());
        }
      }
    });
  }
  const std::vector<std::string> filters{"#", "w/0/#", "w/+/3", "w/1/4",
                                         "#", "w/#",   "+/+/5", "w/0/1"};
  for (std::size_t reader = 0; reader < filters.size(); ++reader) {
    threads.emplace_back([&, reader] {
      const Filter filter = Filter::Parse(filters[reader]).value();
      std::map<std::string, int> seen;
      std::size_t expected = 0;
      for (int writer = 0; writer < kWriters; ++writer) {
        for (int i = 0; i < kEach; ++i) {
          const std::string topic = "w/" + std::to_string(writer) + "/" + std::to_string(i);
          if (filter.Matches(topic)) expected += kCommits;
        }
      }
      std::size_t count = 0;
      SubscribeFrom from;
      const SubscribeWindow window{1 + reader * 5, 1 << 20};
      while (count < expected) {
        auto subscription = Subscribe(*database, filters[reader], from, window);
        for (int rounds = 0; rounds < 40 && count < expected; ++rounds) {
          const auto delivery = subscription->Next(kPatience);
          ASSERT_TRUE(delivery.ok() && delivery->has_value()) << count << " of " << expected;
          for (std::size_t row = 0; row < (*delivery)->batch->size(); ++row) {
            int& next = seen[std::string((*delivery)->batch->topic(row))];
            ASSERT_EQ((*delivery)->batch->value(row), std::to_string(next));
            ++next;
          }
          count += (*delivery)->batch->size();
          (*from.places)[(*delivery)->shard] = (*delivery)->next;
          ASSERT_TRUE(subscription->Acknowledge((*delivery)->seqno).ok());
          if (rounds % 7 == 3) {
            subscription->Pause();
            std::this_thread::sleep_for(1ms);
            subscription->Resume();
          }
        }
      }
      EXPECT_EQ(count, expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(database->subscriptions().GetStats()->subscriptions, 0U);
}

// Reads so many messages of the only stream of generation 1 that the filter finds, and returns the
// iterator behind them.
Iterator ReadOf(const Database& database, const std::string& filter, std::size_t count) {
  const Filter wanted = Filter::Parse(filter).value();
  const Stream stream = database.Streams(wanted, {}).value().front();
  EXPECT_EQ(stream.slab.generation, Generation{1});
  const Iterator at = database.NewIterator(stream, wanted, {}).value();
  Page page = database.Next(at, {count, 1 << 20}).value();
  EXPECT_EQ(page.batch->size(), count);
  return page.iterator;
}

TEST(Subscription, LeavesOutWhatIteratorsHaveGiven) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendCounted(*database, "a", 0, 10);
  AppendCounted(*database, "b", 100, 110);
  SubscribeFrom from;
  from.given = {ReadOf(*database, "a", 7), ReadOf(*database, "b", 10)};
  AppendCounted(*database, "b", 110, 120);
  const auto whole = Subscribe(*database, "#", {}, {100, 1 << 20});
  const auto rest = Subscribe(*database, "#", from, {100, 1 << 20});
  EXPECT_EQ(Take(*whole, 30).size(), 30U) << "others get everything";
  std::vector<std::string> expected = Counted(7, 10);
  for (const std::string& value : Counted(110, 120)) expected.push_back(value);
  EXPECT_EQ(Take(*rest, 13), expected);
  AppendCounted(*database, "a", 10, 20);
  EXPECT_EQ(Take(*rest, 10), Counted(10, 20));
  EXPECT_EQ(Take(*whole, 10), Counted(10, 20));
  EXPECT_TRUE(TakeAll(*rest).empty());
  EXPECT_EQ(rest->Info().lost, 0U);
}

TEST(Subscription, GoesOnFromItsPlacesWithoutWhatIteratorsHaveGiven) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  for (int i = 0; i < 6; ++i) {
    Append(*database, {{"a", std::to_string(2 * i)}, {"b", std::to_string(2 * i + 1)}});
  }
  SubscribeFrom from;
  from.given = {ReadOf(*database, "a", 4)};
  Append(*database, {{"a", "12"}});
  std::vector<std::string> values;
  while (values.size() < 9) {  // a subscription for each message
    const auto subscription = Subscribe(*database, "#", from, {1, 1 << 20});
    const auto delivery = subscription->Next(kPatience).value();
    ASSERT_TRUE(delivery.has_value());
    values.emplace_back(delivery->batch->value(0));
    (*from.places)[delivery->shard] = delivery->next;
  }
  EXPECT_EQ(values, (std::vector<std::string>{"1", "3", "5", "7", "8", "9", "10", "11", "12"}));
}

TEST(Subscription, TellsWhatWasDroppedAndIteratorsHadStillToGive) {
  const TestDirectory directory;
  const auto database = OpenOk(directory / "db");
  AppendCounted(*database, "a", 0, 10);
  AppendCounted(*database, "b", 10, 15);
  const Iterator within = ReadOf(*database, "a", 3);
  Iterator a = ReadOf(*database, "a", 10);
  Iterator b = ReadOf(*database, "b", 5);
  for (Iterator* at : {&a, &b}) {
    const Page page = database->Next(*at, {1, 1'000}).value();
    EXPECT_TRUE(page.batch->empty());
    *at = page.iterator;
  }
  ASSERT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
  AppendCounted(*database, "a", 20, 30);
  ASSERT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
  AppendCounted(*database, "a", 30, 31);
  ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{1}).ok());
  const auto lost = [&](const std::vector<Iterator>& given) {
    SubscribeFrom from;
    from.given = given;
    const auto subscription = Subscribe(*database, "#", from, {100, 1 << 20});
    std::vector<Loss> losses;
    const std::vector<std::string> values = Take(*subscription, 11, kPatience, &losses);
    EXPECT_EQ(values.front(), "20");
    EXPECT_EQ(values.back(), "30");
    std::uint64_t messages = 0;
    for (const Loss& loss : losses) {
      EXPECT_EQ(loss.generation, Generation{1});
      messages += loss.messages;
    }
    return messages;
  };
  EXPECT_EQ(lost({a, b}), 0U) << "everything was given before";
  EXPECT_EQ(lost({a}), 5U) << "nobody has read b";
  EXPECT_EQ(lost({within, b}), 10U) << "at most";
  EXPECT_EQ(lost({}), 0U) << "a new reader has lost nothing";
  ASSERT_TRUE(database->upkeep().DropSlab(0, "#", Generation{2}).ok());
  SubscribeFrom from;
  from.given = {a, b};
  const auto subscription = Subscribe(*database, "#", from);
  EXPECT_EQ(NextLoss(*subscription).messages, 10U) << "of the generation behind them";
}

TEST(Subscription, FailsIfWhatIteratorsHaveGivenIsMergedMeanwhile) {
  const TestDirectory directory;
  OpenOptions options;
  options.schema.retention = {{"#", 0us, 0, 1us, 5}};
  options.maintenance_interval = 0us;
  const auto database = Database::Open(directory / "db", options).value();
  AppendCounted(*database, "a", 0, 10);
  SubscribeFrom from;
  from.given = {ReadOf(*database, "a", 3)};
  const auto subscription = Subscribe(*database, "#", from, {1, 1 << 20});
  const auto first = subscription->Next(kPatience).value();
  EXPECT_EQ(first->batch->value(0), "3");
  ASSERT_TRUE(database->upkeep().Maintain(WallTime(4'000'000'000s)).ok());
  EXPECT_EQ(database->subscriptions().Subscribe({Filter::Everything()}, from, {}).status().code(),
            Code::kNotFound);
  ASSERT_TRUE(subscription->Acknowledge(first->seqno).ok());
  EXPECT_EQ(subscription->Next(kPatience).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace topicdb
