// Columns of strings and byte strings of Arrow arrays, in any encoding that Arrow has for them:
// with offsets of 32 or 64 bits, views, fixed size, dictionaries and run ends, the last two over
// any of the others.
//
// The C data interface does not tell how large buffers are, so an array is trusted to be as long as
// it says. All else that a damaged or hostile array could say is checked before it is followed: the
// number of buffers, children and dictionaries, the order of offsets, indexes into dictionaries,
// runs and buffers of views.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/arrow_abi.h"
#include "topicdb/status.h"

namespace topicdb {

// How a column of a schema encodes its rows. A value: it does not keep the schema.
struct ArrowBytesType {
  enum class Encoding : std::uint8_t {
    kOffsets32,
    kOffsets64,
    kView,
    kFixed,
    kDictionary,
    kRunEnds
  };

  // Returns nothing if the column holds no strings or byte strings.
  static std::optional<ArrowBytesType> Of(const ArrowSchema& schema);

  Encoding encoding = Encoding::kOffsets32;
  bool is_text = false;   // a string type: Arrow promises UTF-8
  std::size_t width = 0;  // kFixed: bytes of a row
  char index = 0;         // kDictionary, kRunEnds: Arrow's format of the indexes or run ends
  std::shared_ptr<const ArrowBytesType> values;  // kDictionary, kRunEnds: what these stand for
};

// Reads the rows of one array. It borrows the type and the array. One thread uses it at a time.
class ArrowBytesReader {
 public:
  // kInvalidArgument: the array does not have the shape of its type.
  static Result<ArrowBytesReader> Make(const ArrowBytesType& type, const ArrowArray& array);

  // Sets `bytes` to the row, or to nothing where it is null; the bytes are the array's. Returns
  // null, or why the row cannot be read. `row` counts from the array's own offset. REQUIRES: row <
  // length()
  const char* Read(std::size_t row, std::optional<std::string_view>* bytes);

  std::size_t length() const { return static_cast<std::size_t>(array_->length); }

 private:
  ArrowBytesReader(const ArrowBytesType& type, const ArrowArray& array)
      : type_(&type), array_(&array) {}

  Status CheckShape() const;
  const char* ReadView(std::size_t at, std::optional<std::string_view>* bytes) const;
  const char* ReadIndexed(std::size_t at, std::optional<std::string_view>* bytes);
  const char* ReadRun(std::size_t at, std::optional<std::string_view>* bytes);
  // REQUIRES: kRunEnds
  std::int64_t RunEnd(std::size_t run) const;
  bool FindRun(std::int64_t at);

  const ArrowBytesType* type_;
  const ArrowArray* array_;
  std::unique_ptr<ArrowBytesReader> values_;  // of a dictionary or of runs
  std::size_t run_ = 0;  // the one that was read last: rows mostly come in order
};

// Whether a row of an array is null by its validity bitmap; `at` includes the array's offset.
bool IsNullAt(const ArrowArray& array, std::size_t at);

}  // namespace topicdb
