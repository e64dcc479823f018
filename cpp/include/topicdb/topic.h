// MQTT 5 topics and topic filters: checked once when they come in, then trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/status.h"

namespace topicdb {

// MQTT 5 section 4.7.3: a topic has 1 to 65,535 bytes.
inline constexpr std::size_t kTopicBytesMax = 65'535;

// Topics that begin so are TopicDB's own: maps are kept there.
inline constexpr std::string_view kReservedPrefix = "$topicdb/";
inline bool IsReservedTopic(std::string_view topic) { return topic.starts_with(kReservedPrefix); }

// Whether `topic` is a valid topic name: 1 to 65,535 bytes of UTF-8 without NUL, '+' and '#'.
// kTopic with the reason if it is not.
Status CheckTopic(std::string_view topic);

// The shard of a topic: CRC-32 (ISO-HDLC, as zlib and Spark SQL compute it) modulo `shards`.
// REQUIRES: shards > 0
std::uint32_t ShardOfTopic(std::string_view topic, std::uint32_t shards);

// Calls visit(level) for each level, the text between slashes; levels may be empty.
template <typename Visit>
void ForEachLevel(std::string_view topic, Visit visit) {
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = topic.find('/', begin);
    if (end == std::string_view::npos) {
      visit(topic.substr(begin));
      return;
    }
    visit(topic.substr(begin, end - begin));
    begin = end + 1;
  }
}

// MQTT 4.7.2-1: a level that keeps its topic from filters that begin with a wildcard, when it is
// the first one. This rule is about the first level of a topic and about nothing else.
inline bool IsDollarLevel(std::string_view level) { return !level.empty() && level.front() == '$'; }

// A parsed topic filter. Immutable; may be copied and read from any thread.
class Filter {
 public:
  enum class LevelKind : std::uint8_t { kWord, kPlus };
  struct Level {
    LevelKind kind;
    std::string word;  // empty for kPlus
  };

  // kTopic with the reason for text that is no topic filter.
  static Result<Filter> Parse(std::string_view text);
  // Matches every topic, those that begin with '$' too, which no text can say; its own is empty.
  static Filter Everything();

  // Whether a valid topic matches, by the rules of MQTT 5 section 4.7.
  bool Matches(std::string_view topic) const;
  // Whether there can be a topic that both match.
  bool Intersects(const Filter& other) const;
  // Whether it matches every topic that the other matches.
  bool Covers(const Filter& other) const;

  bool is_everything() const { return everything_; }
  const std::string& text() const { return text_; }
  // Levels without the final '#'.
  const std::vector<Level>& levels() const { return levels_; }
  // Whether it ends in '#': any number of further levels, none included.
  bool ends_in_hash() const { return ends_in_hash_; }
  // Whether it has no wildcard, and so is the topic that it matches.
  bool is_topic() const;
  // Whether its first level is '+' or '#', so that topics beginning with '$' do not match.
  bool begins_with_wildcard() const;

 private:
  std::string text_;
  std::vector<Level> levels_;
  bool ends_in_hash_ = false;
  bool everything_ = false;
};

}  // namespace topicdb
