// Brings messages into the order of their commits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "layout/slab_salvage.h"
#include "topicdb/status.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// Takes messages in any order and hands them out in the order of commits, as many at a time as its
// memory holds. So messages that take more memory come in several runs, each of which is in that
// order. Whoever reads a slab that keeps no such order makes one and destroys it. Not thread-safe.
class RowSorter {
 public:
  using Take = std::function<Status(const SalvagedRow&)>;
  // About the memory that a sorter takes.
  static constexpr std::size_t kBytesMax = std::size_t{32} << 20;

  explicit RowSorter(Take take, std::size_t bytes_max = kBytesMax)
      : take_(std::move(take)), bytes_max_(bytes_max) {}

  // Adds a message, and copies it. Hands out all messages if the memory is full. Returns the error
  // of `take`.
  Status Add(const SalvagedRow& row);
  // Hands out the messages that are left. Returns the error of `take`.
  Status Finish();

 private:
  // A message whose topic and value begin at `begin` in texts_.
  struct Row {
    std::size_t begin;
    std::uint32_t topic_size;
    std::uint32_t value_size;
    std::int64_t timestamp;
    Serial serial;
    std::uint32_t index;
  };

  const Take take_;
  const std::size_t bytes_max_;
  std::vector<Row> rows_;
  std::string texts_;
};

}  // namespace topicdb
