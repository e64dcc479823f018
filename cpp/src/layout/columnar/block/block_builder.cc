#include "layout/columnar/block/block_builder.h"

#include "layout/columnar/format/block_filter.h"

namespace topicdb::columnar {

namespace {

// About how many bytes a row takes in a page besides its topic and value.
constexpr std::size_t kRowBytes = 8;

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
  const auto extent_of = [](const PackedRow& row) {
    return Extent{row.time, row.time, row.serial, row.serial};
  };
  entry_.extent = extent_of(rows.front());
  entry_.rows = static_cast<std::uint32_t>(rows.size());
  FilterBuilder words;
  FilterBuilder streams;
  PackedPageEncoder encoder(codec_);
  std::string bytes;
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    end = PageEnd(rows, begin);
    const std::span<const PackedRow> part = rows.subspan(begin, end - begin);
    PageEntry page;
    page.rows = static_cast<std::uint32_t>(part.size());
    page.extent = extent_of(part.front());
    page.first_stream = part.front().stream;
    page.first_topic = part.front().topic;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const PackedRow& row = part[i];
      page.extent.Include(row.time, row.serial);
      entry_.bytes += row.topic.size() + row.value.size();
      if (i > 0 && row.topic == part[i - 1].topic && row.stream == part[i - 1].stream) continue;
      words.AddWords(row.topic);
      if (i == 0 || row.stream != part[i - 1].stream) streams.Add(StreamHash(row.stream));
    }
    entry_.extent.Include(page.extent);
    bytes.clear();
    TOPICDB_RETURN_IF_ERROR(encoder.Encode(part, &bytes));
    TOPICDB_RETURN_IF_ERROR(sink(static_cast<std::uint32_t>(directory_.size()), bytes));
    directory_.push_back(std::move(page));
    page_begins_.push_back(begin);
  }
  entry_.codec = codec_;
  entry_.pages = static_cast<std::uint32_t>(directory_.size());
  entry_.streams = streams.Build();
  word_filter_ = words.Build();
  ListTopics(rows);
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
