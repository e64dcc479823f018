#include "layout/columnar/merge/spill_lane.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

namespace topicdb::columnar {

namespace {

// A part has whole extents of the file, so that later parts can use them once the part was read. To
// write over an extent costs less than to have the file system free it and allocate another.
constexpr std::size_t kExtentBytes = std::size_t{1} << 20;
constexpr std::size_t kSampleKeys = 64;
constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;  // of 2^64: Fibonacci hashing
// Once there are kSampleKeys keys, only one key of this many may get into the sample.
constexpr std::uint64_t kSampleStep = 16;

}  // namespace

Status SpillLane::Add(const RowKey& key, const PackedRow& row, SpillPart* part) {
  const auto is_of = [&](const SpillPart::StagedTopic& last) {
    return last.stream == row.stream &&
           std::string_view(part->bytes).substr(last.begin, last.size) == row.topic;
  };
  if (part->topics.empty() || !is_of(part->topics.back())) {
    part->topics.push_back({row.stream, part->bytes.size(), row.topic.size()});
    part->bytes.append(row.topic);
    part->memory += row.topic.size() + kTopicBytes;
  }
  part->rows.push_back({row.serial, row.time, row.index,
                        static_cast<std::uint32_t>(part->topics.size() - 1), part->bytes.size(),
                        static_cast<std::uint32_t>(row.value.size())});
  part->bytes.append(row.value);
  part->memory += row.value.size() + kRowBytes;
  AddSample(key, part);
  const std::size_t staged = part->bytes.size() + part->rows.size() * sizeof(SpillPart::StagedRow) +
                             part->topics.size() * sizeof(SpillPart::StagedTopic);
  return staged < chunk_bytes_ ? Status::Ok() : Write(part);
}

// This is algorithm R (Vitter, Random Sampling with a Reservoir, 1985), but with a hash of the
// row's number in place of a random number. The choice does not depend on the keys.
void SpillLane::AddSample(const RowKey& key, SpillPart* part) {
  const std::uint64_t number = part->rows_added++;
  if (number < kSampleKeys) {
    part->sample.push_back(key);
    return;
  }
  if (number % kSampleStep != 0) return;
  const std::uint64_t among = number / kSampleStep;
  const std::uint64_t place = (among * kGoldenRatio >> 32) % (among + 1);
  if (place < kSampleKeys) part->sample[place] = key;
}

Status SpillLane::OpenFile() {
  auto file = File::CreateTemporary(directory_);
  if (!file.ok()) file = File::CreateTemporary(TemporaryDirectory());
  TOPICDB_RETURN_IF_ERROR(file.status().WithContext(
      "a read whose messages overlap in time needs a place for a temporary file"));
  file_ = std::move(*file);
  return Status::Ok();
}

std::string SpillLane::Encode(SpillPart* part) {
  // Serials of a plain page must not decrease.
  std::sort(part->rows.begin(), part->rows.end(),
            [](const SpillPart::StagedRow& a, const SpillPart::StagedRow& b) {
              return std::pair(a.serial, a.index) < std::pair(b.serial, b.index);
            });
  const std::string_view bytes = part->bytes;
  builder_.Clear();
  std::optional<std::uint32_t> last;
  std::uint32_t number = 0;
  for (const SpillPart::StagedRow& row : part->rows) {
    if (last != row.topic) {
      const SpillPart::StagedTopic& topic = part->topics[row.topic];
      number = builder_.AddTopic(topic.stream, bytes.substr(topic.begin, topic.size));
      last = row.topic;
    }
    builder_.AddRow(number, row.time, row.serial, row.index,
                    bytes.substr(row.value_begin, row.value_bytes));
  }
  part->rows.clear();
  part->topics.clear();
  part->bytes.clear();
  const std::vector<std::string_view> columns = builder_.Encode();
  std::string page;
  page.reserve(std::accumulate(columns.begin(), columns.end(), std::size_t{0},
                               [](std::size_t sum, auto column) { return sum + column.size(); }));
  for (const std::string_view column : columns) page.append(column);
  return page;
}

SpillPart::Piece SpillLane::NewExtent(std::size_t bytes) {
  if (bytes <= kExtentBytes && !free_extents_.empty()) {
    const SpillPart::Piece extent = free_extents_.back();
    free_extents_.pop_back();
    return extent;
  }
  const SpillPart::Piece extent{file_end_, std::max(bytes, kExtentBytes)};
  file_end_ += extent.bytes;
  return extent;
}

std::uint64_t SpillLane::Reserve(SpillPart* part, std::size_t bytes) {
  if (part->extent_bytes_left < bytes) {
    part->extents.push_back(NewExtent(bytes));
    part->extent_bytes_left = part->extents.back().bytes;
  }
  const SpillPart::Piece& extent = part->extents.back();
  const std::uint64_t offset = extent.offset + extent.bytes - part->extent_bytes_left;
  part->extent_bytes_left -= bytes;
  return offset;
}

Status SpillLane::Write(SpillPart* part) {
  if (part->rows.empty()) return Status::Ok();
  if (file_ == nullptr) TOPICDB_RETURN_IF_ERROR(OpenFile());
  rows_written_ += part->rows.size();
  const std::string page = Encode(part);
  const std::uint64_t offset = Reserve(part, page.size());
  TOPICDB_RETURN_IF_ERROR(file_->WriteAt(offset, page));
  part->chunks.push_back({offset, page.size()});
  bytes_written_ += page.size();
  return Status::Ok();
}

Result<std::shared_ptr<const Page>> SpillLane::TakeStaged(SpillPart* part) {
  if (part->rows.empty()) return std::shared_ptr<const Page>();
  return Page::Decode(Encode(part));
}

Result<std::shared_ptr<const Page>> SpillLane::Read(const SpillPart::Piece& chunk,
                                                    std::shared_ptr<char> memory) const {
  char* const bytes = memory.get();
  TOPICDB_ASSIGN_OR_RETURN(const std::size_t size, file_->ReadAt(chunk.offset, bytes, chunk.bytes));
  if (size != chunk.bytes) return StorageFault(file_->path() + " is shorter than it was written");
  auto page = Page::Decode(std::string_view(bytes, chunk.bytes), std::move(memory));
  TOPICDB_RETURN_IF_ERROR(page.status().WithContext(file_->path()));
  return page;
}

void SpillLane::Reuse(const SpillPart& part) {
  for (const SpillPart::Piece& extent : part.extents) {
    if (extent.bytes == kExtentBytes) {
      free_extents_.push_back(extent);
    } else {
      file_->Discard(extent.offset, extent.bytes);  // an extent for one large row
    }
  }
}

}  // namespace topicdb::columnar
