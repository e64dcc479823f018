#include "layout/message_groups.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace topicdb {

namespace {

constexpr std::int64_t kTimeMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kTimeMax = std::numeric_limits<std::int64_t>::max();

}  // namespace

void MessageGroups::Count::Add(std::uint64_t more, std::int64_t first, std::int64_t last) {
  first_time = messages == 0 ? first : std::min(first_time, first);
  last_time = messages == 0 ? last : std::max(last_time, last);
  messages += more;
}

std::string_view MessageGroups::NameOf(std::string_view topic) const {
  if (!by_topic()) return {};
  std::size_t end = 0;
  for (std::uint32_t levels = 1;; ++levels) {
    end = topic.find('/', end);
    if (end == std::string_view::npos) return topic;
    if (levels == options_.topic_levels) return topic.substr(0, end);
    ++end;
  }
}

bool MessageGroups::AreOneGroup(std::string_view first_topic, std::string_view last_topic) const {
  if (!by_topic() || first_topic == last_topic) return true;
  const std::string_view name = NameOf(first_topic);
  // A topic between two that begin with "a/" begins with "a/", too. But "a!b" lies between "a" and
  // "a/b", and is in another group.
  return name == NameOf(last_topic) && first_topic.size() > name.size();
}

MessageGroups::Span MessageGroups::SpanOf(std::int64_t time) const {
  if (!options_.span.has_value()) return {kTimeMin, kTimeMax};
  const std::int64_t width = *options_.span;
  // All numbers stay below 3 * kSpanMax, which does not overflow.
  const std::int64_t behind = ((time % width) - (options_.span_origin % width) + 2 * width) % width;
  const std::int64_t first = time < kTimeMin + behind ? kTimeMin : time - behind;
  const std::int64_t last = first > kTimeMax - (width - 1) ? kTimeMax : first + (width - 1);
  return {first, last};
}

MessageGroups::Count& MessageGroups::CountOf(std::string_view topic, std::int64_t time) {
  const KeyView key{NameOf(topic), options_.span.has_value() ? SpanOf(time).first : 0};
  const auto found = counts_.find(key);
  if (found != counts_.end()) return found->second;
  return counts_.emplace(Key{std::string(key.topic), key.span}, Count()).first->second;
}

Status MessageGroups::CheckSize() const {
  if (rows_read_ > options_.rows_max) {
    return InvalidArgument("a summary may read " + std::to_string(options_.rows_max) +
                           " messages, and this one must read more");
  }
  if (counts_.size() <= options_.groups_max) return Status::Ok();
  return InvalidArgument("a summary may have " + std::to_string(options_.groups_max) +
                         " groups, and this one has more: summarize fewer topics or a shorter "
                         "time, or group by fewer levels or by longer spans");
}

std::vector<MessageGroup> MessageGroups::Sorted() const {
  std::vector<MessageGroup> groups;
  groups.reserve(counts_.size());
  for (const auto& [key, count] : counts_) {
    groups.push_back({key.topic, options_.span.has_value() ? std::optional(key.span) : std::nullopt,
                      count.messages, count.first_time, count.last_time});
  }
  std::sort(groups.begin(), groups.end(), [](const MessageGroup& a, const MessageGroup& b) {
    return std::tie(a.topic, a.span_start) < std::tie(b.topic, b.span_start);
  });
  return groups;
}

}  // namespace topicdb
