// A page: messages as columns, the unit that is written, checksummed and read.
// docs/internals/format.md draws the bytes. A page has one of two forms:
//
//   plain   a fresh block: messages in the order of their commits; columns are as they are in
//           memory, so that writing is a copy and reading a view
//   packed  a part of a sealed block: sorted by stream, topic, timestamp, serial and index;
//           differences as varints, then compressed. Its keys and its values are two records,
//           which are compressed and checksummed apart, so that a read without values leaves the
//           values where they are. Early packed pages are one record
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/status.h"
#include "topicdb/types/numbers.h"

namespace topicdb::columnar {

static_assert(std::endian::native == std::endian::little, "columns are read where they lie");

// The form of a page, and how it is compressed. DO NOT CHANGE THESE VALUES: they are on disk. Zero
// is no kind and no codec.
enum class PageKind : std::uint8_t { kPlain = 1, kPacked = 2 };
enum class PageCodec : std::uint8_t { kNone = 1, kZstd = 2, kLz4 = 3 };
// The version of a packed page: whether its keys and values are one record, or two. DO NOT CHANGE
// THESE VALUES: they are on disk.
enum class PageForm : std::uint8_t { kTogether = 1, kApart = 2 };

// What a read needs of pages. Keys are everything but the bytes of the values. Times are the
// timestamps and topics of the rows, without serials, indexes and sizes of values.
enum class PageParts { kAll, kKeys, kTimes };

// The smallest and largest timestamp and serial of the messages of a page or block.
struct Extent {
  std::int64_t first_time = 0;
  std::int64_t last_time = 0;
  Serial first_serial;
  Serial last_serial;

  bool operator==(const Extent&) const = default;
  // Extend the bounds so that they include a message, or all messages of another extent.
  void Include(std::int64_t time, Serial serial);
  void Include(const Extent& other);
};

// Rows of one commit that follow each other in a page and have successive indexes.
struct SerialRun {
  Serial serial;
  std::uint32_t rows;
  std::uint32_t first_index;
};
static_assert(sizeof(SerialRun) == 16);

struct Placement;  // block_format.h

// A page as it is stored.
struct StoredPage {
  std::string keys;  // the whole page, or its keys if the values are a record of their own
  // The record of the values. Empty if the page is one record, if all values are empty, or if the
  // values are not wanted.
  std::string values = {};
};

// A decoded page. Readers share it by pointers. Immutable, and therefore thread-safe. The views
// that its methods return are valid as long as the page lives.
class Page {
 public:
  // Checks and decodes a page, and takes over its bytes. The page has no values unless `parts` is
  // PageParts::kAll, whatever `stored` has. `placement` is that of the page's block if the block is
  // a staged one, and null otherwise. Returns kCorruption if the bytes cannot be a page, or if
  // values are wanted and missing.
  static Result<std::shared_ptr<const Page>> Decode(StoredPage stored, PageParts parts,
                                                    const Placement* placement = nullptr);
  // As above, for a page that is one record.
  static Result<std::shared_ptr<const Page>> Decode(std::string bytes,
                                                    const Placement* placement = nullptr) {
    return Decode(StoredPage{std::move(bytes)}, PageParts::kAll, placement);
  }
  // As above, but the bytes are in the memory of `owner`. The page keeps `owner` as long as it
  // needs the bytes. REQUIRES: the bytes begin at a multiple of 8
  static Result<std::shared_ptr<const Page>> Decode(std::string_view bytes,
                                                    std::shared_ptr<const void> owner);
  // As the first one, but the records of the page are in the memory of `owner`, or, if it is null,
  // in memory that outlives the page.
  // REQUIRES: the record of keys begins at a multiple of 8
  static Result<std::shared_ptr<const Page>> Decode(std::string_view keys, std::string_view values,
                                                    std::shared_ptr<const void> owner,
                                                    PageParts parts, const Placement* placement);

  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  std::uint32_t rows() const { return rows_; }
  // Returns the bounds of the messages' timestamps and serials.
  const Extent& extent() const { return extent_; }
  // Returns the number of topics. Topics of a plain page may repeat. Topics of a packed page are
  // sorted by stream and topic.
  std::uint32_t topics() const { return static_cast<std::uint32_t>(topic_ends_.size()); }
  // REQUIRES (topic, stream): topic < topics()
  std::string_view topic(std::uint32_t topic) const {
    const std::uint32_t begin = topic == 0 ? 0 : topic_ends_[topic - 1];
    return topic_bytes_.substr(begin, topic_ends_[topic] - begin);
  }
  // Returns the stream of a topic, or its group if the page is that of a staged block and was
  // decoded without the block's placement.
  StreamId stream(std::uint32_t topic) const { return StreamId{streams_[topic]}; }
  // Returns false if the page was decoded without the bytes of its values. Its rows then have empty
  // values, and values() is empty.
  bool has_values() const { return has_values_; }
  // Returns false if the page was decoded with PageParts::kTimes and is a packed one. Its rows then
  // have no serial, index or value size.
  bool has_serials() const { return serials_.size() == rows_; }
  // REQUIRES (topic_of, time, serial, index, value, value_size, PrefetchRow, PrefetchValue):
  // row < rows()
  // REQUIRES (serial, index, value_size, value_offsets, PrefetchRow): has_serials()
  // Return the topic of a row, by its number in the page, and the other parts of the message.
  std::uint32_t topic_of(std::uint32_t row) const { return row_topics_[row]; }
  std::int64_t time(std::uint32_t row) const { return times_[row]; }
  Serial serial(std::uint32_t row) const { return Serial{serials_[row]}; }
  std::uint32_t index(std::uint32_t row) const { return indexes_[row]; }
  std::string_view value(std::uint32_t row) const {
    if (!has_values_) return {};
    return values_.substr(value_offsets_[row], value_size(row));
  }
  // Returns the size of the stored value, which a page without values knows, too.
  std::size_t value_size(std::uint32_t row) const {
    return value_offsets_[row + 1] - value_offsets_[row];
  }
  // Returns rows() + 1 offsets into the values. No offset exceeds 2^31 - 1.
  std::span<const std::int32_t> value_offsets() const { return signed_offsets_; }
  // Returns the values of all rows, one behind the other.
  std::string_view values() const { return values_; }
  // Returns the bytes of the topics of the page.
  std::size_t topic_bytes() const { return topic_bytes_.size(); }
  // Let the processor fetch a row ahead of its use. PrefetchRow fetches what tells where the parts
  // of the row are, and PrefetchValue fetches those parts.
  void PrefetchRow(std::uint32_t row) const {
    __builtin_prefetch(&value_offsets_[row]);
    __builtin_prefetch(&row_topics_[row]);
    __builtin_prefetch(&times_[row]);
  }
  void PrefetchValue(std::uint32_t row) const {
    constexpr std::size_t kLineBytes = 64;
    constexpr std::size_t kPrefetchBytesMax = 512;  // the processor fetches more by itself
    const std::string_view bytes = value(row).substr(0, kPrefetchBytesMax);
    for (std::size_t i = 0; i < bytes.size(); i += kLineBytes) __builtin_prefetch(&bytes[i]);
    __builtin_prefetch(topic(row_topics_[row]).data());
  }
  // Return the timestamps and serials of all rows.
  std::span<const std::int64_t> times() const { return times_; }
  std::span<const std::uint64_t> serials() const { return serials_; }
  // Returns the memory that the page takes.
  std::size_t memory_bytes() const;

 private:
  friend class PlainDecoder;
  friend class PackedDecoder;
  Page() = default;
  // Decodes the columns, as Decode does. `keys` and `values` are the records of a StoredPage.
  Status DecodeRecords(std::string_view keys, std::string_view values,
                       std::shared_ptr<const void> owner, PageParts parts,
                       const Placement* placement);

  // The bytes as they are stored. The columns point into them, or into the memory at the end of the
  // class. Empty if no column points into them.
  std::string_view stored_;
  std::shared_ptr<const void> owner_;  // owns the bytes of stored_
  std::uint32_t rows_ = 0;
  Extent extent_;
  std::span<const std::uint32_t> topic_ends_;
  std::span<const std::uint32_t> streams_;
  std::string_view topic_bytes_;
  std::span<const std::uint32_t> row_topics_;
  std::span<const std::int64_t> times_;
  std::span<const std::uint64_t> serials_;
  std::span<const std::uint32_t> indexes_;
  std::span<const std::uint32_t> value_offsets_;
  std::span<const std::int32_t> signed_offsets_;  // the memory of value_offsets_, as Arrow wants it
  std::string_view values_;
  bool has_values_ = true;

  // Columns that are not stored in the form in which they are used.
  std::unique_ptr<char[]> body_;  // decompressed, with the values in it
  std::size_t body_bytes_ = 0;
  std::unique_ptr<std::uint64_t[]> numbers_;  // all columns of numbers, one behind the other
  std::size_t numbers_bytes_ = 0;
  std::string own_topics_;
};

// A page has at most this many rows. Each of its parts has at most this many bytes.
inline constexpr std::uint32_t kPageRowsMax = 1 << 20;
inline constexpr std::size_t kPageBytesMax = std::size_t{1} << 30;

// Builds plain pages, one after the other: keeps the columns of a page while they grow. A writer or
// a spill lane owns it. Not thread-safe.
class PlainPageBuilder {
 public:
  // Adds a topic and returns its number in this page, counted from 0.
  std::uint32_t AddTopic(StreamId stream, std::string_view topic);
  // Adds a row, and copies its value.
  // REQUIRES: AddTopic returned `topic` for this page; serials do not decrease from call to call
  void AddRow(std::uint32_t topic, std::int64_t time, Serial serial, std::uint32_t index,
              std::string_view value);

  std::uint32_t rows() const { return static_cast<std::uint32_t>(times_.size()); }
  // Returns the bytes of topics and values.
  std::size_t bytes() const { return topic_bytes_.size() + values_.size(); }
  // Returns the bounds of the rows' timestamps and serials. REQUIRES: rows() > 0
  const Extent& extent() const { return extent_; }
  // Returns the streams of the page, each once, sorted.
  std::vector<StreamId> Streams() const;
  // Makes room in an empty page for `rows` rows that have `bytes` bytes together.
  void Reserve(std::size_t rows, std::size_t bytes);

  // Returns the parts of the page, which the caller stores one behind the other. They point into
  // the builder, and are valid until it changes. REQUIRES: rows() > 0
  std::vector<std::string_view> Encode();
  // Begins a new page. Keeps the memory of the columns.
  void Clear();

 private:
  std::vector<std::uint32_t> topic_ends_;
  std::vector<std::uint32_t> streams_;
  std::string topic_bytes_;
  std::vector<std::uint32_t> row_topics_;
  std::vector<std::int64_t> times_;
  std::vector<SerialRun> runs_;
  std::vector<std::uint32_t> value_offsets_{0};
  std::string values_;
  Extent extent_;
  std::string header_;
  std::string crc_;
};

// A message that is to become a row of a packed page.
struct PackedRow {
  StreamId stream;  // of a staged block: the group of the topic
  std::string_view topic;
  std::int64_t time;
  Serial serial;
  std::uint32_t index;
  std::string_view value;
};

// Encodes packed pages, one after the other. Lives as long as one block is built. Not thread-safe.
class PackedPageEncoder {
 public:
  // REQUIRES: codec is not kNone
  explicit PackedPageEncoder(PageCodec codec);
  ~PackedPageEncoder();
  PackedPageEncoder(const PackedPageEncoder&) = delete;
  PackedPageEncoder& operator=(const PackedPageEncoder&) = delete;

  // These append a record to `out`, and return kStorage if it cannot be compressed.
  // REQUIRES (Encode, EncodeKeys): at least one row; rows are sorted by stream, topic, timestamp,
  // serial and index

  // Appends a page that is one record (PageForm::kTogether).
  Status Encode(std::span<const PackedRow> rows, std::string* out);
  // Append the two records of a page (PageForm::kApart). EncodeValues needs the checksum with which
  // the record of keys ends (ChecksumOf). A page whose values are all empty needs no record of
  // values.
  Status EncodeKeys(std::span<const PackedRow> rows, std::string* out);
  Status EncodeValues(std::span<const PackedRow> rows, std::uint32_t keys_checksum,
                      std::string* out);

 private:
  struct Columns;
  // Does the work of Encode and EncodeKeys.
  Status EncodePage(std::span<const PackedRow> rows, PageForm form, std::string* out);
  // Appends a record: the header, which takes `header_bytes`, the body of columns_, compressed, and
  // the checksum.
  template <typename Header>
  Status AppendRecord(std::size_t header_bytes, Header* header, std::string* out);
  // Fills columns_ with the rows, and counts the topics in `header`.
  void FillColumns(std::span<const PackedRow> rows, struct PageHeader* header);

  const std::unique_ptr<Columns> columns_;
  const std::unique_ptr<class PageCompressor> compressor_;
};

// Returns the checksum with which the record of a page ends. REQUIRES: an encoder made the record
std::uint32_t ChecksumOf(std::string_view record);

}  // namespace topicdb::columnar
