#include "queue/consumer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/bytes/coding.h"
#include "queue/bad_log.h"
#include "queue/log_items.h"

namespace topicdb {
namespace {

using Ranges = std::vector<SequenceRange>;

// An append takes 32 bytes, and each item of one letter 2.
constexpr std::uint64_t kOne = 34;

Items ItemsOf(const Delivery& delivery) { return {delivery.items.begin(), delivery.items.end()}; }

class ConsumerTest : public testing::Test {
 protected:
  ConsumerTest() { EXPECT_TRUE(consumer_.Attach(log_, /*moved=*/true, &report_).ok()); }
  void Append(const Items& items) { AppendTo(*log_, items); }
  void AppendEach(const Items& items) {
    for (const std::string& item : items) Append({item});
  }
  // Appends items that weigh these.
  void Weigh(const Items& items, const std::vector<std::uint64_t>& weights) {
    const std::vector<std::string_view> views(items.begin(), items.end());
    EXPECT_TRUE(log_->Append({views, weights}, /*through=*/true).ok());
  }
  Delivery Pop(const PopLimits& limits = {}) {
    Delivery delivery;
    const Status status = consumer_.Pop(limits, &delivery, &report_);
    EXPECT_TRUE(status.ok()) << status.message();
    return delivery;
  }
  bool Ack(std::uint64_t first, std::uint64_t count) {
    return consumer_.Ack(Ranges{{first, count}});
  }
  bool Nack(std::uint64_t first, std::uint64_t count) {
    return consumer_.Nack(Ranges{{first, count}});
  }

  const std::shared_ptr<BadLog> log_ = std::make_shared<BadLog>();
  Consumer consumer_{"main", 1};
  ReadReport report_;
};

TEST_F(ConsumerTest, PopsItemsInOrderAndTellsTheirNumbers) {
  EXPECT_TRUE(Pop().empty());
  Append({"a", "b"});
  Append({"c"});
  EXPECT_EQ(consumer_.stats().waiting, 3U) << "those that were never popped";
  const Delivery popped = Pop();
  EXPECT_EQ(ItemsOf(popped), (Items{"a", "b", "c"}));
  EXPECT_EQ(popped.ranges, (Ranges{{1, 3}}));
  EXPECT_EQ(popped.owners.size(), 2U) << "one for each append";
  EXPECT_TRUE(Pop().empty());
  const CursorStats stats = consumer_.stats();
  EXPECT_EQ(stats.waiting, 0U);
  EXPECT_EQ(stats.in_flight, 3U);
  EXPECT_EQ(stats.bytes, kOne + 2 + kOne);
  EXPECT_EQ(stats.next_sequence, 4U);
  EXPECT_EQ(stats.low_water, 1U);
}

TEST_F(ConsumerTest, TakesAsMuchAsTheLimitsAdmit) {
  Append({"longest", "long", "more", "x"});
  EXPECT_EQ(ItemsOf(Pop({10, 3, false})), (Items{"longest"})) << "at least one, however long";
  EXPECT_EQ(ItemsOf(Pop({10, 6, false})), (Items{"long"})) << "the next would exceed the limit";
  EXPECT_EQ(ItemsOf(Pop({1, 6, false})), (Items{"more"}));
  Append({"long", "longer", "x"});
  EXPECT_EQ(ItemsOf(Pop({10, 6, true})), (Items{"x", "long", "longer"})) << "reaches the limit";
}

TEST_F(ConsumerTest, AHeaderCountsWithTheFirstItemOfItsFrame) {
  Append({"a", "b", "c"});
  Pop({1});
  EXPECT_EQ(consumer_.in_flight_bytes(), kOne);
  Pop({1});
  EXPECT_EQ(consumer_.in_flight_bytes(), kOne + 2);
  EXPECT_EQ(consumer_.stats().bytes, kOne + 4);
}

TEST_F(ConsumerTest, LowWaterWaitsForTheOldestThatIsNotAcknowledged) {
  AppendEach({"a", "b", "c"});
  Pop();
  EXPECT_TRUE(Ack(2, 1));
  EXPECT_FALSE(Ack(2, 1));
  EXPECT_EQ(consumer_.low_water(), 1U);
  EXPECT_EQ(consumer_.acknowledged_bytes(), kOne);
  EXPECT_TRUE(Ack(1, 1));
  EXPECT_EQ(consumer_.low_water(), 3U);
  EXPECT_EQ(consumer_.acknowledged_bytes(), 2 * kOne);
  EXPECT_EQ(consumer_.in_flight_bytes(), kOne);
}

TEST_F(ConsumerTest, WhatComesBackIsPoppedBeforeNewerItems) {
  AppendEach({"a", "b"});
  Pop();
  Append({"c"});
  EXPECT_TRUE(Nack(2, 1));
  EXPECT_FALSE(Nack(2, 1)) << "it is not in flight";
  const Delivery again = Pop();
  EXPECT_EQ(ItemsOf(again), (Items{"b", "c"}));
  EXPECT_EQ(again.ranges, (Ranges{{2, 2}}));
}

TEST_F(ConsumerTest, NewerItemsDoNotOvertakeOneThatTheLimitKeepsBack) {
  AppendEach({"a", "longer"});
  Pop();
  consumer_.Nack(Ranges{{1, 1}, {2, 1}});
  Append({"b"});
  EXPECT_EQ(ItemsOf(Pop({10, 4, false})), (Items{"a"}));
  EXPECT_EQ(ItemsOf(Pop()), (Items{"longer", "b"}));
}

TEST_F(ConsumerTest, PutBackKeepsTheFirstItems) {
  Append({"a", "b", "c"});
  Append({"d", "e"});
  PopLimits limits;
  limits.stop_before = [](std::string_view) { return false; };
  Delivery popped = Pop(limits);
  EXPECT_EQ(popped.counted, (std::vector<std::uint64_t>{2, 2, 2, 2, 2}));
  consumer_.PutBack(2, &popped);
  EXPECT_EQ(ItemsOf(popped), (Items{"a", "b"}));
  EXPECT_EQ(popped.ranges, (Ranges{{1, 2}}));
  EXPECT_EQ(consumer_.in_flight_bytes(), kOne + 2);
  EXPECT_EQ(consumer_.stats().waiting, 3U);
  EXPECT_EQ(consumer_.stats().bytes, kOne + 4 + kOne + 2);
  EXPECT_TRUE(consumer_.Ack(popped.ranges)) << "the range that was cut is one that was popped";
  popped = Pop(limits);
  EXPECT_EQ(ItemsOf(popped), (Items{"c", "d", "e"}));
  consumer_.PutBack(0, &popped);
  EXPECT_TRUE(popped.ranges.empty());
  EXPECT_EQ(consumer_.in_flight_bytes(), 0U);
  EXPECT_EQ(consumer_.low_water(), 3U);
}

TEST_F(ConsumerTest, PeekTakesNothing) {
  EXPECT_EQ(consumer_.Peek(&report_).value(), std::nullopt);
  AppendEach({"a", "b"});
  EXPECT_EQ(consumer_.Peek(&report_).value(), "a");
  EXPECT_EQ(ItemsOf(Pop({1})), (Items{"a"}));
  EXPECT_EQ(consumer_.Peek(&report_).value(), "b");
  Nack(1, 1);
  EXPECT_EQ(consumer_.Peek(&report_).value(), "a");
  EXPECT_EQ(consumer_.stats().waiting, 2U);
}

TEST_F(ConsumerTest, KnowsWhetherSomethingWaits) {
  EXPECT_FALSE(consumer_.HasWaiting());
  Append({"a"});
  EXPECT_TRUE(consumer_.HasWaiting());
  Pop();
  EXPECT_FALSE(consumer_.HasWaiting());
  Nack(1, 1);
  EXPECT_TRUE(consumer_.HasWaiting());
}

TEST_F(ConsumerTest, DropsTheOldestThatWaitButNothingInFlight) {
  AppendEach({"a", "b", "c", "d"});
  Pop({2});
  Nack(2, 1);
  ASSERT_TRUE(
      consumer_.DropOldest(kOne + 1, DropReason::kOverflow, /*keeps_newest=*/false, &report_).ok());
  ASSERT_EQ(report_.drops.size(), 1U) << "drops that follow each other are told together";
  EXPECT_EQ(report_.drops[0].reason, DropReason::kOverflow);
  EXPECT_EQ(report_.drops[0].cursor, "main");
  EXPECT_EQ(report_.drops[0].items, (SequenceRange{2, 2}));
  EXPECT_EQ(report_.drops[0].bytes, 2 * kOne);
  const CursorStats stats = consumer_.stats();
  const auto overflow = static_cast<std::size_t>(DropReason::kOverflow);
  EXPECT_EQ(stats.dropped_items[overflow], 2U);
  EXPECT_EQ(stats.dropped_bytes[overflow], 2 * kOne);
  EXPECT_EQ(stats.low_water, 1U);
  EXPECT_EQ(ItemsOf(Pop()), (Items{"d"}));
}

TEST_F(ConsumerTest, TheNewestItemCanBeKept) {
  Append({"a", "b", "c"});
  AppendEach({"d", "e"});
  Pop({2});
  EXPECT_TRUE(Nack(1, 2));
  const auto drop = [&] {
    return consumer_.DropOldest(1'000, DropReason::kOverflow, /*keeps_newest=*/true, &report_);
  };
  ASSERT_TRUE(drop().ok());
  EXPECT_EQ(consumer_.stats().waiting, 1U);
  ASSERT_TRUE(drop().ok());
  EXPECT_EQ(ItemsOf(Pop()), (Items{"e"}));
  EXPECT_EQ(consumer_.stats().dropped_items[static_cast<std::size_t>(DropReason::kOverflow)], 4U);
  ASSERT_TRUE(drop().ok()) << "nothing waits";
}

TEST_F(ConsumerTest, DropsOfAnotherCursorAreToldApart) {
  AppendEach({"a", "b"});
  Consumer other{"other", 2};
  ASSERT_TRUE(other.Attach(log_, /*moved=*/true, &report_).ok());
  for (Consumer* const consumer : {&consumer_, &other}) {
    ASSERT_TRUE(
        consumer->DropOldest(1, DropReason::kOverflow, /*keeps_newest=*/false, &report_).ok());
  }
  ASSERT_EQ(report_.drops.size(), 2U) << "the second begins where the first ends";
  EXPECT_EQ(report_.drops[0].cursor, "main");
  EXPECT_EQ(report_.drops[0].items, (SequenceRange{1, 1}));
  EXPECT_EQ(report_.drops[1].cursor, "other");
  EXPECT_EQ(report_.drops[1].items, (SequenceRange{2, 1}));
}

TEST_F(ConsumerTest, WeightsCountInsteadOfBytes) {
  Weigh({"a", "longer", "c", "d"}, {100, 5, 0, 7});
  EXPECT_EQ(consumer_.stats().bytes, 112U) << "no header counts";
  EXPECT_EQ(ItemsOf(Pop({10, 104, false})), (Items{"a"}));
  EXPECT_EQ(consumer_.in_flight_bytes(), 100U);
  EXPECT_EQ(ItemsOf(Pop({10, 5, false})), (Items{"longer"})) << "nothing is left of the limit";
  EXPECT_EQ(consumer_.in_flight_bytes(), 105U);
  EXPECT_TRUE(Ack(1, 1));
  EXPECT_EQ(consumer_.acknowledged_bytes(), 100U);
  EXPECT_TRUE(Nack(2, 1));
  ASSERT_TRUE(
      consumer_.DropOldest(6, DropReason::kOverflow, /*keeps_newest=*/false, &report_).ok());
  ASSERT_EQ(report_.drops.size(), 1U);
  EXPECT_EQ(report_.drops[0].items, (SequenceRange{2, 3}));
  EXPECT_EQ(report_.drops[0].bytes, 12U);
  EXPECT_EQ(consumer_.acknowledged_bytes(), 112U);
}

TEST_F(ConsumerTest, WhatIsPutBackKeepsItsWeight) {
  Weigh({"a", "b", "c"}, {10, 20, 30});
  Weigh({"d"}, {40});
  PopLimits limits;
  limits.stop_before = [](std::string_view) { return false; };
  Delivery popped = Pop(limits);
  EXPECT_EQ(popped.counted, (std::vector<std::uint64_t>{10, 20, 30, 40}));
  consumer_.PutBack(1, &popped);
  EXPECT_EQ(consumer_.in_flight_bytes(), 10U);
  EXPECT_EQ(consumer_.stats().bytes, 100U);
  const auto stored = Consumer::Decode(consumer_.Encode()).value();
  EXPECT_EQ(stored->stored_stats().bytes, 100U);
}

TEST_F(ConsumerTest, PurgeDropsAllThatThereIs) {
  AppendEach({"a", "b", "c"});
  Pop({1});
  consumer_.Purge(&report_);
  ASSERT_EQ(report_.drops.size(), 1U);
  EXPECT_EQ(report_.drops[0].reason, DropReason::kPurge);
  EXPECT_EQ(report_.drops[0].items, (SequenceRange{1, 3}));
  EXPECT_EQ(report_.drops[0].bytes, 3 * kOne);
  EXPECT_FALSE(Ack(1, 1));
  EXPECT_EQ(consumer_.low_water(), 4U);
  EXPECT_EQ(consumer_.acknowledged_bytes(), 3 * kOne);
  EXPECT_FALSE(consumer_.HasWaiting());
  Append({"d"});
  EXPECT_EQ(Pop().ranges, (Ranges{{4, 1}}));
}

TEST_F(ConsumerTest, ItemsThatCannotBeReadAreDroppedAndTold) {
  AppendEach({"a", "b", "c"});
  log_->lost = {2, 1};
  const Delivery popped = Pop();
  EXPECT_EQ(ItemsOf(popped), (Items{"a", "c"}));
  EXPECT_EQ(popped.ranges, (Ranges{{1, 1}, {3, 1}}));
  ASSERT_EQ(report_.damage.size(), 1U);
  EXPECT_EQ(report_.damage[0].path, "a file");
  ASSERT_EQ(report_.drops.size(), 1U);
  EXPECT_EQ(report_.drops[0].reason, DropReason::kDamage);
  EXPECT_EQ(report_.drops[0].items, (SequenceRange{2, 1}));
  EXPECT_EQ(consumer_.stats().waiting, 0U);
  EXPECT_TRUE(consumer_.Ack(popped.ranges));
  EXPECT_EQ(consumer_.low_water(), 4U);
  EXPECT_EQ(consumer_.acknowledged_bytes(), 3 * kOne);
}

TEST_F(ConsumerTest, ItemsThatComeBackMayBeLostMeanwhile) {
  Append({"a", "b"});
  Append({"c"});
  Pop();
  consumer_.Nack(Ranges{{1, 3}});
  log_->lost = {1, 2};
  EXPECT_EQ(consumer_.Peek(&report_).value(), "c");
  ASSERT_EQ(report_.drops.size(), 1U);
  EXPECT_EQ(report_.drops[0].items, (SequenceRange{1, 2}));
  EXPECT_EQ(report_.drops[0].bytes, kOne + 2);
  EXPECT_EQ(consumer_.low_water(), 3U);
  EXPECT_EQ(consumer_.stats().waiting, 1U);
}

TEST_F(ConsumerTest, AnErrorBehindSomeItemsIsReturnedByTheNextCall) {
  AppendEach({"a", "b"});
  log_->fails_from = 2;
  EXPECT_EQ(ItemsOf(Pop()), (Items{"a"}));
  Delivery none;
  EXPECT_EQ(consumer_.Pop({}, &none, &report_).code(), Code::kStorage);
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(consumer_.Peek(&report_).status().code(), Code::kStorage);
  log_->fails_from = UINT64_MAX;
  EXPECT_EQ(ItemsOf(Pop()), (Items{"b"}));
}

// The items may be in other frames there.
TEST_F(ConsumerTest, GoesOnInAnotherLog) {
  Append({"a", "b"});
  AppendEach({"c", "d"});
  Pop({3});
  consumer_.Nack(Ranges{{1, 3}});
  const auto other = std::make_shared<MemoryLog>(1);
  AppendTo(*other, {"a"});
  AppendTo(*other, {"b", "c", "d"});
  ASSERT_TRUE(consumer_.Attach(other, /*moved=*/true, &report_).ok());
  const Delivery popped = Pop();
  EXPECT_EQ(ItemsOf(popped), (Items{"a", "b", "c", "d"}));
  EXPECT_EQ(popped.ranges, (Ranges{{1, 4}}));
  EXPECT_TRUE(report_.drops.empty());
}

TEST_F(ConsumerTest, KnowsWhatHasChanged) {
  EXPECT_TRUE(consumer_.TakeDirty()) << "a new one was never stored";
  EXPECT_FALSE(consumer_.TakeDirty());
  Append({"a"});
  EXPECT_FALSE(consumer_.TakeDirty()) << "an append is not its business";
  Pop();
  EXPECT_TRUE(consumer_.TakeDirty());
  EXPECT_FALSE(Ack(7, 1));
  EXPECT_FALSE(consumer_.TakeDirty());
  EXPECT_TRUE(Ack(1, 1));
  EXPECT_TRUE(consumer_.TakeDirty());
}

TEST_F(ConsumerTest, WhatIsNotAcknowledgedComesAgainAfterDecoding) {
  AppendEach({"a", "b", "c", "d"});
  Pop({3});
  Ack(2, 1);
  const auto decoded = Consumer::Decode(consumer_.Encode()).value();
  EXPECT_EQ(decoded->name(), "main");
  EXPECT_NE(decoded->id(), consumer_.id());
  EXPECT_FALSE(decoded->TakeDirty());
  const CursorStats stored = decoded->stored_stats();
  EXPECT_EQ(stored.waiting, 2U) << "without a log, nothing is known of \"d\"";
  EXPECT_EQ(stored.in_flight, 0U);
  EXPECT_EQ(stored.next_sequence, 4U);
  EXPECT_EQ(stored.low_water, 1U);
  ASSERT_TRUE(decoded->Attach(log_, /*moved=*/false, &report_).ok());
  Delivery popped;
  ASSERT_TRUE(decoded->Pop({}, &popped, &report_).ok());
  EXPECT_EQ(ItemsOf(popped), (Items{"a", "c", "d"}));
  EXPECT_EQ(popped.ranges, (Ranges{{1, 1}, {3, 2}}));
}

// Returns the stored form of a cursor whose next item has the number `next`.
std::string Stored(std::uint64_t next, const Ranges& spans) {
  std::string out;
  AppendPrefixed(&out, "main");
  AppendVarint(&out, next);
  out.append(3, '\0');
  AppendVarint(&out, spans.size());
  for (const SequenceRange& items : spans) {
    AppendVarint(&out, items.first);
    AppendVarint(&out, items.count);
    out.append(4, '\0');
  }
  return out;
}

TEST(Consumer, DecodesNothingThatIsMalformed) {
  const std::string whole = Stored(5, {{1, 2}, {3, 2}});
  ASSERT_TRUE(Consumer::Decode(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(Consumer::Decode(whole.substr(0, size)).status().code(), Code::kCorruption) << size;
  }
  EXPECT_EQ(Consumer::Decode(whole + "x").status().code(), Code::kCorruption);
  for (const auto& [next, spans] : std::vector<std::pair<std::uint64_t, Ranges>>{
           {0, {}},                // numbers begin with 1
           {5, {{0, 1}}},          // those of items, too
           {5, {{2, 0}}},          // a span has items
           {5, {{1, 2}, {2, 1}}},  // spans do not overlap
           {5, {{3, 1}, {1, 1}}},  // and are in order
           {5, {{4, 2}}},          // what was popped is before what was not
           {5, {{6, 1}}},          // all of it
       }) {
    EXPECT_EQ(Consumer::Decode(Stored(next, spans)).status().code(), Code::kCorruption) << next;
  }
}

TEST(Consumer, GivesUpWhatTheLogHasNoLonger) {
  const auto consumer = Consumer::Decode(Stored(4, {{1, 1}, {3, 1}})).value();
  ReadReport report;
  consumer->LoseBefore(3, "a path", &report);
  ASSERT_EQ(report.damage.size(), 1U) << "2 is acknowledged, and 3 is there";
  EXPECT_EQ(report.damage[0].path, "a path");
  EXPECT_EQ(report.damage[0].first_sequence, 1U);
  EXPECT_EQ(report.damage[0].end_sequence, 2U);
  EXPECT_EQ(consumer->low_water(), 3U);
  consumer->LoseBefore(6, "a path", &report);
  ASSERT_EQ(report.drops.size(), 2U);
  EXPECT_EQ(report.drops[1].reason, DropReason::kDamage);
  EXPECT_EQ(report.drops[1].items, (SequenceRange{3, 3})) << "one that came back, two unread";
  EXPECT_EQ(consumer->low_water(), 6U);
}

}  // namespace
}  // namespace topicdb
