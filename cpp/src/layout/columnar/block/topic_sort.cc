#include "layout/columnar/block/topic_sort.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/bytes/hash.h"

namespace topicdb::columnar {

namespace {

struct TopicKey {
  StreamId stream;
  std::string_view topic;
  auto operator<=>(const TopicKey&) const = default;
};
struct TopicKeyHash {
  std::size_t operator()(const TopicKey& key) const {
    return Hash64(key.topic, key.stream.value());
  }
};

// The topics of some pages, each once, and the rows that are not deleted, with the numbers of their
// topics.
struct TopicRows {
  std::vector<TopicKey> topics;
  std::vector<std::pair<std::uint32_t, RowOrigin>> rows;
};

// Gives each topic of the pages a number.
TopicRows NumberTopics(const std::vector<PageToSort>& pages) {
  TopicRows found;
  std::unordered_map<TopicKey, std::uint32_t, TopicKeyHash> numbers;
  for (std::uint32_t i = 0; i < pages.size(); ++i) {
    const Page& page = *pages[i].page;
    std::vector<std::uint32_t> number_of(page.topics());
    for (std::uint32_t topic = 0; topic < page.topics(); ++topic) {
      const TopicKey key{page.stream(topic), page.topic(topic)};
      const auto [number, is_new] =
          numbers.try_emplace(key, static_cast<std::uint32_t>(found.topics.size()));
      if (is_new) found.topics.push_back(key);
      number_of[topic] = number->second;
    }
    DeletedCursor deleted(pages[i].deleted);
    for (std::uint32_t row = 0; row < page.rows(); ++row) {
      if (deleted.Holds(row)) continue;
      found.rows.push_back({number_of[page.topic_of(row)], {i, row}});
    }
  }
  return found;
}

}  // namespace

SortedRows SortByTopic(const std::vector<PageToSort>& pages) {
  const TopicRows found = NumberTopics(pages);
  const std::vector<TopicKey>& topics = found.topics;
  // First, rows are grouped by topic, and keep the order of the pages. Mostly this is their final
  // order.
  std::vector<std::uint32_t> order(topics.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return topics[a] < topics[b]; });
  std::vector<std::size_t> begins(topics.size() + 1);
  for (const auto& [topic, origin] : found.rows) ++begins[topic];
  std::size_t begin = 0;
  for (const std::uint32_t topic : order) begin += std::exchange(begins[topic], begin);
  SortedRows sorted;
  sorted.rows.resize(found.rows.size());
  sorted.origins.resize(found.rows.size());
  std::vector<std::size_t> next = begins;
  for (const auto& [topic, origin] : found.rows) sorted.origins[next[topic]++] = origin;
  const auto key_of = [&](const RowOrigin& origin) {
    const Page& page = *pages[origin.page].page;
    return std::tuple(page.time(origin.row), page.serial(origin.row), page.index(origin.row));
  };
  const auto by_key = [&](const RowOrigin& a, const RowOrigin& b) { return key_of(a) < key_of(b); };
  for (const std::uint32_t topic : order) {
    const auto first = sorted.origins.begin() + static_cast<std::ptrdiff_t>(begins[topic]);
    const auto last = sorted.origins.begin() + static_cast<std::ptrdiff_t>(next[topic]);
    if (!std::is_sorted(first, last, by_key)) std::sort(first, last, by_key);
    for (auto origin = first; origin != last; ++origin) {
      const Page& page = *pages[origin->page].page;
      sorted.rows[static_cast<std::size_t>(origin - sorted.origins.begin())] = {
          topics[topic].stream,     topics[topic].topic,     page.time(origin->row),
          page.serial(origin->row), page.index(origin->row), page.value(origin->row)};
    }
  }
  return sorted;
}

}  // namespace topicdb::columnar
