// MQTT 5 topics and topic filters. They are checked once when they come in, and trusted from then
// on.
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

// Topics that begin with this are TopicDB's own: maps are kept there.
inline constexpr std::string_view kReservedPrefix = "$topicdb/";
inline bool IsReservedTopic(std::string_view topic) { return topic.starts_with(kReservedPrefix); }

// Checks that `topic` is a valid topic name: 1 to 65,535 bytes of UTF-8 without NUL, '+' and '#'.
// Returns kTopic with the reason if it is not.
Status CheckTopic(std::string_view topic);

// Returns the shard of a key, which may be any bytes: CRC-32 (ISO-HDLC, as zlib and Spark SQL
// compute it) modulo `shards`. REQUIRES: shards > 0
std::uint32_t ShardOfKey(std::string_view key, std::uint32_t shards);
// Returns the shard of a topic, which is that of a key with the same bytes. REQUIRES: shards > 0
inline std::uint32_t ShardOfTopic(std::string_view topic, std::uint32_t shards) {
  return ShardOfKey(topic, shards);
}

// Calls visit(level) for each level of a topic or filter, which is the text between slashes. Levels
// may be empty.
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

// MQTT 4.7.2-1: returns whether this level, as the first level of a topic, keeps the topic from
// filters that begin with a wildcard. This rule is about the first level of a topic and about
// nothing else.
inline bool IsDollarLevel(std::string_view level) { return !level.empty() && level.front() == '$'; }

// A parsed topic filter. Immutable; may be copied and read from any thread.
class Filter {
 public:
  enum class LevelKind : std::uint8_t { kWord, kPlus };
  // A level of a filter: a word or '+'.
  struct Level {
    LevelKind kind;
    std::string word;  // empty for kPlus
  };

  // Parses a topic filter. Returns kTopic with the reason if `text` is none.
  static Result<Filter> Parse(std::string_view text);
  // Returns a filter that matches every topic, including those that begin with '$'. No text can say
  // that, so its own text is empty.
  static Filter Everything();

  // Returns whether a valid topic matches, by the rules of MQTT 5 section 4.7.
  bool Matches(std::string_view topic) const;
  // Returns whether there can be a topic that both filters match.
  bool Intersects(const Filter& other) const;
  // Returns whether this filter matches every topic that `other` matches.
  bool Covers(const Filter& other) const;

  bool is_everything() const { return everything_; }
  const std::string& text() const { return text_; }
  // Returns the levels without the final '#'.
  const std::vector<Level>& levels() const { return levels_; }
  // Returns whether the filter ends in '#', which matches any number of further levels, including
  // zero.
  bool ends_in_hash() const { return ends_in_hash_; }
  // Returns whether the filter has no wildcard, and so is the only topic that it matches.
  bool is_topic() const;
  // Returns whether the first level is '+' or '#', so that topics that begin with '$' do not match.
  bool begins_with_wildcard() const;

 private:
  std::string text_;
  std::vector<Level> levels_;
  bool ends_in_hash_ = false;
  bool everything_ = false;
};

}  // namespace topicdb
