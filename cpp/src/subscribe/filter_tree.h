// Which of many topic filters match a topic, found in one walk over its levels.
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

// Thread-safe once nothing is added any more.
class FilterTree {
 public:
  // `number` is what Match gives for it; several filters may have the same.
  void Add(const Filter& filter, std::uint32_t number);
  // Appends the numbers of the filters that match a valid topic, in no order.
  void Match(std::string_view topic, std::vector<std::uint32_t>* numbers) const;

 private:
  struct Node {
    std::map<std::string, std::unique_ptr<Node>, std::less<>> words;
    std::unique_ptr<Node> plus;
    std::vector<std::uint32_t> here;   // of filters that end with this level
    std::vector<std::uint32_t> below;  // and with '#' behind it
  };
  Node root_;
  std::vector<std::uint32_t> everything_;
};

}  // namespace topicdb
