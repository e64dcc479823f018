// Helpers for tests of the subscriptions of a database.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "test_directory.h"
#include "topicdb/database.h"
#include "topicdb/subscription.h"

namespace topicdb {

// The longest wait for something that must come. Only a test that fails waits this long.
inline constexpr auto kPatience = std::chrono::minutes(5);

inline std::unique_ptr<Database> OpenOk(const std::string& path, std::uint32_t shards = 1) {
  OpenOptions options;
  options.schema.shards = shards;
  auto database = Database::Open(path, options);
  EXPECT_TRUE(database.ok()) << database.status().message();
  return std::move(database).value();
}

inline void Append(Database& database,
                   const std::vector<std::pair<std::string, std::string>>& messages,
                   std::int64_t timestamp = kAssignTimestamp) {
  std::vector<MessageView> views;
  for (const auto& [topic, value] : messages) views.push_back({topic, timestamp, value});
  const auto receipt = database.Append(views);
  ASSERT_TRUE(receipt.ok()) << receipt.status().message();
}

inline void AppendCounted(Database& database, const std::string& topic, int first, int last) {
  std::vector<std::pair<std::string, std::string>> messages;
  for (int i = first; i < last; ++i) messages.emplace_back(topic, std::to_string(i));
  Append(database, messages);
}

inline std::unique_ptr<Subscription> Subscribe(Database& database, const std::string& filter,
                                               const SubscribeFrom& from = {},
                                               const SubscribeWindow& window = {}) {
  auto subscription =
      database.subscriptions().Subscribe({Filter::Parse(filter).value()}, from, window);
  EXPECT_TRUE(subscription.ok()) << subscription.status().message();
  return std::move(subscription).value();
}

inline SubscribeFrom FromNow() {
  SubscribeFrom from;
  from.places.reset();
  return from;
}

// Takes and acknowledges messages until there are `count` of them, or nothing comes. Returns their
// values, and adds the losses that come between them to `losses`.
inline std::vector<std::string> Take(Subscription& subscription, std::size_t count,
                                     std::chrono::milliseconds timeout = kPatience,
                                     std::vector<Loss>* losses = nullptr) {
  std::vector<std::string> values;
  while (values.size() < count) {
    const auto delivery = subscription.Next(timeout);
    EXPECT_TRUE(delivery.ok()) << delivery.status().message();
    if (!delivery.ok() || !delivery->has_value()) break;
    if ((*delivery)->loss.has_value()) {
      EXPECT_TRUE((*delivery)->batch->empty());
      if (losses != nullptr) losses->push_back(*(*delivery)->loss);
      continue;
    }
    for (std::size_t row = 0; row < (*delivery)->batch->size(); ++row) {
      values.emplace_back((*delivery)->batch->value(row));
    }
    EXPECT_TRUE(subscription.Acknowledge((*delivery)->seqno).ok());
  }
  return values;
}

inline void WaitUntilLive(const Subscription& subscription) {
  SubscriptionState state = subscription.Info().state;
  while (state != SubscriptionState::kLive) {
    ASSERT_NE(state, SubscriptionState::kFailed);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    state = subscription.Info().state;
  }
}

// Takes and acknowledges all messages that were committed before.
inline std::vector<std::string> TakeAll(Subscription& subscription) {
  WaitUntilLive(subscription);  // then it has read all that is stored
  std::vector<std::string> values;
  while (true) {
    std::vector<std::string> more = Take(subscription, 1, std::chrono::milliseconds(10));
    if (more.empty()) return values;
    values.insert(values.end(), more.begin(), more.end());
  }
}

inline std::vector<std::string> Counted(int first, int last) {
  std::vector<std::string> values;
  for (int i = first; i < last; ++i) values.push_back(std::to_string(i));
  return values;
}

// Returns everything that is stored and matches, as a new subscription gets it.
inline std::vector<std::string> TakeAll(Database& database, const std::string& filter) {
  const auto subscription = Subscribe(database, filter, {}, {1 << 20, 1 << 30});
  WaitUntilLive(*subscription);
  return Take(*subscription, subscription->Info().waiting);
}

// Appends 1,000 messages to each of the generations 1 to 3, in ten commits. Those of generation 1
// have the serials 1 to 10, and so on.
inline void AppendGenerations(Database& database, const std::string& topic) {
  for (int generation = 0; generation < 3; ++generation) {
    for (int i = 0; i < 10; ++i) {
      const int first = generation * 1'000 + i * 100;
      AppendCounted(database, topic, first, first + 100);
    }
    ASSERT_TRUE(database.upkeep().Rotate(std::nullopt).ok());
  }
}

}  // namespace topicdb
