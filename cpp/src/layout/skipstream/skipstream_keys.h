// Keys and values of the layout skipstream, byte by byte (docs/internals/format.md draws them too):
//
//   data key   stream u32 BE | 0 u16 BE                        | time | words
//   index key  stream u32 BE | level u16 BE (from 1) | hash u64 BE | time | words    value: empty
//   value      1 u8 | serial varint | index varint | the message's value
//
//   time   u64 BE, or nothing in a database with timestamp_bytes = 0
//   words  the word at each varying level, each followed by a NUL (topics contain none)
//   hash   XXH3 of the word at that varying level
//
// `time | words` is called the suffix. The data key and all index keys of a message have the same
// suffix, so a reader can join index entries with data by seeking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/types/numbers.h"

namespace topicdb::skipstream {

inline constexpr std::uint8_t kValueVersion = 1;
inline constexpr std::uint16_t kDataLevel = 0;
// Only this many varying levels have index entries. A reader compares the words of the levels
// behind them. Each entry repeats all words, so without this limit the index of a topic would grow
// with the square of its levels.
inline constexpr std::size_t kIndexedLevelsMax = 64;

// Appends what stands before the suffix in the data keys of a stream.
void AppendDataPrefix(std::string* out, StreamId stream);
// Appends what stands before the suffix in the index keys of one word of a stream. `varying_index`
// is that of the word's level among the varying levels, counted from 0. REQUIRES: varying_index <
// kIndexedLevelsMax
void AppendIndexPrefix(std::string* out, StreamId stream, std::size_t varying_index,
                       std::string_view word);
// Append the two parts of a suffix. AppendTime appends nothing if timestamp_bytes is 0.
void AppendTime(std::string* out, std::int64_t timestamp, std::uint32_t timestamp_bytes);
void AppendWords(std::string* out, std::span<const std::string_view> words);

// A decoded suffix. It points into the bytes of the suffix.
struct DecodedSuffix {
  std::int64_t timestamp = 0;
  std::string_view words_bytes;         // the encoded words
  std::vector<std::string_view> words;  // one for each varying level
};
// Decodes a suffix into `out`, and reuses the memory of its vector. Returns false if the suffix is
// malformed.
bool DecodeSuffix(std::string_view suffix, std::uint32_t timestamp_bytes, DecodedSuffix* out);

// A decoded value of a data key. It points into the bytes of the value.
struct DecodedValue {
  Serial serial;
  std::uint32_t index = 0;
  std::string_view value;
};
// Appends what stands before the message's value in the value of a data key.
void AppendValueHeader(std::string* out, Serial serial, std::uint32_t index);
// Decodes the value of a data key. Returns false if its header is malformed.
bool DecodeValue(std::string_view bytes, DecodedValue* out);

}  // namespace topicdb::skipstream
