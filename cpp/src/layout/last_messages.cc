#include "layout/last_messages.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/bytes/hash.h"

namespace topicdb {

namespace {

constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
constexpr std::size_t kSlotsMin = 1'024;

// Returns the eight bytes of the topic behind the first `skipped` ones, as a number that sorts as
// the bytes do.
std::uint64_t Prefix(std::string_view topic, std::size_t skipped) {
  std::uint64_t prefix = 0;
  for (std::size_t i = 0; i < sizeof(prefix); ++i) {
    const std::size_t at = skipped + i;
    prefix = (prefix << 8) | (at < topic.size() ? static_cast<unsigned char>(topic[at]) : 0);
  }
  return prefix;
}

}  // namespace

char* LastMessages::Allocate(std::size_t size) {
  if (size > kChunkBytes / 8) {  // gets a chunk of its own, so that no chunk is left half empty
    return chunks_.insert(chunks_.begin(), std::make_unique_for_overwrite<char[]>(size))->get();
  }
  if (size > left_) {
    chunks_.push_back(std::make_unique_for_overwrite<char[]>(kChunkBytes));
    next_ = chunks_.back().get();
    left_ = kChunkBytes;
  }
  left_ -= size;
  return std::exchange(next_, next_ + size);
}

std::string_view LastMessages::Copy(std::string_view bytes) {
  if (bytes.empty()) return {};
  char* const copy = Allocate(bytes.size());
  std::memcpy(copy, bytes.data(), bytes.size());
  return {copy, bytes.size()};
}

std::size_t LastMessages::SlotOf(std::string_view topic, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash & mask;; slot = (slot + 1) & mask) {
    if (slots_[slot] == 0) return slot;
    const Number number = slots_[slot] - 1;
    if (hashes_[number] == hash && entries_[number].topic == topic) return slot;
  }
}

void LastMessages::Grow() {
  slots_.assign(std::max(kSlotsMin, 2 * slots_.size()), 0);
  const std::size_t mask = slots_.size() - 1;
  for (Number number = 0; number < entries_.size(); ++number) {
    std::size_t slot = hashes_[number] & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = number + 1;
  }
}

LastMessages::Number LastMessages::Offer(std::string_view topic, const MessageRank& rank,
                                         std::string_view value) {
  if (2 * entries_.size() >= slots_.size()) Grow();
  const std::uint64_t hash = Hash64(topic);
  Number& slot = slots_[SlotOf(topic, hash)];
  if (slot != 0) {
    Offer(slot - 1, rank, value);
    return slot - 1;
  }
  entries_.push_back({Copy(topic), Copy(value), rank, shard_});
  hashes_.push_back(hash);
  capacities_.push_back(value.size());
  slot = static_cast<Number>(entries_.size());
  return slot - 1;
}

void LastMessages::Offer(Number number, const MessageRank& rank, std::string_view value) {
  Entry& entry = entries_[number];
  if (std::tie(rank.timestamp, shard_) < std::tie(entry.rank.timestamp, entry.shard)) return;
  if (shard_ == entry.shard && rank <= entry.rank) return;
  entry.rank = rank;
  entry.shard = shard_;
  if (value.empty()) {
    entry.value.remove_suffix(entry.value.size());  // keeps its memory for the next value
    return;
  }
  if (value.size() > capacities_[number]) {
    // The capacity at least doubles, so the memory that is given up never exceeds the memory in
    // use.
    capacities_[number] = std::max(value.size(), 2 * capacities_[number]);
    entry.value = {Allocate(capacities_[number]), capacities_[number]};
  }
  char* const place = const_cast<char*>(entry.value.data());
  std::memcpy(place, value.data(), value.size());
  entry.value = {place, value.size()};
}

LastMessages::Bound LastMessages::BoundOf(Number number) const {
  const Entry& entry = entries_[number];
  if (entry.shard == shard_) return {entry.rank.timestamp, entry.rank.serial};
  return {entry.rank.timestamp, entry.shard > shard_ ? kLastSerial : kNoSerial};
}

std::optional<LastMessages::Number> LastMessages::Find(std::string_view topic) const {
  if (slots_.empty()) return std::nullopt;
  const Number found = slots_[SlotOf(topic, Hash64(topic))];
  return found == 0 ? std::nullopt : std::optional(found - 1);
}

std::vector<LastMessages::Number> LastMessages::ByTopic() const {
  std::vector<Number> numbers;
  if (entries_.empty()) return numbers;
  // Topics mostly begin with the same bytes. The sort need not compare these.
  std::string_view shared = entries_.front().topic;
  for (const Entry& entry : entries_) {
    const auto end =
        std::mismatch(shared.begin(), shared.end(), entry.topic.begin(), entry.topic.end());
    shared = shared.substr(0, static_cast<std::size_t>(end.first - shared.begin()));
  }
  std::vector<std::pair<std::uint64_t, Number>> order;
  order.reserve(entries_.size());
  for (Number number = 0; number < entries_.size(); ++number) {
    order.emplace_back(Prefix(entries_[number].topic, shared.size()), number);
  }
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return entries_[a.second].topic < entries_[b.second].topic;
  });
  numbers.reserve(order.size());
  for (const auto& [prefix, number] : order) numbers.push_back(number);
  return numbers;
}

}  // namespace topicdb
