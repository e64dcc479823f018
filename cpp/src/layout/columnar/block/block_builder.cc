#include "layout/columnar/block/block_builder.h"

namespace topicdb::columnar {

namespace {

// About how many bytes a row takes in a page besides its topic and value.
constexpr std::size_t kRowBytes = 8;

Extent ExtentOf(const PackedRow& row) { return {row.time, row.time, row.serial, row.serial}; }

}  // namespace

std::size_t BlockBuilder::PageEnd(std::span<const PackedRow> rows, std::size_t begin) const {
  std::size_t bytes = 0;
  std::size_t end = begin;
  for (; end < rows.size(); ++end) {
    const bool repeats = end > begin && rows[end].topic == rows[end - 1].topic;
    bytes += rows[end].value.size() + kRowBytes + (repeats ? 0 : rows[end].topic.size());
    if (end > begin && bytes > page_bytes_max_) break;
  }
  return end;
}

Status BlockBuilder::Build(std::span<const PackedRow> rows, const PageSink& sink) {
  entry_.extent = ExtentOf(rows.front());
  entry_.rows = static_cast<std::uint32_t>(rows.size());
  entry_.codec = codec_;
  entry_.form = form_;
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    end = PageEnd(rows, begin);
    page_begins_.push_back(begin);
    AddPage(rows.subspan(begin, end - begin));
  }
  entry_.pages = static_cast<std::uint32_t>(directory_.size());
  entry_.streams = streams_.Build();
  word_filter_ = words_.Build();
  TOPICDB_RETURN_IF_ERROR(WriteRecords(rows, sink));
  ListTopics(rows);
  return Status::Ok();
}

void BlockBuilder::AddPage(std::span<const PackedRow> part) {
  PageEntry page;
  page.rows = static_cast<std::uint32_t>(part.size());
  page.extent = ExtentOf(part.front());
  page.first_stream = part.front().stream;
  page.first_topic = part.front().topic;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const PackedRow& row = part[i];
    page.extent.Include(row.time, row.serial);
    entry_.bytes += row.topic.size() + row.value.size();
    if (form_ == PageForm::kApart) entry_.value_bytes += row.value.size();
    if (i > 0 && row.topic == part[i - 1].topic && row.stream == part[i - 1].stream) continue;
    words_.AddWords(row.topic);
    if (i == 0 || row.stream != part[i - 1].stream) streams_.Add(StreamHash(row.stream));
  }
  entry_.extent.Include(page.extent);
  directory_.push_back(std::move(page));
}

std::span<const PackedRow> BlockBuilder::RowsOf(std::span<const PackedRow> rows,
                                                std::size_t page) const {
  const std::size_t begin = page_begins_[page];
  const std::size_t end = page + 1 < page_begins_.size() ? page_begins_[page + 1] : rows.size();
  return rows.subspan(begin, end - begin);
}

Status BlockBuilder::WriteRecords(std::span<const PackedRow> rows, const PageSink& sink) {
  PackedPageEncoder encoder(codec_);
  std::vector<std::uint32_t> checksums;
  std::string record;
  for (std::uint32_t page = 0; page < entry_.pages; ++page) {
    record.clear();
    const std::span<const PackedRow> part = RowsOf(rows, page);
    TOPICDB_RETURN_IF_ERROR(form_ == PageForm::kApart ? encoder.EncodeKeys(part, &record)
                                                      : encoder.Encode(part, &record));
    checksums.push_back(ChecksumOf(record));
    TOPICDB_RETURN_IF_ERROR(sink(page, record));
  }
  if (!HasValueRecords(entry_)) return Status::Ok();
  for (std::uint32_t page = 0; page < entry_.pages; ++page) {
    record.clear();
    TOPICDB_RETURN_IF_ERROR(encoder.EncodeValues(RowsOf(rows, page), checksums[page], &record));
    TOPICDB_RETURN_IF_ERROR(sink(ValuesOf(page), record));
  }
  return Status::Ok();
}

void BlockBuilder::ListTopics(std::span<const PackedRow> rows) {
  std::uint32_t page = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PackedRow& row = rows[i];
    while (page + 1 < page_begins_.size() && page_begins_[page + 1] <= i) ++page;
    const bool goes_on =
        i + 1 < rows.size() && rows[i + 1].topic == row.topic && rows[i + 1].stream == row.stream;
    if (!goes_on) topics_.Add(row.stream, row.topic, page, row.time);
  }
}

}  // namespace topicdb::columnar
