// Finds which of many topic filters match a topic, in one walk over the levels of the topic.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/topic.h"

namespace topicdb {

// Keeps filters and their numbers. An InterestSet owns it. Threads may call Match at the same time,
// but not while another one calls Add.
class FilterTree {
 public:
  // Adds a filter, for which Match gives `number`. Several filters may have the same number.
  void Add(const Filter& filter, std::uint32_t number);
  // Appends the numbers of the filters that match a valid topic, in no order.
  void Match(std::string_view topic, std::vector<std::uint32_t>* numbers) const;

 private:
  // A level of the filters, with the filters that end there.
  struct Node {
    std::map<std::string, std::unique_ptr<Node>, std::less<>> words;
    std::unique_ptr<Node> plus;
    std::vector<std::uint32_t> here;   // of filters that end with this level
    std::vector<std::uint32_t> below;  // of filters that end with this level and '#'
  };
  Node root_;
  std::vector<std::uint32_t> everything_;  // of filters that match every topic
};

}  // namespace topicdb
