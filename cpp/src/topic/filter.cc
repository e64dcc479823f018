#include "topic/mqtt_string.h"
#include "topicdb/topic.h"

namespace topicdb {

Result<Filter> Filter::Parse(std::string_view text) {
  TOPICDB_RETURN_IF_ERROR(CheckMqttString(text, "filter"));
  const auto fault = [&](const char* reason) {
    return TopicFault("filter '" + std::string(text) + "': " + reason);
  };
  Filter filter;
  filter.text_ = text;
  Status status;
  ForEachLevel(text, [&](std::string_view level) {
    if (!status.ok()) return;
    if (filter.ends_in_hash_) {
      status = fault("'#' must be the last level");
    } else if (level == "#") {
      filter.ends_in_hash_ = true;
    } else if (level == "+") {
      filter.levels_.push_back({LevelKind::kPlus, {}});
    } else if (level.find_first_of("+#") != std::string_view::npos) {
      status = fault("a wildcard must be a whole level, as in 'a/+/b' or 'a/#'");
    } else {
      filter.levels_.push_back({LevelKind::kWord, std::string(level)});
    }
  });
  if (!status.ok()) return status;
  return filter;
}

bool Filter::begins_with_wildcard() const {
  return levels_.empty() || levels_.front().kind == LevelKind::kPlus;
}

bool Filter::Matches(std::string_view topic) const {
  std::size_t depth = 0;
  bool matches = true;
  ForEachLevel(topic, [&](std::string_view level) {
    if (depth == 0 && IsDollarLevel(level) && begins_with_wildcard()) matches = false;
    if (depth < levels_.size()) {
      const Level& wanted = levels_[depth];
      if (wanted.kind == LevelKind::kWord && wanted.word != level) matches = false;
    } else if (!ends_in_hash_) {
      matches = false;
    }
    ++depth;
  });
  return matches && depth >= levels_.size();  // "a/#" matches its parent "a" too
}

}  // namespace topicdb
