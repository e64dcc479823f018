#include "arrow/arrow_bytes.h"

#include <charconv>
#include <cstring>

namespace topicdb {

namespace {

using Encoding = ArrowBytesType::Encoding;
using Bytes = std::optional<std::string_view>;

// A view begins with the length of the row. If that is at most kInlineMax, the bytes follow.
// Otherwise their first four follow, the number of a buffer, and the place in the buffer where they
// begin.
constexpr std::size_t kViewBytes = 16;
constexpr std::int32_t kInlineMax = 12;

template <typename T>
T Load(const void* buffer, std::size_t at) {
  T value;
  std::memcpy(&value, static_cast<const char*>(buffer) + at * sizeof(T), sizeof(T));
  return value;
}

// Reads a row of an array with offsets, as ArrowBytesReader::Read does.
template <typename Offset>
const char* ReadOffsets(const ArrowArray& array, std::size_t at, Bytes* bytes) {
  const auto begin = Load<Offset>(array.buffers[1], at);
  const auto end = Load<Offset>(array.buffers[1], at + 1);
  if (begin < 0 || end < begin) return "its offsets in the Arrow array go backwards";
  const auto size = static_cast<std::size_t>(end - begin);
  if (size == 0) {
    *bytes = "";
    return nullptr;
  }
  if (array.buffers[2] == nullptr) return "the Arrow array has no bytes for it";
  *bytes = std::string_view(static_cast<const char*>(array.buffers[2]) + begin, size);
  return nullptr;
}

// Returns an index or a run end in a buffer of the type `format`. Returns -1 for one that is too
// large for any array.
std::int64_t IndexAt(const ArrowArray& array, char format, std::size_t at) {
  const void* buffer = array.buffers[1];
  switch (format) {
    case 'c':
      return Load<std::int8_t>(buffer, at);
    case 'C':
      return Load<std::uint8_t>(buffer, at);
    case 's':
      return Load<std::int16_t>(buffer, at);
    case 'S':
      return Load<std::uint16_t>(buffer, at);
    case 'i':
      return Load<std::int32_t>(buffer, at);
    case 'I':
      return Load<std::uint32_t>(buffer, at);
    case 'l':
      return Load<std::int64_t>(buffer, at);
    case 'L': {
      const auto index = Load<std::uint64_t>(buffer, at);
      return index > INT64_MAX ? -1 : static_cast<std::int64_t>(index);
    }
    default:
      return -1;
  }
}

// Returns the type of a column that has the bytes of its rows itself, or nothing if the format is
// another one.
std::optional<ArrowBytesType> PlainType(std::string_view format) {
  ArrowBytesType type;
  type.is_text = format == "u" || format == "U" || format == "vu";
  if (format == "u" || format == "z") {
    type.encoding = Encoding::kOffsets32;
  } else if (format == "U" || format == "Z") {
    type.encoding = Encoding::kOffsets64;
  } else if (format == "vu" || format == "vz") {
    type.encoding = Encoding::kView;
  } else if (format.starts_with("w:")) {
    type.encoding = Encoding::kFixed;
    const std::string_view width = format.substr(2);
    const auto parsed = std::from_chars(width.data(), width.data() + width.size(), type.width);
    if (parsed.ec != std::errc() || parsed.ptr != width.data() + width.size()) return std::nullopt;
  } else {
    return std::nullopt;
  }
  return type;
}

// Returns the type of a column whose rows refer to rows of another column: of a dictionary, or of
// runs. Returns nothing if it is not one of strings or bytes.
std::optional<ArrowBytesType> IndirectType(Encoding encoding, const ArrowSchema& indexes,
                                           std::string_view index_formats,
                                           const ArrowSchema* values) {
  const std::string_view format = indexes.format == nullptr ? "" : indexes.format;
  if (format.size() != 1 || index_formats.find(format) == std::string_view::npos)
    return std::nullopt;
  if (values == nullptr) return std::nullopt;
  std::optional<ArrowBytesType> inner = ArrowBytesType::Of(*values);
  if (!inner.has_value()) return std::nullopt;
  ArrowBytesType type;
  type.encoding = encoding;
  type.is_text = inner->is_text;
  type.index = format.front();
  type.values = std::make_shared<const ArrowBytesType>(*std::move(inner));
  return type;
}

Status WrongShape(const char* what) {
  return InvalidArgument(std::string("an Arrow array is not as its schema says: ") + what);
}

// Returns how many buffers every array of the encoding has.
std::int64_t BuffersMin(Encoding encoding) {
  switch (encoding) {
    case Encoding::kOffsets32:
    case Encoding::kOffsets64:
    case Encoding::kView:  // validity, views, and the sizes of as many buffers as there are
      return 3;
    case Encoding::kFixed:
    case Encoding::kDictionary:
      return 2;
    case Encoding::kRunEnds:
      return 0;
  }
  return 0;
}

}  // namespace

bool IsNullAt(const ArrowArray& array, std::size_t at) {
  if (array.null_count == 0 || array.n_buffers == 0 || array.buffers[0] == nullptr) return false;
  const auto* bits = static_cast<const std::uint8_t*>(array.buffers[0]);
  return (bits[at / 8] >> (at % 8) & 1) == 0;
}

std::optional<ArrowBytesType> ArrowBytesType::Of(const ArrowSchema& schema) {
  if (schema.format == nullptr) return std::nullopt;
  if (schema.dictionary != nullptr) {
    return IndirectType(Encoding::kDictionary, schema, "cCsSiIlL", schema.dictionary);
  }
  if (std::string_view(schema.format) == "+r") {
    if (schema.n_children != 2 || schema.children == nullptr) return std::nullopt;
    return IndirectType(Encoding::kRunEnds, *schema.children[0], "sil", schema.children[1]);
  }
  return PlainType(schema.format);
}

Result<ArrowBytesReader> ArrowBytesReader::Make(const ArrowBytesType& type,
                                                const ArrowArray& array) {
  ArrowBytesReader reader(type, array);
  TOPICDB_RETURN_IF_ERROR(reader.CheckShape());
  if (type.values != nullptr) {
    const ArrowArray& values =
        type.encoding == Encoding::kDictionary ? *array.dictionary : *array.children[1];
    TOPICDB_ASSIGN_OR_RETURN(ArrowBytesReader inner, Make(*type.values, values));
    reader.values_ = std::make_unique<ArrowBytesReader>(std::move(inner));
  }
  return reader;
}

Status ArrowBytesReader::CheckShape() const {
  std::int64_t end = 0;
  if (array_->length < 0 || array_->offset < 0 ||
      __builtin_add_overflow(array_->length, array_->offset, &end)) {
    return WrongShape("its length or offset is not possible");
  }
  const std::int64_t buffers_min = BuffersMin(type_->encoding);
  if (array_->n_buffers < buffers_min || (buffers_min > 0 && array_->buffers == nullptr)) {
    return WrongShape("buffers are missing");
  }
  if (type_->encoding == Encoding::kRunEnds) {
    if (array_->n_children != 2 || array_->children == nullptr) return WrongShape("it has no runs");
    const ArrowArray& ends = *array_->children[0];
    if (ends.length < 0 || ends.offset < 0 || ends.n_buffers < 2 ||
        (ends.length > 0 && ends.buffers[1] == nullptr)) {
      return WrongShape("it has no ends of runs");
    }
  } else if (array_->length > 0 && array_->buffers[1] == nullptr &&
             !(type_->encoding == Encoding::kFixed && type_->width == 0)) {
    return WrongShape("the buffer of its rows is missing");
  }
  if (type_->encoding == Encoding::kDictionary && array_->dictionary == nullptr) {
    return WrongShape("its dictionary is missing");
  }
  if (type_->encoding == Encoding::kView && array_->n_buffers > buffers_min &&
      array_->buffers[array_->n_buffers - 1] == nullptr) {
    return WrongShape("the sizes of its buffers are missing");
  }
  return Status::Ok();
}

const char* ArrowBytesReader::Read(std::size_t row, Bytes* bytes) {
  const std::size_t at = row + static_cast<std::size_t>(array_->offset);
  if (type_->encoding == Encoding::kRunEnds) return ReadRun(at, bytes);
  if (IsNullAt(*array_, at)) {
    bytes->reset();
    return nullptr;
  }
  switch (type_->encoding) {
    case Encoding::kOffsets32:
      return ReadOffsets<std::int32_t>(*array_, at, bytes);
    case Encoding::kOffsets64:
      return ReadOffsets<std::int64_t>(*array_, at, bytes);
    case Encoding::kView:
      return ReadView(at, bytes);
    case Encoding::kFixed:
      *bytes = std::string_view(
          type_->width == 0 ? "" : static_cast<const char*>(array_->buffers[1]) + at * type_->width,
          type_->width);
      return nullptr;
    case Encoding::kDictionary:
      return ReadIndexed(at, bytes);
    case Encoding::kRunEnds:
      break;  // above
  }
  return nullptr;
}

const char* ArrowBytesReader::ReadView(std::size_t at, Bytes* bytes) const {
  const char* view = static_cast<const char*>(array_->buffers[1]) + at * kViewBytes;
  const auto length = Load<std::int32_t>(view, 0);
  if (length < 0) return "its length in the Arrow array is negative";
  if (length <= kInlineMax) {
    *bytes = std::string_view(view + sizeof(std::int32_t), static_cast<std::size_t>(length));
    return nullptr;
  }
  const auto buffer = Load<std::int32_t>(view, 2);
  const auto begin = Load<std::int32_t>(view, 3);
  // The buffers of validity and views come first. The last buffer has the sizes of those between.
  if (buffer < 0 || buffer >= array_->n_buffers - 3 || array_->buffers[2 + buffer] == nullptr) {
    return "it is in a buffer that the Arrow array does not have";
  }
  const auto size =
      Load<std::int64_t>(array_->buffers[array_->n_buffers - 1], static_cast<std::size_t>(buffer));
  if (begin < 0 || std::int64_t{begin} + length > size) {
    return "it passes the end of its buffer in the Arrow array";
  }
  *bytes = std::string_view(static_cast<const char*>(array_->buffers[2 + buffer]) + begin,
                            static_cast<std::size_t>(length));
  return nullptr;
}

const char* ArrowBytesReader::ReadIndexed(std::size_t at, Bytes* bytes) {
  const std::int64_t index = IndexAt(*array_, type_->index, at);
  if (index < 0 || static_cast<std::size_t>(index) >= values_->length()) {
    return "its index passes the end of the Arrow array's dictionary";
  }
  return values_->Read(static_cast<std::size_t>(index), bytes);
}

std::int64_t ArrowBytesReader::RunEnd(std::size_t run) const {
  const ArrowArray& ends = *array_->children[0];
  return IndexAt(ends, type_->index, run + static_cast<std::size_t>(ends.offset));
}

// Looks at the run that was read last and at the next one, then searches by halving.
bool ArrowBytesReader::FindRun(std::int64_t at) {
  const auto runs = static_cast<std::size_t>(array_->children[0]->length);
  const auto holds = [&](std::size_t run) {
    return run < runs && RunEnd(run) > at && (run == 0 || RunEnd(run - 1) <= at);
  };
  if (holds(run_)) return true;
  if (holds(run_ + 1)) {
    ++run_;
    return true;
  }
  std::size_t low = 0;
  std::size_t high = runs;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (RunEnd(middle) > at) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  run_ = low;
  return low < runs;
}

const char* ArrowBytesReader::ReadRun(std::size_t at, Bytes* bytes) {
  if (!FindRun(static_cast<std::int64_t>(at)) || run_ >= values_->length()) {
    return "it is behind the last run of the Arrow array";
  }
  return values_->Read(run_, bytes);
}

}  // namespace topicdb
