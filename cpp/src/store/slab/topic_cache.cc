#include "store/slab/topic_cache.h"

#include <algorithm>

#include "base/bytes/hash.h"

namespace topicdb {

namespace {
constexpr std::size_t kTableSizeMin = 1'024;
constexpr std::size_t kTextBlockBytes = std::size_t{64} << 10;
}  // namespace

TopicCache::TopicCache(std::size_t bytes_max) : bytes_max_(bytes_max) {}

std::uint64_t TopicCache::HashOf(std::string_view topic) { return Hash64(topic); }

const TopicCache::Topic* TopicCache::Guess(std::uint64_t hash) const {
  if (table_.empty()) return nullptr;
  const std::uint32_t index = table_[hash & (table_.size() - 1)];
  return index == 0 ? nullptr : &topics_[index - 1];
}

void TopicCache::FetchSlot(std::uint64_t hash) const {
  if (!table_.empty()) __builtin_prefetch(&table_[hash & (table_.size() - 1)]);
}

void TopicCache::FetchTopic(std::uint64_t hash) const {
  if (const Topic* topic = Guess(hash); topic != nullptr) __builtin_prefetch(topic);
}

void TopicCache::FetchText(std::uint64_t hash) const {
  if (const Topic* topic = Guess(hash); topic != nullptr) __builtin_prefetch(topic->text.data());
}

TopicCache::Topic* TopicCache::Find(std::string_view topic, std::uint64_t hash) {
  if (table_.empty()) return nullptr;
  const std::size_t mask = table_.size() - 1;
  for (std::size_t slot = hash & mask; table_[slot] != 0; slot = (slot + 1) & mask) {
    Topic& candidate = topics_[table_[slot] - 1];
    if (candidate.hash == hash && candidate.text == topic) return &candidate;
  }
  return nullptr;
}

TopicCache::Topic* TopicCache::Add(std::string_view topic, std::uint64_t hash,
                                   RetentionClassId retention_class, StreamId stream) {
  const std::size_t bytes = sizeof(Topic) + 2 * sizeof(table_[0]) + topic.size();
  if (bytes_ + bytes > bytes_max_) Clear();
  bytes_ += bytes;
  if (2 * (topics_.size() + 1) > table_.size()) {
    table_.assign(std::max(kTableSizeMin, 2 * table_.size()), 0);
    for (std::uint32_t index = 0; index < topics_.size(); ++index) Insert(index);
  }
  topics_.push_back({Keep(topic), hash, retention_class, stream, {}});
  Insert(static_cast<std::uint32_t>(topics_.size() - 1));
  return &topics_.back();
}

void TopicCache::Insert(std::uint32_t index) {
  const std::size_t mask = table_.size() - 1;
  std::size_t slot = topics_[index].hash & mask;
  while (table_[slot] != 0) slot = (slot + 1) & mask;
  table_[slot] = index + 1;
}

std::string_view TopicCache::Keep(std::string_view text) {
  if (texts_.empty() || texts_.back().capacity() - texts_.back().size() < text.size()) {
    texts_.emplace_back().reserve(std::max(text.size(), kTextBlockBytes));
  }
  std::string& block = texts_.back();
  const std::size_t begin = block.size();
  block.append(text);
  return std::string_view(block).substr(begin);
}

void TopicCache::Clear() {
  bytes_ = 0;
  topics_.clear();
  table_.clear();
  texts_.clear();
}

}  // namespace topicdb
