// What the first byte of an input of page_fuzzer chooses.
#pragma once

#include <cstdint>

namespace topicdb::columnar {

enum class FuzzTarget : std::uint8_t {
  kPage,         // a page whose checksum is made right
  kDamagedPage,  // a page as it is
  kPackedBody,   // header and body of a packed page, which is compressed and completed
  kBlockEntry,   // a record whose checksum is made right, here and below
  kDirectory,
  kDeletedRows,
  kFilter,
  kTopicList,
};
inline constexpr std::uint8_t kFuzzTargets = 8;

}  // namespace topicdb::columnar
