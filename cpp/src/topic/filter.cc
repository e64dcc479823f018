#include <algorithm>

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

Filter Filter::Everything() {
  Filter filter;
  filter.everything_ = true;
  return filter;
}

bool Filter::is_topic() const {
  return !everything_ && !ends_in_hash_ &&
         std::all_of(levels_.begin(), levels_.end(),
                     [](const Level& level) { return level.kind == LevelKind::kWord; });
}

bool Filter::begins_with_wildcard() const {
  return !everything_ && (levels_.empty() || levels_.front().kind == LevelKind::kPlus);
}

bool Filter::Matches(std::string_view topic) const {
  if (everything_) return true;
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

bool Filter::Intersects(const Filter& other) const {
  if (everything_ || other.everything_) return true;
  const auto keeps_out = [](const Filter& wild, const Filter& named) {
    return wild.begins_with_wildcard() && !named.begins_with_wildcard() &&
           IsDollarLevel(named.levels_.front().word);
  };
  if (keeps_out(*this, other) || keeps_out(other, *this)) return false;
  const std::size_t common = std::min(levels_.size(), other.levels_.size());
  for (std::size_t i = 0; i < common; ++i) {
    const bool both_words =
        levels_[i].kind == LevelKind::kWord && other.levels_[i].kind == LevelKind::kWord;
    if (both_words && levels_[i].word != other.levels_[i].word) return false;
  }
  return (levels_.size() <= common || other.ends_in_hash_) &&
         (other.levels_.size() <= common || ends_in_hash_);
}

bool Filter::Covers(const Filter& other) const {
  if (everything_ || other.everything_) return everything_;
  if (begins_with_wildcard() && !other.begins_with_wildcard() &&
      IsDollarLevel(other.levels_.front().word)) {
    return false;
  }
  // A topic has a level, so "#" is "+/#".
  const std::size_t depth = std::max<std::size_t>(other.levels_.size(), 1);
  if (depth < levels_.size()) return false;
  if (!ends_in_hash_ && (depth > levels_.size() || other.ends_in_hash_)) return false;
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (levels_[i].kind == LevelKind::kPlus) continue;
    if (i >= other.levels_.size() || other.levels_[i].kind != LevelKind::kWord ||
        other.levels_[i].word != levels_[i].word) {
      return false;
    }
  }
  return true;
}

}  // namespace topicdb
