// Parcels: messages on their way to another process, in the form in which they are stored.
//
// A parcel is a run of pages. docs/internals/parcels.md draws its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "topicdb/message.h"
#include "topicdb/status.h"
#include "topicdb/types/read.h"

namespace topicdb {

namespace columnar {
class Page;
}

// The version of the form of parcels that this library makes and reads.
inline constexpr std::uint32_t kParcelVersion = 1;

// Some messages of a scan (Scan::NextParcel).
struct Parcel {
  std::string bytes;
  std::uint64_t messages = 0;
};

// Unpacks the parcels of one scan, one after the other. It needs no database. Whoever makes it owns
// it. Not thread-safe.
class ParcelReader {
 public:
  // Without values, batches have empty ones, and the bytes of values are not looked at.
  explicit ParcelReader(bool with_values) : with_values_(with_values) {}
  ~ParcelReader();
  ParcelReader(const ParcelReader&) = delete;
  ParcelReader& operator=(const ParcelReader&) = delete;

  // Begins a parcel, and forgets what is left of the one before. The bytes must live until the next
  // call, or as long as the reader. Returns kCorruption if they are no parcel.
  // REQUIRES: the bytes begin at a multiple of 8
  Status Begin(std::string_view bytes);
  // Returns the next messages, at least one, or null at the end of the parcel. Compares the
  // checksums of each page. Returns kCorruption if a page is damaged, and again in further calls.
  Result<std::shared_ptr<const Batch>> Next(const PageLimits& limits);

 private:
  // Decodes the next page to page_. REQUIRES: there is one
  Status NextPage();

  const bool with_values_;
  std::string_view rest_;         // of the parcel
  std::uint32_t pages_left_ = 0;  // in rest_
  std::shared_ptr<const columnar::Page> page_;
  std::uint32_t row_ = 0;  // of page_: the next one
  Status failure_;
};

}  // namespace topicdb
