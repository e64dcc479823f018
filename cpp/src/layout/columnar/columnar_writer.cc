#include "layout/columnar/columnar_writer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "layout/columnar/format/block_filter.h"
#include "layout/columnar/format/block_format.h"

namespace topicdb::columnar {

namespace {

// The writer ends a block at this size. Such a block is so large that its own cost does not matter,
// and small enough to be read as a whole.
constexpr std::uint32_t kFreshRowsMax = 65'536;
constexpr std::size_t kFreshBytesMax = std::size_t{4} << 20;

std::uint64_t NextPageNumber() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1);
}

}  // namespace

ColumnarWriter::ColumnarWriter(const SlabFamilies& families, LayoutState* state,
                               const ExpectedWrites& expected, rocksdb::WriteBatch* batch)
    : family_(families.main), state_(state), batch_(batch), page_number_(NextPageNumber()) {
  page_.Reserve(std::min<std::size_t>(expected.rows, kFreshRowsMax),
                std::min(expected.bytes, kFreshBytesMax));
}

rocksdb::Status ColumnarWriter::Add(const PlacedMessage& message) {
  if (page_.rows() == kFreshRowsMax ||
      (page_.rows() > 0 && page_.bytes() + message.value.size() > kFreshBytesMax)) {
    const rocksdb::Status status = WriteBlock();
    if (!status.ok()) return status;
  }
  TopicMark unkept;
  TopicMark& mark = message.mark == nullptr ? unkept : *message.mark;
  if (mark.page != page_number_) {
    mark = {page_number_, page_.AddTopic(message.stream, message.topic)};
  }
  page_.AddRow(mark.topic, message.timestamp, message.serial, message.index, message.value);
  return {};
}

rocksdb::Status ColumnarWriter::WriteBlock() {
  BlockEntry entry;
  entry.rows = page_.rows();
  entry.pages = 1;
  entry.extent = page_.extent();
  entry.bytes = page_.bytes();
  FilterBuilder streams;
  for (const StreamId stream : page_.Streams()) streams.Add(StreamHash(stream));
  entry.streams = streams.Build();

  const BlockId block = state_->NewBlockId();
  rocksdb::Status status =
      batch_->Put(family_, RecordKey(RecordKind::kFreshEntry, block), Encode(entry));
  if (!status.ok()) return status;
  const std::string key = RecordKey(RecordKind::kFreshPage, block);
  const std::array<rocksdb::Slice, 1> key_parts{rocksdb::Slice(key)};
  std::vector<rocksdb::Slice> value_parts;
  for (const std::string_view part : page_.Encode()) {
    value_parts.emplace_back(part.data(), part.size());
  }
  status =
      batch_->Put(family_, rocksdb::SliceParts(key_parts.data(), 1),
                  rocksdb::SliceParts(value_parts.data(), static_cast<int>(value_parts.size())));
  ++blocks_;
  bytes_ += entry.bytes;
  page_.Clear();
  page_number_ = NextPageNumber();
  return status;
}

rocksdb::Status ColumnarWriter::Finish() {
  return page_.rows() == 0 ? rocksdb::Status() : WriteBlock();
}

void ColumnarWriter::Apply() {
  state_->fresh_blocks += blocks_;
  state_->fresh_bytes += bytes_;
}

}  // namespace topicdb::columnar
