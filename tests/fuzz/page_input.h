// The first byte of an input of page_fuzzer chooses what the rest is.
#pragma once

#include <cstdint>

#include "layout/columnar/format/page_examples.h"

namespace topicdb::columnar {

// The rows of the page whose values FuzzTarget::kValues has.
inline Rows ExampleRows() {
  return {{1, "a/b", 5, 3, 0, "one"}, {1, "a/bc", 4, 3, 1, ""}, {70'000, "/", 9, 400, 9, "two"}};
}

enum class FuzzTarget : std::uint8_t {
  kPage,         // a page; the fuzzer makes its checksum right
  kDamagedPage,  // a page as it is
  kPackedBody,   // header and body of a packed page; the fuzzer compresses and completes it
  kBlockEntry,   // a record; the fuzzer makes its checksum right, here and below
  kDirectory,
  kDeletedRows,
  kFilter,
  kTopicList,
  kValues,  // the record of the values of the example page; the fuzzer makes its checksums right
};
inline constexpr std::uint8_t kFuzzTargets = 9;

}  // namespace topicdb::columnar
