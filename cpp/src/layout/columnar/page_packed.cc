// Packed pages. Between header and checksum a Zstandard frame of:
//
//   sizes of the five columns that follow, u32 LE each
//   topics    for each: stream (difference to the one before), bytes shared with the topic before,
//             further bytes: their number and they, rows. Numbers are varints, here and below
//   times     for each row: difference to the row before, in its topic; for the first of a topic, to
//             the first of the topic before (the first of all: to the page's first time), zigzag
//   serials   difference to the row before (the first: to the page's first serial), zigzag
//   indexes   the same, from 0
//   lengths   of the values
//   values    (all that is left)

#include <zstd.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/coding.h"
#include "base/crc32.h"
#include "layout/columnar/page_format.h"

namespace topicdb::columnar {

namespace {

constexpr int kCompressionLevel = 3;
// A frame cannot say more with fewer bytes: its largest block has 128 KiB and takes 4 bytes.
constexpr std::size_t kRatioMax = 40'000;
constexpr std::size_t kColumns = 5;

std::size_t SharedPrefix(std::string_view a, std::string_view b) {
  const auto end = std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(
                                                            std::min(a.size(), b.size())),
                                 b.begin());
  return static_cast<std::size_t>(end.first - a.begin());
}

std::int64_t Difference(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::int64_t>(a - b);
}

}  // namespace

struct PackedPageEncoder::Columns {
  std::array<std::string, kColumns> columns;  // topics, times, serials, indexes, lengths
  std::string body;
};

struct PackedPageEncoder::Compressor {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  Compressor() = default;
  ~Compressor() { ZSTD_freeCCtx(context); }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;
};

PackedPageEncoder::PackedPageEncoder()
    : columns_(std::make_unique<Columns>()), compressor_(std::make_unique<Compressor>()) {}

PackedPageEncoder::~PackedPageEncoder() = default;

Status PackedPageEncoder::Encode(std::span<const PackedRow> rows, std::string* out) {
  auto& [topics, times, serials, indexes, lengths] = columns_->columns;
  for (std::string& column : columns_->columns) column.clear();
  PageHeader header;
  header.kind = PageKind::kPacked;
  header.rows = static_cast<std::uint32_t>(rows.size());
  header.extent = {rows[0].time, rows[0].time, rows[0].serial, rows[0].serial};
  for (const PackedRow& row : rows) {
    header.extent.Include(row.time, row.serial);
    header.value_bytes += static_cast<std::uint32_t>(row.value.size());
  }
  std::string_view topic;
  std::uint32_t stream = 0;
  std::uint64_t topic_time = static_cast<std::uint64_t>(header.extent.first_time);
  std::uint64_t serial = header.extent.first_serial;
  std::uint64_t index = 0;
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    const PackedRow& first = rows[begin];
    end = begin + 1;
    while (end < rows.size() && rows[end].stream == first.stream && rows[end].topic == first.topic) {
      ++end;
    }
    ++header.topics;
    const std::size_t shared = SharedPrefix(topic, first.topic);
    AppendVarint(&topics, first.stream - stream);
    AppendVarint(&topics, shared);
    AppendPrefixed(&topics, first.topic.substr(shared));
    AppendVarint(&topics, end - begin);
    std::uint64_t time = topic_time;
    for (std::size_t row = begin; row < end; ++row) {
      const auto row_time = static_cast<std::uint64_t>(rows[row].time);
      AppendVarint(&times, ZigZag(Difference(row_time, time)));
      AppendVarint(&serials, ZigZag(Difference(rows[row].serial, serial)));
      AppendVarint(&indexes, ZigZag(Difference(rows[row].index, index)));
      AppendVarint(&lengths, rows[row].value.size());
      time = row_time;
      serial = rows[row].serial;
      index = rows[row].index;
    }
    topic_time = static_cast<std::uint64_t>(first.time);
    topic = first.topic;
    stream = first.stream;
  }

  std::string& body = columns_->body;
  body.clear();
  for (const std::string& column : columns_->columns) {
    AppendLittle(&body, static_cast<std::uint32_t>(column.size()));
  }
  for (const std::string& column : columns_->columns) body.append(column);
  for (const PackedRow& row : rows) body.append(row.value);
  header.body_bytes = static_cast<std::uint32_t>(body.size());

  const std::size_t begin = out->size();
  const std::size_t bound = ZSTD_compressBound(body.size());
  out->resize(begin + kHeaderBytes + bound);
  const std::size_t stored =
      ZSTD_compressCCtx(compressor_->context, out->data() + begin + kHeaderBytes, bound,
                        body.data(), body.size(), kCompressionLevel);
  if (ZSTD_isError(stored) != 0) {
    return StorageFault(std::string("compressing messages: ") + ZSTD_getErrorName(stored));
  }
  out->resize(begin + kHeaderBytes + stored);
  header.stored_bytes = static_cast<std::uint32_t>(stored);
  std::string header_bytes;
  AppendHeader(header, &header_bytes);
  out->replace(begin, kHeaderBytes, header_bytes);
  AppendLittle(out, Crc32(std::string_view(*out).substr(begin)));
  return Status::Ok();
}

namespace {

struct Decompressor {
  ZSTD_DCtx* const context = ZSTD_createDCtx();
  Decompressor() = default;
  ~Decompressor() { ZSTD_freeDCtx(context); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
};

Status Decompress(std::string_view frame, std::size_t size, std::string* body) {
  thread_local const Decompressor decompressor;  // making one takes as long as a page
  if (size > frame.size() * kRatioMax ||
      ZSTD_getFrameContentSize(frame.data(), frame.size()) != size) {
    return PageFault("its size is wrong");
  }
  body->resize(size);
  const std::size_t got = ZSTD_decompressDCtx(decompressor.context, body->data(), size,
                                              frame.data(), frame.size());
  return got == size ? Status::Ok() : PageFault("it does not decompress");
}

}  // namespace

Status PackedDecoder::Decode(const PageHeader& header, Page* page) {
  std::string body;
  TOPICDB_RETURN_IF_ERROR(
      Decompress(std::string_view(page->bytes_).substr(kHeaderBytes, header.stored_bytes),
                 header.body_bytes, &body));
  page->bytes_ = std::move(body);
  Decoder decoder(page->bytes_);
  std::array<std::uint32_t, kColumns> sizes{};
  for (std::uint32_t& size : sizes) size = decoder.Little<std::uint32_t>();
  std::array<std::string_view, kColumns> columns;
  for (std::size_t i = 0; i < kColumns; ++i) columns[i] = decoder.Bytes(sizes[i]);
  page->values_ = decoder.rest();
  if (!decoder.ok() || page->values_.size() != header.value_bytes) {
    return PageFault("its columns do not fit its header");
  }

  // Topic ends, streams, topics of rows, value offsets: one allocation.
  const std::size_t topics = header.topics;
  const std::size_t rows = header.rows;
  page->numbers_.resize(2 * topics + 2 * rows + 1);
  std::uint32_t* const ends = page->numbers_.data();
  std::uint32_t* const streams = ends + topics;
  std::uint32_t* const row_topics = streams + topics;
  std::uint32_t* const offsets = row_topics + rows;
  page->own_times_.resize(rows);
  page->own_serials_.resize(rows);
  page->own_indexes_.resize(rows);

  VarintReader dictionary(columns[0]);
  VarintReader times(columns[1]);
  VarintReader serials(columns[2]);
  VarintReader indexes(columns[3]);
  VarintReader lengths(columns[4]);
  std::string& topic_bytes = page->own_topics_;
  std::size_t topic_begin = 0;
  std::size_t topic_size = 0;
  std::uint64_t stream = 0;
  auto topic_time = static_cast<std::uint64_t>(header.extent.first_time);
  std::uint64_t serial = header.extent.first_serial;
  std::uint64_t index = 0;
  std::uint64_t value_end = 0;
  std::size_t row = 0;
  Extent extent{std::numeric_limits<std::int64_t>::max(), 0,
                std::numeric_limits<std::uint64_t>::max(), 0};
  for (std::size_t topic = 0; topic < topics; ++topic) {
    stream += dictionary.Next();
    const std::uint64_t shared = dictionary.Next();
    const std::uint64_t further = dictionary.Next();
    const std::string_view suffix = dictionary.Bytes(further);
    const std::uint64_t count = dictionary.Next();
    if (!dictionary.ok() || shared > topic_size || stream == 0 ||
        stream > std::numeric_limits<std::uint32_t>::max() || count == 0 || count > rows - row ||
        topic_bytes.size() + shared + further > kPageBytesMax) {
      return PageFault("its topics are malformed");
    }
    const std::size_t begin = topic_bytes.size();
    topic_bytes.resize(begin + shared);
    std::copy_n(topic_bytes.data() + topic_begin, shared, topic_bytes.data() + begin);
    topic_bytes.append(suffix);
    topic_begin = begin;
    topic_size = shared + further;
    ends[topic] = static_cast<std::uint32_t>(topic_bytes.size());
    streams[topic] = static_cast<std::uint32_t>(stream);

    std::uint64_t time = topic_time;
    for (const std::size_t end = row + count; row < end; ++row) {
      time += static_cast<std::uint64_t>(UnZigZag(times.Next()));
      if (row + count == end) topic_time = time;
      serial += static_cast<std::uint64_t>(UnZigZag(serials.Next()));
      index += static_cast<std::uint64_t>(UnZigZag(indexes.Next()));
      if (static_cast<std::int64_t>(time) < 0 || serial == 0 ||
          index > std::numeric_limits<std::uint32_t>::max()) {
        return PageFault("its columns are malformed");
      }
      row_topics[row] = static_cast<std::uint32_t>(topic);
      page->own_times_[row] = static_cast<std::int64_t>(time);
      page->own_serials_[row] = serial;
      page->own_indexes_[row] = static_cast<std::uint32_t>(index);
      extent.Include(static_cast<std::int64_t>(time), serial);
      offsets[row] = static_cast<std::uint32_t>(value_end);
      value_end += lengths.Next();
      if (value_end > header.value_bytes) return PageFault("its values are malformed");
    }
  }
  offsets[rows] = static_cast<std::uint32_t>(value_end);
  if (row != rows || !dictionary.Finished() || !times.Finished() || !serials.Finished() ||
      !indexes.Finished() || !lengths.Finished() || value_end != header.value_bytes ||
      extent != header.extent) {
    return PageFault("its columns are malformed");
  }
  page->topic_ends_ = {ends, topics};
  page->streams_ = {streams, topics};
  page->row_topics_ = {row_topics, rows};
  page->value_offsets_ = {offsets, rows + 1};
  page->topic_bytes_ = page->own_topics_;
  page->times_ = page->own_times_;
  page->serials_ = page->own_serials_;
  page->indexes_ = page->own_indexes_;
  return Status::Ok();
}

}  // namespace topicdb::columnar
