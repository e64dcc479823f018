#include "store/slab/topic_ranks.h"

#include <algorithm>

namespace topicdb {

void TopicRanks::Add(std::string_view topic, const MessageRank& place) {
  auto found = topics_.find(topic);
  if (found == topics_.end()) found = topics_.emplace(topic, std::vector<MessageRank>()).first;
  std::vector<MessageRank>& places = found->second;
  if (overwrites_) {
    const auto same = std::lower_bound(places.begin(), places.end(), place.timestamp,
                                       [](const MessageRank& candidate, std::int64_t timestamp) {
                                         return candidate.timestamp < timestamp;
                                       });
    if (same != places.end() && same->timestamp == place.timestamp) {
      *same = std::max(*same, place);
      return;
    }
  }
  const bool is_full = places.size() == keep_last_;
  if (is_full && place < places.front()) return;
  places.insert(std::upper_bound(places.begin(), places.end(), place), place);
  if (is_full) places.erase(places.begin());
}

bool TopicRanks::IsLast(std::string_view topic, const MessageRank& place) const {
  const auto found = topics_.find(topic);
  return found != topics_.end() &&
         std::binary_search(found->second.begin(), found->second.end(), place);
}

}  // namespace topicdb
