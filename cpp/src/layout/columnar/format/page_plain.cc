// Plain pages. Between the header and the checksum, a page has these columns, one behind the other.
// All numbers are little-endian:
//
//   times              u64[rows]
//   runs               {serial u64, rows u32, first index u32}[runs]
//   value offsets      u32[rows + 1]
//   topic of each row  u32[rows]
//   topic ends         u32[topics]
//   streams            u32[topics]
//   topics             bytes
//   values             bytes

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "layout/columnar/format/page_format.h"

namespace topicdb::columnar {

namespace {

template <typename Number>
std::string_view BytesOf(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

// Returns the column of `count` numbers at the front of `bytes`, and moves `bytes` behind it.
// REQUIRES: `bytes` has the column, and is aligned for its numbers
template <typename Number>
std::span<const Number> Take(std::string_view* bytes, std::size_t count) {
  const auto* numbers = reinterpret_cast<const Number*>(bytes->data());
  bytes->remove_prefix(count * sizeof(Number));
  return {numbers, count};
}

// Returns whether the ends never fall and the last one is `last`. REQUIRES: there is at least one
// end
bool AreEnds(std::span<const std::uint32_t> ends, std::uint32_t last) {
  return std::is_sorted(ends.begin(), ends.end()) && ends.back() == last;
}

}  // namespace

std::uint32_t PlainPageBuilder::AddTopic(StreamId stream, std::string_view topic) {
  topic_bytes_.append(topic);
  topic_ends_.push_back(static_cast<std::uint32_t>(topic_bytes_.size()));
  streams_.push_back(stream.value());
  return static_cast<std::uint32_t>(streams_.size() - 1);
}

void PlainPageBuilder::AddRow(std::uint32_t topic, std::int64_t time, Serial serial,
                              std::uint32_t index, std::string_view value) {
  if (times_.empty()) {
    extent_ = {time, time, serial, serial};
  } else {
    extent_.Include(time, serial);
  }
  row_topics_.push_back(topic);
  times_.push_back(time);
  if (!runs_.empty() && runs_.back().serial == serial &&
      runs_.back().first_index + runs_.back().rows == index) {
    ++runs_.back().rows;
  } else {
    runs_.push_back({serial, 1, index});
  }
  values_.append(value);
  value_offsets_.push_back(static_cast<std::uint32_t>(values_.size()));
}

std::vector<StreamId> PlainPageBuilder::Streams() const {
  std::vector<StreamId> streams;
  // There are many topics, but mostly few streams. This table drops most repetitions before the
  // sort.
  std::array<std::uint32_t, 256> seen{};  // 0: no stream
  for (const std::uint32_t stream : streams_) {
    if (std::exchange(seen[stream % seen.size()], stream) != stream) streams.emplace_back(stream);
  }
  std::sort(streams.begin(), streams.end());
  streams.erase(std::unique(streams.begin(), streams.end()), streams.end());
  return streams;
}

void PlainPageBuilder::Reserve(std::size_t rows, std::size_t bytes) {
  row_topics_.reserve(rows);
  times_.reserve(rows);
  value_offsets_.reserve(rows + 1);
  values_.reserve(bytes);
}

std::vector<std::string_view> PlainPageBuilder::Encode() {
  std::vector<std::string_view> parts{{},
                                      BytesOf(times_),
                                      BytesOf(runs_),
                                      BytesOf(value_offsets_),
                                      BytesOf(row_topics_),
                                      BytesOf(topic_ends_),
                                      BytesOf(streams_),
                                      topic_bytes_,
                                      values_};
  PageHeader header;
  header.rows = rows();
  header.topics = static_cast<std::uint32_t>(streams_.size());
  header.runs = static_cast<std::uint32_t>(runs_.size());
  header.extent = extent_;
  header.topic_bytes = static_cast<std::uint32_t>(topic_bytes_.size());
  header.value_bytes = static_cast<std::uint32_t>(values_.size());
  for (const std::string_view part : parts) {
    header.stored_bytes += static_cast<std::uint32_t>(part.size());
  }
  header_.clear();
  AppendHeader(header, &header_);
  parts.front() = header_;
  std::uint32_t crc = 0;
  for (const std::string_view part : parts) crc = Crc32(part, crc);
  crc_.clear();
  AppendLittle(&crc_, crc);
  parts.emplace_back(crc_);
  return parts;
}

void PlainPageBuilder::Clear() {
  topic_ends_.clear();
  streams_.clear();
  topic_bytes_.clear();
  row_topics_.clear();
  times_.clear();
  runs_.clear();
  value_offsets_.assign(1, 0);
  values_.clear();
}

Status PlainDecoder::Decode(const PageHeader& header, Page* page) {
  const std::size_t rows = header.rows;
  std::string_view body = page->stored_.substr(kHeaderBytes, header.stored_bytes);
  if (header.runs == 0 || body.size() != rows * 16 + 4 + std::size_t{header.runs} * 16 +
                                             std::size_t{header.topics} * 8 + header.topic_bytes +
                                             header.value_bytes) {
    return PageFault("its columns do not fit its header");
  }
  page->times_ = Take<std::int64_t>(&body, rows);
  const auto runs = Take<SerialRun>(&body, header.runs);
  page->value_offsets_ = Take<std::uint32_t>(&body, rows + 1);
  page->row_topics_ = Take<std::uint32_t>(&body, rows);
  page->topic_ends_ = Take<std::uint32_t>(&body, header.topics);
  page->streams_ = Take<std::uint32_t>(&body, header.topics);
  page->topic_bytes_ = body.substr(0, header.topic_bytes);
  page->values_ = body.substr(header.topic_bytes);

  const auto [first, last] = std::minmax_element(page->times_.begin(), page->times_.end());
  const auto topic_max = *std::max_element(page->row_topics_.begin(), page->row_topics_.end());
  const auto stream_min = *std::min_element(page->streams_.begin(), page->streams_.end());
  if (*first != header.extent.first_time || *last != header.extent.last_time || *first < 0 ||
      topic_max >= header.topics || stream_min == 0 ||
      !AreEnds(page->topic_ends_, header.topic_bytes) || page->value_offsets_.front() != 0 ||
      !AreEnds(page->value_offsets_, header.value_bytes)) {
    return PageFault("its columns are malformed");
  }
  page->numbers_bytes_ = (rows + (rows + 1) / 2) * sizeof(std::uint64_t);
  page->numbers_ = std::make_unique_for_overwrite<std::uint64_t[]>(rows + (rows + 1) / 2);
  std::uint64_t* const serials = page->numbers_.get();
  auto* const indexes = reinterpret_cast<std::uint32_t*>(serials + rows);
  std::size_t row = 0;
  Serial previous;
  for (const SerialRun& run : runs) {
    const std::uint64_t index_end = std::uint64_t{run.first_index} + run.rows;
    if (run.rows == 0 || run.serial < previous || index_end > (std::uint64_t{1} << 32) ||
        run.rows > rows - row) {
      return PageFault("its serials are malformed");
    }
    previous = run.serial;
    for (std::uint32_t i = 0; i < run.rows; ++i, ++row) {
      serials[row] = run.serial.value();
      indexes[row] = run.first_index + i;
    }
  }
  if (row != rows || serials[0] == 0 || serials[0] != header.extent.first_serial.value() ||
      serials[rows - 1] != header.extent.last_serial.value()) {
    return PageFault("its serials are malformed");
  }
  page->serials_ = {serials, rows};
  page->indexes_ = {indexes, rows};
  return Status::Ok();
}

}  // namespace topicdb::columnar
