// The first byte of an input of page_fuzzer chooses what the rest is.
#pragma once

#include <cstdint>

namespace topicdb::columnar {

enum class FuzzTarget : std::uint8_t {
  kPage,         // a page; the fuzzer makes its checksum right
  kDamagedPage,  // a page as it is
  kPackedBody,   // header and body of a packed page; the fuzzer compresses and completes it
  kBlockEntry,   // a record; the fuzzer makes its checksum right, here and below
  kDirectory,
  kDeletedRows,
  kFilter,
  kTopicList,
};
inline constexpr std::uint8_t kFuzzTargets = 8;

}  // namespace topicdb::columnar
