#include "queue/delivery_state.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace topicdb {
namespace {

Span SpanOf(std::uint64_t first, std::uint64_t count) {
  Span span;
  span.items = {first, count};
  span.bytes = 10 * count;
  return span;
}

TEST(DeliveryState, LowWaterIsTheFirstThatIsOutstanding) {
  DeliveryState state;
  EXPECT_EQ(state.low_water(7), 7U);
  state.Add(SpanOf(1, 3));
  state.Add(SpanOf(4, 3));
  EXPECT_EQ(state.low_water(7), 1U);
  EXPECT_TRUE(state.Ack({4, 3}));
  EXPECT_FALSE(state.Ack({4, 3}));
  EXPECT_EQ(state.low_water(7), 1U);
  EXPECT_TRUE(state.Ack({1, 3}));
  EXPECT_EQ(state.low_water(7), 7U);
  EXPECT_EQ(state.bytes(), 0U);
}

TEST(DeliveryState, PartsOfASpanAreTakenAndAcknowledgedTogetherOrApart) {
  DeliveryState state;
  state.Add(SpanOf(10, 5));
  EXPECT_TRUE(state.Nack({10, 5}));
  state.Take(state.FirstWaiting(), 2, 20, Span::State::kInFlight);
  EXPECT_EQ(state.waiting_items(), 3U);
  EXPECT_EQ(state.FirstWaiting()->items, (SequenceRange{12, 3}));
  EXPECT_TRUE(state.Ack({10, 5}));  // the range that was handed out first
  EXPECT_EQ(state.waiting_items() + state.in_flight_items(), 0U);
}

// Compares random histories with a plain map from number to state.
TEST(DeliveryState, RandomHistories) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    DeliveryState state;
    std::map<std::uint64_t, Span::State> model;
    std::vector<SequenceRange> handed_out;
    std::uint64_t next = 1;
    for (int step = 0; step < 300; ++step) {
      switch (random() % 4) {
        case 0: {
          const std::uint64_t count = 1 + random() % 5;
          state.Add(SpanOf(next, count));
          handed_out.push_back({next, count});
          for (std::uint64_t i = 0; i < count; ++i) model[next + i] = Span::State::kInFlight;
          next += count + random() % 2;
          break;
        }
        case 1:
        case 2: {
          if (handed_out.empty()) break;
          const bool ack = random() % 2 == 0;
          const SequenceRange range = handed_out[random() % handed_out.size()];
          ack ? state.Ack(range) : state.Nack(range);
          for (std::uint64_t i = range.first; i < range.end(); ++i) {
            if (ack) model.erase(i);
            if (!ack && model.contains(i)) model[i] = Span::State::kWaiting;
          }
          break;
        }
        default: {
          Span* span = state.FirstWaiting();
          const auto first = std::find_if(model.begin(), model.end(), [](const auto& item) {
            return item.second == Span::State::kWaiting;
          });
          ASSERT_EQ(span == nullptr, first == model.end());
          if (span == nullptr) break;
          ASSERT_EQ(span->items.first, first->first);
          const std::uint64_t count = 1 + random() % span->items.count;
          const SequenceRange taken{span->items.first, count};
          state.Take(span, count, 10 * count, Span::State::kInFlight);
          handed_out.push_back(taken);
          for (std::uint64_t i = taken.first; i < taken.end(); ++i) {
            model[i] = Span::State::kInFlight;
          }
        }
      }
      ASSERT_EQ(state.low_water(next), model.empty() ? next : model.begin()->first);
      ASSERT_EQ(state.waiting_items() + state.in_flight_items(), model.size());
      ASSERT_EQ(state.bytes(), 10 * model.size());
    }
  }
}

}  // namespace
}  // namespace topicdb
