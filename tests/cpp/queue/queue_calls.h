// Calls of a queue that must not fail, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topicdb/queue.h"

namespace topicdb {

inline std::unique_ptr<Queue> OpenQueue(const std::string& path, QueueOptions options) {
  auto queue = Queue::Open(path, options);
  EXPECT_TRUE(queue.ok()) << queue.status().message();
  return std::move(queue).value();
}

inline QueueReceipt Append(Queue& queue, const std::vector<std::string>& items) {
  const std::vector<std::string_view> views(items.begin(), items.end());
  auto receipt = queue.Append(views);
  EXPECT_TRUE(receipt.ok()) << receipt.status().message();
  return receipt.ok() ? *receipt : QueueReceipt{};
}

// Appends items that have these weights.
inline QueueReceipt Weigh(Queue& queue, const std::vector<std::string>& items,
                          const std::vector<std::uint64_t>& weights) {
  const std::vector<std::string_view> views(items.begin(), items.end());
  auto receipt = queue.Append(views, std::nullopt, nullptr, weights);
  EXPECT_TRUE(receipt.ok()) << receipt.status().message();
  return receipt.ok() ? *receipt : QueueReceipt{};
}

// Returns the default cursor.
inline std::shared_ptr<QueueCursor> Main(Queue& queue) {
  return queue.Cursor(std::string(kDefaultCursor)).value();
}

}  // namespace topicdb
