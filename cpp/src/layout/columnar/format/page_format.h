// What the kinds of pages have in common: headers, checksums and varint columns. Only page*.cc and
// topic_list.* use it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "layout/columnar/format/page.h"

namespace topicdb::columnar {

inline constexpr std::size_t kHeaderBytes = 64;
inline constexpr std::size_t kValuesHeaderBytes = 20;
inline constexpr std::size_t kCrcBytes = 4;
inline constexpr std::size_t kPackedColumns = 5;  // besides the values

// A decoded header of a page, or of the record of a page's keys.
struct PageHeader {
  PageKind kind = PageKind::kPlain;
  PageForm form = PageForm::kTogether;  // kApart only if packed
  PageCodec codec = PageCodec::kNone;
  std::uint32_t rows = 0;
  std::uint32_t topics = 0;
  std::uint32_t runs = 0;  // plain only
  Extent extent;
  std::uint32_t topic_bytes = 0;   // plain only
  std::uint32_t body_bytes = 0;    // packed only: of this record, before compression
  std::uint32_t value_bytes = 0;   // wherever they are
  std::uint32_t stored_bytes = 0;  // between header and checksum
};

// Appends the kHeaderBytes bytes of a header.
void AppendHeader(const PageHeader& header, std::string* out);
// Decodes the header of a page. Checks the size and checksum of the page, and what the header alone
// can tell. Returns kCorruption if something is wrong.
Result<PageHeader> ReadHeader(std::string_view page);
// Returns kCorruption with a message that says what is wrong with the page.
Status PageFault(const char* what);

// A decoded header of the record of a page's values.
struct ValuesHeader {
  PageCodec codec = PageCodec::kLz4;
  std::uint32_t rows = 0;
  std::uint32_t value_bytes = 0;    // before compression
  std::uint32_t stored_bytes = 0;   // between header and checksum
  std::uint32_t keys_checksum = 0;  // of the record of keys of the same page
};

// Appends the kValuesHeaderBytes bytes of a header.
void AppendHeader(const ValuesHeader& header, std::string* out);
// Decodes the header of a record of values. Checks the size and checksum of the record, and what
// the header alone can tell. Returns kCorruption if something is wrong.
Result<ValuesHeader> ReadValuesHeader(std::string_view record);

// Map integers to unsigned ones and back, so that a small absolute value becomes a short varint.
inline std::uint64_t ZigZag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
inline std::int64_t UnZigZag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

// Reads varints that are stored one behind the other. Like Decoder, it fails for good at a read
// past the end. It is faster than Decoder for millions of varints. The bytes must outlive it. Not
// thread-safe.
class VarintReader {
 public:
  explicit VarintReader(std::string_view bytes)
      : next_(reinterpret_cast<const std::uint8_t*>(bytes.data())), end_(next_ + bytes.size()) {}

  // Returns the next varint, or 0 after a failure.
  std::uint64_t Next() {
    if (next_ < end_ && *next_ < 0x80) return *next_++;
    if (end_ - next_ >= kWordBytes) {
      std::uint64_t word;
      std::memcpy(&word, next_, sizeof word);
      const std::uint64_t ends = ~word & kHighBits;  // the last byte of a varint lacks this bit
      if (ends != 0) return TakeWord(word, std::countr_zero(ends));
    }
    return NextLong();
  }
  // Returns the next `size` bytes, or nothing if there are fewer.
  std::string_view Bytes(std::size_t size) {
    if (size > static_cast<std::size_t>(end_ - next_)) {
      ok_ = false;
      return {};
    }
    const std::string_view bytes(reinterpret_cast<const char*>(next_), size);
    next_ += size;
    return bytes;
  }
  // Returns whether all bytes were read without a failure.
  bool Finished() const { return ok_ && next_ == end_; }
  bool ok() const { return ok_; }

 private:
  static constexpr std::ptrdiff_t kWordBytes = 8;
  static constexpr std::uint64_t kHighBits = 0x8080808080808080;

  // Returns the varint that the word at next_ begins with, and moves behind it. `end_bit` is the
  // highest bit of the last byte of the varint.
  std::uint64_t TakeWord(std::uint64_t word, int end_bit) {
    next_ += end_bit / 8 + 1;
    // Drops what follows the varint, and then brings bits together: 7 of each byte, 14 of each
    // pair of bytes, 28 of each half.
    word &= ~std::uint64_t{0} >> (63 - end_bit) & ~kHighBits;
    word = (word & 0x7f007f007f007f00) >> 1 | (word & 0x007f007f007f007f);
    word = (word & 0x3fff00003fff0000) >> 2 | (word & 0x00003fff00003fff);
    return (word & 0x0fffffff00000000) >> 4 | (word & 0x000000000fffffff);
  }
  // Does the work of Next for a varint of several bytes.
  std::uint64_t NextLong() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (next_ == end_) break;
      const std::uint64_t byte = *next_++;
      if (shift == 63 && byte > 1) break;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }

  const std::uint8_t* next_;
  const std::uint8_t* end_;
  bool ok_ = true;
};

// Compresses the bodies of pages, one after the other. Whoever encodes the pages owns it. Not
// thread-safe.
class PageCompressor {
 public:
  explicit PageCompressor(PageCodec codec);
  ~PageCompressor();
  PageCompressor(const PageCompressor&) = delete;
  PageCompressor& operator=(const PageCompressor&) = delete;

  PageCodec codec() const { return codec_; }
  // Appends the compressed body to `out`. Returns kStorage if it cannot be compressed.
  Status Compress(std::string_view body, std::string* out);

 private:
  const PageCodec codec_;
  struct Contexts;
  const std::unique_ptr<Contexts> contexts_;
};

// Decompresses `stored` to exactly `size` bytes at `out`. Returns kCorruption if the stored bytes
// do not decompress to that size.
Status Decompress(PageCodec codec, std::string_view stored, char* out, std::size_t size);
// Returns true if `stored` compressed bytes can be a body of `size` bytes.
bool IsPossibleSize(PageCodec codec, std::size_t stored, std::size_t size);

// Decompresses a body of `size` bytes into new memory. Returns kCorruption as Decompress does, or
// if the size is impossible.
Result<std::unique_ptr<char[]>> DecompressBody(PageCodec codec, std::string_view stored,
                                               std::size_t size);

// The two classes decode the columns of a page. They are friends of Page and have no state.
class PlainDecoder {
 public:
  // Fills `page`, whose `stored_` is set. Returns kCorruption if the columns are malformed.
  static Status Decode(const PageHeader& header, Page* page);
};
class PackedDecoder {
 public:
  // Fills `page` from its records. `keys` is the whole page if it is one record. `placement` is
  // null unless the page is a staged one. Returns kCorruption if a record is malformed, or if they
  // are not of one page.
  static Status Decode(const PageHeader& header, std::string_view keys, std::string_view values,
                       PageParts parts, const Placement* placement, Page* page);

 private:
  // Decode the columns besides the values, and set the values unless the page is to have none.
  // DecodeTogether is for a page that is one record.
  // Both return the rest of the body.
  static Result<std::string_view> DecodeTogether(const PageHeader& header, std::string_view body,
                                                 Page* page);
  static Result<std::string_view> DecodeApart(const PageHeader& header, std::string_view body,
                                              std::string_view values, std::uint32_t keys_checksum,
                                              Page* page);
  // Decodes the columns of numbers and topics into memory of the page. `body` is what is stored of
  // a page without its values. DecodeRows does so with the columns that the body has, and
  // DecodeTimes with those of topics and times alone.
  static Status DecodeColumns(const PageHeader& header, std::string_view body, PageParts parts,
                              Page* page);
  static Status DecodeRows(const PageHeader& header,
                           std::span<const std::string_view, kPackedColumns> columns, Page* page);
  static Status DecodeTimes(const PageHeader& header,
                            std::span<const std::string_view, kPackedColumns> columns, Page* page);
  // Replaces the groups, serials and times of a staged page with the streams, serial and timestamps
  // of its messages.
  static Status Place(const Placement& placement, Page* page);
};

}  // namespace topicdb::columnar
