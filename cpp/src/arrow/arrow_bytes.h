// Reads columns of strings and byte strings of Arrow arrays, in any encoding that Arrow has for
// them: offsets of 32 or 64 bits, views, fixed size, dictionaries and run ends, the last two over
// any of the others.
//
// The C data interface does not tell how large buffers are, so the reader trusts an array to be as
// long as it says. It checks all else that a damaged or hostile array could say before it follows
// it: the number of buffers, children and dictionaries, the order of offsets, and indexes into
// dictionaries, runs and buffers of views.
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

// How a column of a schema encodes its rows. It may outlive the schema.
struct ArrowBytesType {
  // How the rows are in the buffers of an array.
  enum class Encoding : std::uint8_t {
    kOffsets32,
    kOffsets64,
    kView,
    kFixed,
    kDictionary,
    kRunEnds
  };

  // Returns the type of a column, or nothing if it does not hold strings or byte strings.
  static std::optional<ArrowBytesType> Of(const ArrowSchema& schema);

  Encoding encoding = Encoding::kOffsets32;
  bool is_text = false;   // a string type: Arrow promises UTF-8
  std::size_t width = 0;  // kFixed: bytes of a row
  char index = 0;         // kDictionary, kRunEnds: Arrow's format of the indexes or run ends
  std::shared_ptr<const ArrowBytesType> values;  // kDictionary, kRunEnds: what these refer to
};

// Reads the rows of one array. ArrowMessages makes it for one call. The type and the array must
// outlive it. Not thread-safe.
class ArrowBytesReader {
 public:
  // Returns kInvalidArgument if the array does not have the shape of its type.
  static Result<ArrowBytesReader> Make(const ArrowBytesType& type, const ArrowArray& array);

  // Sets `bytes` to the row, or to nothing if the row is null. The bytes belong to the array. `row`
  // counts from the array's own offset. Returns null, or a text that says why the row cannot be
  // read. REQUIRES: row < length()
  const char* Read(std::size_t row, std::optional<std::string_view>* bytes);

  std::size_t length() const { return static_cast<std::size_t>(array_->length); }

 private:
  ArrowBytesReader(const ArrowBytesType& type, const ArrowArray& array)
      : type_(&type), array_(&array) {}

  // Returns kInvalidArgument if buffers, children or the dictionary are missing.
  Status CheckShape() const;
  // Read a row as Read does. `at` includes the array's offset.
  const char* ReadView(std::size_t at, std::optional<std::string_view>* bytes) const;
  const char* ReadIndexed(std::size_t at, std::optional<std::string_view>* bytes);
  const char* ReadRun(std::size_t at, std::optional<std::string_view>* bytes);
  // Returns the number of the row behind a run. REQUIRES: the encoding is kRunEnds
  std::int64_t RunEnd(std::size_t run) const;
  // Sets run_ to the run that has a row. Returns false if there is none.
  bool FindRun(std::int64_t at);

  const ArrowBytesType* type_;
  const ArrowArray* array_;
  std::unique_ptr<ArrowBytesReader> values_;  // of a dictionary or of runs
  std::size_t run_ = 0;  // the run that was read last: rows mostly come in order
};

// Returns whether the validity bitmap of an array says that a row is null. `at` includes the
// array's offset.
bool IsNullAt(const ArrowArray& array, std::size_t at);

}  // namespace topicdb
