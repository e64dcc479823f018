// Packed pages. Between the header and the checksum, a page that is one record has these parts,
// compressed together. The record of keys of a page that is two records has the same without the
// values; page_values.cc has the other record. All numbers but the sizes are varints:
//
//   sizes     of the five columns that follow, u32 LE each
//   topics    for each topic: the difference of its stream to that of the topic before, the number
//             of bytes shared with the topic before, the number of further bytes, these bytes, and
//             the number of its rows
//   times     for each row, zigzag: the difference to the row before in its topic. For the first
//             row of a topic, the difference to the first row of the topic before. For the first
//             row of the page, the difference to the first time of the page
//   serials   for each row, zigzag: the difference to the row before. For the first row of the
//             page, the difference to the first serial of the page
//   indexes   for each row, zigzag: the difference to the row before. For the first row of the
//             page, the difference to 0
//   lengths   for each row: the number of bytes of its value
//   values    all bytes that are left, if the page is one record

#include <algorithm>
#include <array>
#include <limits>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "layout/columnar/format/block_format.h"
#include "layout/columnar/format/page_format.h"

namespace topicdb::columnar {

namespace {

std::size_t SharedPrefix(std::string_view a, std::string_view b) {
  const std::size_t size = std::min(a.size(), b.size());
  std::size_t shared = 0;
  while (shared < size && a[shared] == b[shared]) ++shared;
  return shared;
}

std::int64_t Difference(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::int64_t>(a - b);
}

// Reads the columns of a packed page row by row.
class RowDecoder {
 public:
  RowDecoder(const PageHeader& header, std::span<const std::string_view, kPackedColumns> columns)
      : header_(header),
        topics_(columns[0]),
        times_(columns[1]),
        serials_(columns[2]),
        indexes_(columns[3]),
        lengths_(columns[4]),
        first_time_(static_cast<std::uint64_t>(header.extent.first_time)),
        serial_(header.extent.first_serial.value()) {}

  struct Topic {
    std::uint32_t stream;
    std::size_t shared;
    std::string_view suffix;
    std::size_t rows;
  };
  // Reads the next topic. Returns false if it is malformed. `topic_size` is the size of the topic
  // before.
  bool NextTopic(std::size_t topic_size, std::size_t rows_left, Topic* topic) {
    const std::uint64_t further = topics_.Next();
    if (further > std::numeric_limits<std::uint32_t>::max()) return false;
    stream_ += further;
    topic->shared = topics_.Next();
    topic->suffix = topics_.Bytes(topics_.Next());
    topic->rows = topics_.Next();
    topic->stream = static_cast<std::uint32_t>(stream_);
    time_ = first_time_;
    at_first_ = true;
    return topics_.ok() && topic->shared <= topic_size && stream_ != 0 &&
           stream_ <= std::numeric_limits<std::uint32_t>::max() && topic->rows != 0 &&
           topic->rows <= rows_left;
  }

  struct Row {
    std::int64_t time;
    Serial serial;
    std::uint32_t index;
  };
  // Reads the next row of the topic. Returns false if it is malformed.
  bool NextRow(Row* row) {
    row->time = NextTime();
    serial_ += static_cast<std::uint64_t>(UnZigZag(serials_.Next()));
    index_ += static_cast<std::uint64_t>(UnZigZag(indexes_.Next()));
    const std::uint64_t length = lengths_.Next();
    if (length > header_.value_bytes - value_end_) return false;
    value_end_ += length;
    row->serial = Serial{serial_};
    row->index = static_cast<std::uint32_t>(index_);
    return row->time >= 0 && serial_ != 0 && index_ <= std::numeric_limits<std::uint32_t>::max();
  }
  // Reads the time of the next row of the topic, and nothing else of it. Callers either call this
  // or NextRow. A negative time is a malformed one.
  std::int64_t NextTime() {
    time_ += static_cast<std::uint64_t>(UnZigZag(times_.Next()));
    if (at_first_) first_time_ = time_;
    at_first_ = false;
    return static_cast<std::int64_t>(time_);
  }
  bool TimesFinished() const { return topics_.Finished() && times_.Finished(); }
  // Returns where the value of the last row ends among the values.
  std::uint64_t value_end() const { return value_end_; }
  bool Finished() const {
    return topics_.Finished() && times_.Finished() && serials_.Finished() && indexes_.Finished() &&
           lengths_.Finished() && value_end_ == header_.value_bytes;
  }

 private:
  const PageHeader& header_;
  VarintReader topics_;
  VarintReader times_;
  VarintReader serials_;
  VarintReader indexes_;
  VarintReader lengths_;
  std::uint64_t stream_ = 0;
  std::uint64_t first_time_;  // of the first row of the last topic that has begun
  std::uint64_t time_ = 0;
  bool at_first_ = true;
  std::uint64_t serial_;
  std::uint64_t index_ = 0;
  std::uint64_t value_end_ = 0;
};

// Takes room for a column of `count` numbers from the front of `memory`, and moves `memory` behind
// it.
template <typename Number>
Number* Cut(std::uint64_t** memory, std::size_t count) {
  auto* const column = reinterpret_cast<Number*>(*memory);
  constexpr std::size_t kWordBytes = 8;  // so that every column is aligned
  const std::size_t bytes = count * sizeof(Number);
  *memory += (bytes + kWordBytes - 1) / kWordBytes;
  return column;
}

// Decodes the topics of a page to its end, with an end in the bytes and a stream each. Calls
// rows_of(topic, begin, end) for each, which decodes the rows of the topic and returns whether they
// are well formed.
template <typename RowsOf>
Status DecodeTopics(const PageHeader& header, RowDecoder* decoder, std::string* topic_bytes,
                    std::uint32_t* ends, std::uint32_t* streams, RowsOf rows_of) {
  std::size_t topic_begin = 0;
  std::size_t topic_size = 0;
  std::size_t row = 0;
  for (std::uint32_t number = 0; number < header.topics; ++number) {
    RowDecoder::Topic topic{};
    if (!decoder->NextTopic(topic_size, header.rows - row, &topic) ||
        topic_bytes->size() + topic.shared + topic.suffix.size() > kPageBytesMax) {
      return PageFault("its topics are malformed");
    }
    const std::size_t begin = topic_bytes->size();
    topic_bytes->resize(begin + topic.shared);
    std::copy_n(topic_bytes->data() + topic_begin, topic.shared, topic_bytes->data() + begin);
    topic_bytes->append(topic.suffix);
    topic_begin = begin;
    topic_size = topic_bytes->size() - begin;
    ends[number] = static_cast<std::uint32_t>(topic_bytes->size());
    streams[number] = topic.stream;
    if (!rows_of(number, row, row + topic.rows)) return PageFault("its columns are malformed");
    row += topic.rows;
  }
  return row == header.rows ? Status::Ok() : PageFault("its columns are malformed");
}

}  // namespace

struct PackedPageEncoder::Columns {
  std::array<std::string, kPackedColumns> columns;  // topics, times, serials, indexes, lengths
  std::string body;
};

PackedPageEncoder::PackedPageEncoder(PageCodec codec)
    : columns_(std::make_unique<Columns>()), compressor_(std::make_unique<PageCompressor>(codec)) {}

PackedPageEncoder::~PackedPageEncoder() = default;

void PackedPageEncoder::FillColumns(std::span<const PackedRow> rows, PageHeader* header) {
  auto& [topics, times, serials, indexes, lengths] = columns_->columns;
  for (std::string& column : columns_->columns) column.clear();
  std::string_view topic;
  std::uint32_t stream = 0;
  auto first_time = static_cast<std::uint64_t>(header->extent.first_time);
  Serial serial = header->extent.first_serial;
  std::uint64_t index = 0;
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    const PackedRow& first = rows[begin];
    end = begin + 1;
    while (end < rows.size() && rows[end].topic == first.topic &&
           rows[end].stream == first.stream) {
      ++end;
    }
    ++header->topics;
    const std::size_t shared = SharedPrefix(topic, first.topic);
    AppendVarint(&topics, first.stream.value() - stream);
    AppendVarint(&topics, shared);
    AppendPrefixed(&topics, first.topic.substr(shared));
    AppendVarint(&topics, end - begin);
    std::uint64_t time = first_time;
    for (const PackedRow& row : rows.subspan(begin, end - begin)) {
      const auto row_time = static_cast<std::uint64_t>(row.time);
      AppendVarint(&times, ZigZag(Difference(row_time, time)));
      AppendVarint(&serials, ZigZag(Difference(row.serial.value(), serial.value())));
      AppendVarint(&indexes, ZigZag(Difference(row.index, index)));
      AppendVarint(&lengths, row.value.size());
      time = row_time;
      serial = row.serial;
      index = row.index;
    }
    first_time = static_cast<std::uint64_t>(first.time);
    topic = first.topic;
    stream = first.stream.value();
  }
}

Status PackedPageEncoder::Encode(std::span<const PackedRow> rows, std::string* out) {
  return EncodePage(rows, PageForm::kTogether, out);
}

Status PackedPageEncoder::EncodeKeys(std::span<const PackedRow> rows, std::string* out) {
  return EncodePage(rows, PageForm::kApart, out);
}

Status PackedPageEncoder::EncodeValues(std::span<const PackedRow> rows, std::uint32_t keys_checksum,
                                       std::string* out) {
  std::string& body = columns_->body;
  body.clear();
  for (const PackedRow& row : rows) body.append(row.value);
  ValuesHeader header;
  header.codec = compressor_->codec();
  header.rows = static_cast<std::uint32_t>(rows.size());
  header.value_bytes = static_cast<std::uint32_t>(body.size());
  header.keys_checksum = keys_checksum;
  return AppendRecord(kValuesHeaderBytes, &header, out);
}

Status PackedPageEncoder::EncodePage(std::span<const PackedRow> rows, PageForm form,
                                     std::string* out) {
  PageHeader header;
  header.kind = PageKind::kPacked;
  header.form = form;
  header.codec = compressor_->codec();
  header.rows = static_cast<std::uint32_t>(rows.size());
  header.extent = {rows[0].time, rows[0].time, rows[0].serial, rows[0].serial};
  for (const PackedRow& row : rows) {
    header.extent.Include(row.time, row.serial);
    header.value_bytes += static_cast<std::uint32_t>(row.value.size());
  }
  FillColumns(rows, &header);
  std::string& body = columns_->body;
  body.clear();
  for (const std::string& column : columns_->columns) {
    AppendLittle(&body, static_cast<std::uint32_t>(column.size()));
  }
  for (const std::string& column : columns_->columns) body.append(column);
  if (form == PageForm::kTogether) {
    for (const PackedRow& row : rows) body.append(row.value);
  }
  header.body_bytes = static_cast<std::uint32_t>(body.size());
  return AppendRecord(kHeaderBytes, &header, out);
}

template <typename Header>
Status PackedPageEncoder::AppendRecord(std::size_t header_bytes, Header* header, std::string* out) {
  const std::size_t begin = out->size();
  out->append(header_bytes, '\0');
  TOPICDB_RETURN_IF_ERROR(compressor_->Compress(columns_->body, out));
  header->stored_bytes = static_cast<std::uint32_t>(out->size() - begin - header_bytes);
  std::string encoded;
  AppendHeader(*header, &encoded);
  out->replace(begin, header_bytes, encoded);
  AppendLittle(out, Crc32(std::string_view(*out).substr(begin)));
  return Status::Ok();
}

Status PackedDecoder::Decode(const PageHeader& header, std::string_view keys,
                             std::string_view values, PageParts parts, const Placement* placement,
                             Page* page) {
  const std::string_view stored = keys.substr(kHeaderBytes, header.stored_bytes);
  TOPICDB_ASSIGN_OR_RETURN(std::unique_ptr<char[]> body,
                           DecompressBody(header.codec, stored, header.body_bytes));
  const std::string_view bytes(body.get(), header.body_bytes);
  const bool apart = header.form == PageForm::kApart;
  TOPICDB_ASSIGN_OR_RETURN(const std::string_view columns,
                           apart ? DecodeApart(header, bytes, values, ChecksumOf(keys), page)
                                 : DecodeTogether(header, bytes, page));
  TOPICDB_RETURN_IF_ERROR(DecodeColumns(header, columns, parts, page));
  if (!apart && page->has_values_) {
    page->body_ = std::move(body);
    page->body_bytes_ = header.body_bytes;
  }
  return placement == nullptr ? Status::Ok() : Place(*placement, page);
}

Result<std::string_view> PackedDecoder::DecodeTogether(const PageHeader& header,
                                                       std::string_view body, Page* page) {
  if (body.size() < header.value_bytes) return PageFault("its columns do not fit its header");
  const std::size_t keys_bytes = body.size() - header.value_bytes;
  if (page->has_values_) page->values_ = body.substr(keys_bytes);
  return body.substr(0, keys_bytes);
}

Result<std::string_view> PackedDecoder::DecodeApart(const PageHeader& header, std::string_view body,
                                                    std::string_view values,
                                                    std::uint32_t keys_checksum, Page* page) {
  if (page->has_values_ && (header.value_bytes > 0 || !values.empty())) {
    if (values.empty()) return PageFault("its values are missing");
    TOPICDB_ASSIGN_OR_RETURN(const ValuesHeader found, ReadValuesHeader(values));
    if (found.rows != header.rows || found.value_bytes != header.value_bytes ||
        found.keys_checksum != keys_checksum) {
      return PageFault("its values are those of another page");
    }
    TOPICDB_ASSIGN_OR_RETURN(
        page->body_,
        DecompressBody(found.codec, values.substr(kValuesHeaderBytes, found.stored_bytes),
                       found.value_bytes));
    page->body_bytes_ = found.value_bytes;
    page->values_ = {page->body_.get(), page->body_bytes_};
  }
  return body;
}

Status PackedDecoder::DecodeColumns(const PageHeader& header, std::string_view body,
                                    PageParts parts, Page* page) {
  Decoder sizes(body);
  std::array<std::uint32_t, kPackedColumns> column_bytes{};
  for (std::uint32_t& size : column_bytes) size = sizes.Little<std::uint32_t>();
  std::array<std::string_view, kPackedColumns> columns;
  for (std::size_t i = 0; i < kPackedColumns; ++i) columns[i] = sizes.Bytes(column_bytes[i]);
  // Each row has at least one byte in each column but the first. So no header can claim more rows
  // than the body has bytes.
  if (!sizes.Finished() || column_bytes[1] < header.rows) {
    return PageFault("its columns do not fit its header");
  }
  return parts == PageParts::kTimes ? DecodeTimes(header, columns, page)
                                    : DecodeRows(header, columns, page);
}

Status PackedDecoder::DecodeRows(const PageHeader& header,
                                 std::span<const std::string_view, kPackedColumns> columns,
                                 Page* page) {
  const std::size_t topics = header.topics;
  const std::size_t rows = header.rows;
  const std::size_t words = 2 * rows + 3 * (rows / 2 + 2) + 2 * (topics / 2 + 1);
  page->numbers_ = std::make_unique_for_overwrite<std::uint64_t[]>(words);
  page->numbers_bytes_ = words * sizeof(std::uint64_t);
  std::uint64_t* memory = page->numbers_.get();
  auto* const times = Cut<std::int64_t>(&memory, rows);
  auto* const serials = Cut<std::uint64_t>(&memory, rows);
  auto* const indexes = Cut<std::uint32_t>(&memory, rows);
  auto* const row_topics = Cut<std::uint32_t>(&memory, rows);
  auto* const offsets = Cut<std::uint32_t>(&memory, rows + 1);
  auto* const ends = Cut<std::uint32_t>(&memory, topics);
  auto* const streams = Cut<std::uint32_t>(&memory, topics);

  RowDecoder decoder(header, columns);
  Extent extent{std::numeric_limits<std::int64_t>::max(), 0, kLastSerial, kNoSerial};
  const auto rows_of = [&](std::uint32_t topic, std::size_t row, std::size_t end) {
    for (; row < end; ++row) {
      offsets[row] = static_cast<std::uint32_t>(decoder.value_end());
      RowDecoder::Row decoded{};
      if (!decoder.NextRow(&decoded)) return false;
      row_topics[row] = topic;
      times[row] = decoded.time;
      serials[row] = decoded.serial.value();
      indexes[row] = decoded.index;
      extent.Include(decoded.time, decoded.serial);
    }
    return true;
  };
  TOPICDB_RETURN_IF_ERROR(
      DecodeTopics(header, &decoder, &page->own_topics_, ends, streams, rows_of));
  offsets[rows] = static_cast<std::uint32_t>(decoder.value_end());
  if (!decoder.Finished() || extent != header.extent) {
    return PageFault("its columns are malformed");
  }
  page->topic_ends_ = {ends, topics};
  page->streams_ = {streams, topics};
  page->row_topics_ = {row_topics, rows};
  page->value_offsets_ = {offsets, rows + 1};
  page->topic_bytes_ = page->own_topics_;
  page->times_ = {times, rows};
  page->serials_ = {serials, rows};
  page->indexes_ = {indexes, rows};
  return Status::Ok();
}

Status PackedDecoder::DecodeTimes(const PageHeader& header,
                                  std::span<const std::string_view, kPackedColumns> columns,
                                  Page* page) {
  const std::size_t topics = header.topics;
  const std::size_t rows = header.rows;
  const std::size_t words = rows + rows / 2 + 1 + 2 * (topics / 2 + 1);
  page->numbers_ = std::make_unique_for_overwrite<std::uint64_t[]>(words);
  page->numbers_bytes_ = words * sizeof(std::uint64_t);
  std::uint64_t* memory = page->numbers_.get();
  auto* const times = Cut<std::int64_t>(&memory, rows);
  auto* const row_topics = Cut<std::uint32_t>(&memory, rows);
  auto* const ends = Cut<std::uint32_t>(&memory, topics);
  auto* const streams = Cut<std::uint32_t>(&memory, topics);

  RowDecoder decoder(header, columns);
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = 0;
  const auto rows_of = [&](std::uint32_t topic, std::size_t row, std::size_t end) {
    std::fill(row_topics + row, row_topics + end, topic);
    for (; row < end; ++row) {
      times[row] = decoder.NextTime();
      first = std::min(first, times[row]);
      last = std::max(last, times[row]);
    }
    return true;
  };
  TOPICDB_RETURN_IF_ERROR(
      DecodeTopics(header, &decoder, &page->own_topics_, ends, streams, rows_of));
  if (!decoder.TimesFinished() || first < 0 || first != header.extent.first_time ||
      last != header.extent.last_time) {
    return PageFault("its columns are malformed");
  }
  page->topic_ends_ = {ends, topics};
  page->streams_ = {streams, topics};
  page->row_topics_ = {row_topics, rows};
  page->topic_bytes_ = page->own_topics_;
  page->times_ = {times, rows};
  return Status::Ok();
}

Status PackedDecoder::Place(const Placement& placement, Page* page) {
  // The page owns the memory of these columns, so it may still change them.
  const auto writable = []<typename Number>(std::span<const Number> column) {
    return std::span<Number>(const_cast<Number*>(column.data()), column.size());
  };
  const std::span<std::uint32_t> streams = writable(page->streams_);
  for (std::uint32_t topic = 0; topic < page->topics() && !placement.keeps_groups; ++topic) {
    streams[topic] = placement.StreamOf(streams[topic], page->topic(topic)).value();
    if (streams[topic] == 0) return PageFault("its topics are not those of its block");
  }
  Extent& extent = page->extent_;
  if (extent.first_serial != kStagedSerial || extent.last_serial != kStagedSerial ||
      extent.last_time > std::numeric_limits<std::int64_t>::max() - placement.time_shift) {
    return PageFault("its times or serials are not those of a staged page");
  }
  for (std::uint64_t& serial : writable(page->serials_)) serial = placement.serial.value();
  if (placement.time_shift > 0) {
    for (std::int64_t& time : writable(page->times_)) time += placement.time_shift;
  }
  extent = {extent.first_time + placement.time_shift, extent.last_time + placement.time_shift,
            placement.serial, placement.serial};
  return Status::Ok();
}

}  // namespace topicdb::columnar
