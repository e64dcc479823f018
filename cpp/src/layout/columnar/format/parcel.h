// The bytes of a parcel (topicdb/database/parcel.h). docs/internals/parcels.md draws them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "layout/columnar/format/page.h"

namespace topicdb {
class ParcelBuilder;  // layout/parcels.h
}

namespace topicdb::columnar {

inline constexpr std::string_view kParcelMagic = "TDBPARC\n";
inline constexpr std::size_t kParcelHeaderBytes = 16;  // magic, version, number of pages
inline constexpr std::size_t kParcelPageBytes = 32;    // before the records of a page
inline constexpr std::size_t kParcelAlignment = 8;     // of the records
// Flags of a page.
inline constexpr std::uint32_t kValuesLeftOut = 1;

// The stream of rows that AddRows adds: where they go, nobody asks for streams.
inline constexpr StreamId kStreamInParcel{1};

// Adds rows to a parcel as a page of their own, in their order, and nothing if there are none.
// Returns kStorage if they cannot be compressed. REQUIRES: the stream of each is kStreamInParcel;
// there are at most kPageRowsMax rows with kPageBytesMax bytes together
Status AddRows(std::span<const PackedRow> rows, PageParts parts, ParcelBuilder* out);

// Returns a size rounded up, so that what follows is aligned.
constexpr std::size_t Aligned(std::size_t size) {
  return (size + kParcelAlignment - 1) / kParcelAlignment * kParcelAlignment;
}

}  // namespace topicdb::columnar
