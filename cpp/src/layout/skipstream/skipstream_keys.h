// Keys and values of the skipstream layout, byte by byte (docs/format.md draws them too):
//
//   data key   stream u32 BE | 0 u16 BE                        | time | words
//   index key  stream u32 BE | level u16 BE (from 1) | hash u64 BE | time | words    value: empty
//   value      1 u8 | serial varint | index varint | the message's value
//
//   time   u64 BE, or nothing in a database with timestamp_bytes = 0
//   words  the word at each varying level, each followed by a NUL (topics contain none)
//   hash   XXH3 of the word at that varying level
//
// `time | words` is called the suffix: it is the same in the data key and in all index keys of a
// message, so index entries can be joined with data by seeking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topicdb::skipstream {

inline constexpr std::uint8_t kValueVersion = 1;
inline constexpr std::uint16_t kDataLevel = 0;
// Varying levels behind this many have no index entry: their words are only compared. Each entry
// repeats all words, so a topic of thousands of levels would otherwise grow with their square.
inline constexpr std::size_t kIndexedLevelsMax = 64;

void AppendDataPrefix(std::string* out, std::uint32_t stream);
// varying_index: from 0. REQUIRES: < kIndexedLevelsMax
void AppendIndexPrefix(std::string* out, std::uint32_t stream, std::size_t varying_index,
                       std::string_view word);
void AppendTime(std::string* out, std::int64_t timestamp, std::uint32_t timestamp_bytes);
void AppendWords(std::string* out, std::span<const std::string_view> words);

struct DecodedSuffix {
  std::int64_t timestamp = 0;
  std::string_view words_bytes;         // the encoded words
  std::vector<std::string_view> words;  // one for each varying level
};
// Reads a suffix into `out` (whose vector is reused); false if it is malformed.
bool DecodeSuffix(std::string_view suffix, std::uint32_t timestamp_bytes, DecodedSuffix* out);

struct DecodedValue {
  std::uint64_t serial = 0;
  std::uint32_t index = 0;
  std::string_view value;
};
void AppendValueHeader(std::string* out, std::uint64_t serial, std::uint32_t index);
bool DecodeValue(std::string_view bytes, DecodedValue* out);

}  // namespace topicdb::skipstream
