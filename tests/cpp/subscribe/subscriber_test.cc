#include "subscribe/subscriber.h"

#include <gtest/gtest.h>

#include <thread>

#include "subscribe/log_parts.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kBytes = std::uint64_t{1} << 20;
constexpr std::size_t kAll = 1'000;

// Returns the messages of the commits from `first` on and before `end`, one of each, 10 bytes each.
Offered Commits(std::uint64_t first, std::uint64_t end, std::uint32_t shard = 3) {
  std::vector<LogRow> rows;
  for (std::uint64_t serial = first; serial < end; ++serial) {
    rows.push_back({At(serial), "topic", 0, "value"});
  }
  return {shard, RowsOf(rows), 0, At(end), false};
}

// Returns what Next has at once; nothing if it would wait.
Result<std::optional<Delivered>> Take(Subscriber* subscriber, std::size_t rows_max = kAll) {
  return subscriber->Next(0us, nullptr, rows_max);
}

std::size_t CountTaken(Subscriber* subscriber, std::size_t rows_max = kAll) {
  const auto delivery = Take(subscriber, rows_max).value();
  return delivery.has_value() ? delivery->batch->size() : 0;
}

TEST(Subscriber, GivesWhatWasOfferedWithItsPlaces) {
  Subscriber subscriber({100, kBytes}, {{3, At(1)}});
  Offered offered = Commits(1, 6);
  offered.begin = 2;
  offered.to = At(9);
  offered.is_live = true;
  EXPECT_EQ(subscriber.Offer(offered), 3U);
  EXPECT_EQ(subscriber.Info().places.at(3), At(1)) << "it was not given yet";
  const auto delivery = Take(&subscriber).value();
  ASSERT_TRUE(delivery.has_value());
  ASSERT_EQ(delivery->batch->size(), 3U);
  EXPECT_EQ(delivery->batch->serial(0), Serial{3});
  EXPECT_EQ(delivery->batch->value(2), "value");
  EXPECT_EQ(delivery->rows, (std::vector<std::uint32_t>{0, 0, 0}));
  EXPECT_EQ(delivery->shard, 3U);
  EXPECT_EQ(delivery->seqno, 3U);
  EXPECT_EQ(delivery->next, At(9));
  EXPECT_TRUE(delivery->is_live);
  EXPECT_FALSE(delivery->loss.has_value());
  EXPECT_EQ(subscriber.Info().places.at(3), At(9));
  EXPECT_FALSE(Take(&subscriber).value().has_value());
}

TEST(Subscriber, GivesNoMoreAtATimeThanIsWanted) {
  Subscriber subscriber({100, kBytes}, {});
  const Offered offered = Commits(1, 6);
  subscriber.Offer(offered);
  const auto first = Take(&subscriber, 2).value();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->batch->size(), 2U);
  EXPECT_EQ(first->seqno, 2U);
  EXPECT_EQ(first->next, At(3)) << "the place of the next message";
  EXPECT_EQ(subscriber.Info().waiting, 3U);
  EXPECT_EQ(subscriber.Info().waiting_bytes, 30U);
  const auto rest = Take(&subscriber, 3).value();
  ASSERT_TRUE(rest.has_value());
  EXPECT_EQ(rest->batch->serial(0), Serial{3});
  EXPECT_EQ(rest->seqno, 5U);
  EXPECT_EQ(rest->next, At(6));
  EXPECT_EQ(subscriber.Info().waiting_bytes, 0U);
}

TEST(Subscriber, WhatIsTakenAsAWholeIsNotCopied) {
  Subscriber subscriber({100, kBytes}, {});
  const Offered offered = Commits(1, 4);
  subscriber.Offer(offered);
  EXPECT_EQ(Take(&subscriber)->value().batch, offered.rows->batch);
}

TEST(Subscriber, TakesNothingMoreOnceItsWindowIsFullUntilAnEighthIsFree) {
  Subscriber subscriber({16, kBytes}, {});
  EXPECT_EQ(subscriber.Offer(Commits(1, 7)), 6U);
  EXPECT_EQ(subscriber.Offer(Commits(7, 20)), 10U);
  EXPECT_EQ(subscriber.Info().state, SubscriptionState::kFull);
  EXPECT_EQ(CountTaken(&subscriber) + CountTaken(&subscriber), 16U);
  EXPECT_FALSE(subscriber.Acknowledge(1).value());
  EXPECT_EQ(subscriber.Offer(Commits(17, 18)), 0U) << "the hub was not told that there is room";
  EXPECT_TRUE(subscriber.Acknowledge(2).value());
  EXPECT_EQ(subscriber.Info().state, SubscriptionState::kLive);
  EXPECT_EQ(subscriber.Offer(Commits(17, 20)), 2U);
}

TEST(Subscriber, AnAcknowledgementOfOneThatIsNotFullTellsNothing) {
  Subscriber subscriber({16, kBytes}, {});
  subscriber.Offer(Commits(1, 17));
  EXPECT_EQ(CountTaken(&subscriber), 16U);
  EXPECT_FALSE(subscriber.Acknowledge(16).value()) << "all that was offered had room";
}

TEST(Subscriber, TakesAsManyBytesAsItsWindowHas) {
  Subscriber subscriber({100, 31}, {});
  EXPECT_EQ(subscriber.Offer(Commits(1, 6)), 3U);
  EXPECT_EQ(CountTaken(&subscriber), 3U);
  EXPECT_FALSE(subscriber.Acknowledge(2).value()) << "what came together is freed together";
  EXPECT_TRUE(subscriber.Acknowledge(3).value());
  EXPECT_EQ(subscriber.Offer(Commits(4, 6)), 2U);
}

TEST(Subscriber, OneMessageThatIsLargerThanTheWindowGoesAlone) {
  Subscriber subscriber({100, 9}, {});
  EXPECT_EQ(subscriber.Offer(Commits(1, 3)), 1U);
  EXPECT_EQ(CountTaken(&subscriber), 1U);
  EXPECT_TRUE(subscriber.Acknowledge(1).value());
  EXPECT_EQ(subscriber.Offer(Commits(2, 3)), 1U);
}

TEST(Subscriber, RefusesAcknowledgementsOfWhatItDidNotGiveOrHas) {
  Subscriber subscriber({100, kBytes}, {});
  subscriber.Offer(Commits(1, 6));
  ASSERT_EQ(CountTaken(&subscriber, 3), 3U);
  const Status early = subscriber.Acknowledge(4).status();
  EXPECT_EQ(early.code(), Code::kInvalidArgument);
  EXPECT_NE(early.message().find("the last was 3"), std::string::npos) << early.message();
  EXPECT_TRUE(subscriber.Acknowledge(2).ok());
  EXPECT_EQ(subscriber.Acknowledge(2).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(subscriber.Acknowledge(1).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(subscriber.Info().acknowledged, 2U);
  EXPECT_EQ(subscriber.Info().delivered, 3U);
}

TEST(Subscriber, ALossComesWhereTheMessagesWouldHaveCome) {
  Subscriber subscriber({100, kBytes}, {});
  subscriber.Offer(Commits(1, 4));
  subscriber.Lose({3, "#", Generation{2}, Serial{9}, 40});
  subscriber.Lose({3, "a/#", Generation{5}, Serial{9}, 2});
  subscriber.Offer(Commits(8, 10));
  EXPECT_EQ(subscriber.Info().lost, 42U);
  EXPECT_EQ(CountTaken(&subscriber, 2), 2U);
  EXPECT_EQ(CountTaken(&subscriber), 1U);
  const auto lost = Take(&subscriber).value();
  ASSERT_TRUE(lost.has_value() && lost->loss.has_value());
  EXPECT_EQ(lost->loss->generation, Generation{2});
  EXPECT_EQ(lost->loss->messages, 40U);
  EXPECT_TRUE(lost->batch->empty());
  EXPECT_EQ(lost->seqno, 3U);
  EXPECT_EQ(lost->shard, 3U);
  EXPECT_EQ(lost->next, At(4)) << "what is lost was behind it";
  EXPECT_EQ(Take(&subscriber)->value().loss->retention_class, "a/#");
  EXPECT_EQ(CountTaken(&subscriber), 2U);
}

TEST(Subscriber, AfterAFailureGivesWhatWaitsAndThenTheError) {
  Subscriber subscriber({100, kBytes}, {});
  subscriber.Offer(Commits(1, 4));
  subscriber.Fail(Corruption("block 7"));
  subscriber.Fail(Closed("a.db is closed"));
  EXPECT_EQ(subscriber.Offer(Commits(4, 5)), 0U);
  EXPECT_EQ(subscriber.Info().state, SubscriptionState::kFailed);
  EXPECT_EQ(CountTaken(&subscriber), 3U);
  for (int i = 0; i < 2; ++i) {
    const Status status = Take(&subscriber).status();
    EXPECT_EQ(status.code(), Code::kCorruption) << "the first error counts";
    EXPECT_EQ(status.message(), "block 7");
  }
}

TEST(Subscriber, GivesAndTakesNothingWhileItIsPaused) {
  Subscriber subscriber({100, kBytes}, {});
  EXPECT_FALSE(subscriber.Resume()) << "it was not paused";
  subscriber.Offer(Commits(1, 4));
  subscriber.Pause();
  subscriber.Pause();
  EXPECT_EQ(subscriber.Info().state, SubscriptionState::kPaused);
  EXPECT_FALSE(Take(&subscriber).value().has_value());
  EXPECT_FALSE(subscriber.Resume()) << "nothing was refused meanwhile";
  EXPECT_EQ(CountTaken(&subscriber, 1), 1U);
  subscriber.Pause();
  EXPECT_EQ(subscriber.Offer(Commits(4, 5)), 0U);
  EXPECT_FALSE(subscriber.Acknowledge(1).value()) << "it is paused still";
  EXPECT_TRUE(subscriber.Resume());
  EXPECT_EQ(subscriber.Offer(Commits(4, 5)), 1U);
  EXPECT_EQ(CountTaken(&subscriber), 2U);
}

TEST(Subscriber, TellsOnceThatItIsReady) {
  Subscriber subscriber({100, kBytes}, {});
  int calls = 0;
  subscriber.OnReady([&] { ++calls; });
  subscriber.Offer(Commits(1, 2));
  subscriber.Offer(Commits(2, 3));
  subscriber.Lose({3, "#", Generation{1}, Serial{9}, 1});
  EXPECT_EQ(calls, 1) << "there was something before";
  int others = 0;
  subscriber.OnReady([&] { ++others; });
  EXPECT_EQ(others, 1) << "there is something already";
  while (Take(&subscriber).value().has_value()) {
  }
  subscriber.Lose({3, "#", Generation{2}, Serial{9}, 1});
  EXPECT_EQ(others, 2);
  EXPECT_TRUE(Take(&subscriber).value().has_value());
  subscriber.Pause();
  subscriber.Lose({3, "#", Generation{3}, Serial{9}, 1});
  EXPECT_EQ(others, 2);
  subscriber.Resume();
  EXPECT_EQ(others, 3);
  EXPECT_TRUE(Take(&subscriber).value().has_value());
  subscriber.Close();
  subscriber.Close();
  EXPECT_EQ(others, 4);
  EXPECT_EQ(calls, 1) << "another function has taken its place";
}

TEST(Subscriber, TellsOfTheFirstErrorAlone) {
  Subscriber subscriber({100, kBytes}, {});
  int calls = 0;
  subscriber.OnReady([&] { ++calls; });
  subscriber.Fail(Corruption("block 7"));
  subscriber.Fail(Corruption("block 8"));
  EXPECT_EQ(calls, 1);
}

TEST(Subscriber, ClosedItGivesAndTakesNothing) {
  Subscriber subscriber({100, kBytes}, {});
  subscriber.Offer(Commits(1, 4));
  subscriber.Close();
  EXPECT_TRUE(subscriber.closed());
  EXPECT_EQ(subscriber.Info().state, SubscriptionState::kClosed);
  EXPECT_EQ(subscriber.Offer(Commits(4, 5)), 0U);
  const auto delivery = subscriber.Next(std::nullopt, nullptr, kAll);
  ASSERT_TRUE(delivery.ok());
  EXPECT_FALSE(delivery->has_value());
}

TEST(Subscriber, KnowsOfWhichShardsSomethingWaits) {
  Subscriber subscriber({100, kBytes}, {{1, At(1)}, {2, At(1)}, {3, At(1)}});
  subscriber.Offer(Commits(1, 3, 1));
  subscriber.Offer(Commits(1, 2, 3));
  std::set<std::uint32_t> waiting;
  EXPECT_EQ(subscriber.Info(&waiting).waiting, 3U);
  EXPECT_EQ(waiting, (std::set<std::uint32_t>{1, 3}));
  EXPECT_EQ(CountTaken(&subscriber), 2U);
  waiting.clear();
  const SubscriptionInfo info = subscriber.Info(&waiting);
  EXPECT_EQ(waiting, std::set<std::uint32_t>{3});
  EXPECT_EQ(info.places, (SubscribeFrom::Places{{1, At(3)}, {2, At(1)}, {3, At(1)}}));
}

TEST(Subscriber, ACallThatWaitsEndsWhenSomethingComesOrItIsInterrupted) {
  Subscriber subscriber({100, kBytes}, {});
  std::thread waiting([&] {
    const auto delivery = subscriber.Next(std::nullopt, nullptr, kAll);
    ASSERT_TRUE(delivery.ok() && delivery->has_value());
    EXPECT_EQ((*delivery)->batch->size(), 2U);
  });
  subscriber.Offer(Commits(1, 3));
  waiting.join();
  EXPECT_EQ(
      subscriber.Next(std::nullopt, [] { return true; }, kAll).status().code(), Code::kInterrupted);
}

}  // namespace
}  // namespace topicdb
