// The first byte of an input of page_fuzzer chooses what the rest is.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "layout/columnar/format/page_examples.h"
#include "layout/columnar/format/parcel.h"
#include "topicdb/database/parcel.h"

namespace topicdb::columnar {

// The rows of the page whose values FuzzTarget::kValues has.
inline Rows ExampleRows() {
  return {{1, "a/b", 5, 3, 0, "one"}, {1, "a/bc", 4, 3, 1, ""}, {70'000, "/", 9, 400, 9, "two"}};
}

// Returns a parcel of one page. ParcelBuilder makes the same bytes, but needs RocksDB.
inline std::string ParcelOf(const StoredPage& page, std::uint64_t serial) {
  std::string header;
  AppendLittle(&header, static_cast<std::uint32_t>(page.keys.size()));
  AppendLittle(&header, static_cast<std::uint32_t>(page.values.size()));
  AppendLittle(&header, serial);
  AppendLittle(&header, serial == 0 ? std::uint64_t{0} : std::uint64_t{500});
  AppendLittle(&header, std::uint32_t{0});
  std::string parcel(kParcelMagic);
  AppendLittle(&parcel, kParcelVersion);
  AppendLittle(&parcel, std::uint32_t{1});
  parcel += header;
  AppendLittle(&parcel, Crc32(header));
  for (const std::string& record : {page.keys, page.values}) {
    parcel += record;
    parcel.resize(Aligned(parcel.size()));
  }
  return parcel;
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
  kParcel,  // a parcel; the fuzzer makes the checksum before its first page right
};
inline constexpr std::uint8_t kFuzzTargets = 10;

}  // namespace topicdb::columnar
