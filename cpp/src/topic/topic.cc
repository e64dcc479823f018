#include "topicdb/topic.h"

#include <cstring>

#include "base/bytes/crc32.h"
#include "base/bytes/utf8.h"
#include "topic/mqtt_string.h"

namespace topicdb {

namespace {

constexpr std::uint64_t kEachByte = 0x0101010101010101U;

// Returns a number that is not zero if a byte of `word` is zero. For the method, see Warren,
// "Hacker's Delight", 6-1.
constexpr std::uint64_t ZeroBytes(std::uint64_t word) {
  return (word - kEachByte) & ~word & (kEachByte << 7);
}

// Returns whether the text has only ASCII characters, and no wildcard or NUL among them. Nearly all
// topics are such, and it looks at eight bytes at a time.
bool IsPlain(std::string_view text) {
  std::uint64_t bad = 0;
  const auto look = [&](std::uint64_t word) {
    bad |= (word & (kEachByte << 7)) | ZeroBytes(word) | ZeroBytes(word ^ (kEachByte * '+')) |
           ZeroBytes(word ^ (kEachByte * '#'));
  };
  std::size_t i = 0;
  std::uint64_t word = 0;
  for (; i + sizeof(word) <= text.size(); i += sizeof(word)) {
    std::memcpy(&word, text.data() + i, sizeof(word));
    look(word);
  }
  word = kEachByte * 'a';
  std::memcpy(&word, text.data() + i, text.size() - i);
  look(word);
  return bad == 0;
}

}  // namespace

Status CheckMqttString(std::string_view text, std::string_view what) {
  const auto fault = [&](const std::string& reason) {
    constexpr std::size_t kShownBytesMax = 80;
    std::string shown(text.substr(0, kShownBytesMax));
    if (text.size() > kShownBytesMax) shown += "…";
    return TopicFault(std::string(what) + " '" + shown + "': " + reason);
  };
  if (text.empty()) return fault("must have at least one character");
  if (text.size() > kTopicBytesMax) {
    return fault("has " + std::to_string(text.size()) + " bytes, at most 65535 are allowed");
  }
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '\0') return fault("contains a NUL character");
    const std::size_t length = Utf8SequenceLength(text.substr(i));
    if (length == 0) return fault("is no valid UTF-8 at byte " + std::to_string(i));
    i += length;
  }
  return Status::Ok();
}

Status CheckTopic(std::string_view topic) {
  if (!topic.empty() && topic.size() <= kTopicBytesMax && IsPlain(topic)) return Status::Ok();
  TOPICDB_RETURN_IF_ERROR(CheckMqttString(topic, "topic"));
  if (topic.find_first_of("+#") != std::string_view::npos) {
    return TopicFault("topic '" + std::string(topic) +
                      "': contains a wildcard ('+' or '#'); only filters may have them");
  }
  return Status::Ok();
}

std::uint32_t ShardOfKey(std::string_view key, std::uint32_t shards) {
  return shards == 1 ? 0 : Crc32(key) % shards;
}

}  // namespace topicdb
