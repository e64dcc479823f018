#include "layout/columnar/row_spill.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/parallel.h"

namespace topicdb::columnar {

namespace {

constexpr std::size_t kChunkBytes = std::size_t{64} << 10;
// Chunks of a partition lie together in the file: to give back a piece of it takes as long as to
// write a chunk, whatever its size.
constexpr std::size_t kExtentBytes = std::size_t{1} << 20;
constexpr std::size_t kSampleKeys = 64;
constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;  // of 2^64: Fibonacci hashing
constexpr std::uint64_t kSampleStep = 16;  // of many keys only each of these may be in the sample
// What a row takes beside its value and topic: in a plain page, decoded, and in a merge.
constexpr std::size_t kRowBytes = 44 + 12 + sizeof(MergedRow);
constexpr std::size_t kTopicBytes = 8;

}  // namespace

RowKey KeyOf(MergeOrder order, const Page& page, std::uint32_t row) {
  if (order == MergeOrder::kTime) {
    return {static_cast<std::uint64_t>(page.time(row)), page.serial(row), page.index(row)};
  }
  return {page.serial(row), page.index(row), 0};
}

RowSpill::RowSpill(std::string directory, MergeOrder order, const std::vector<RowKey>& bounds,
                   std::size_t bytes_max)
    : directory_(std::move(directory)),
      order_(order),
      bytes_max_(std::max<std::size_t>(bytes_max, 1)) {
  partitions_.emplace_back();
  for (const RowKey& bound : bounds) partitions_.emplace_back().begin = bound;
}

std::size_t RowSpill::MemoryOf(std::size_t rows, std::size_t bytes) {
  return bytes + rows * (kRowBytes + kTopicBytes);
}

std::optional<RowKey> RowSpill::End() const {
  if (partitions_.size() < 2) return std::nullopt;
  return partitions_[1].begin;
}

RowSpill::Partition& RowSpill::PartitionOf(const RowKey& key) {
  const auto behind = std::upper_bound(
      partitions_.begin() + 1, partitions_.end(), key,
      [](const RowKey& at, const Partition& partition) { return at < partition.begin; });
  return *(behind - 1);
}

Status RowSpill::Add(const RowKey& key, const Page& page, std::uint32_t row) {
  const std::uint32_t topic = page.topic_of(row);
  return Add(key, {page.stream(topic), page.topic(topic), page.time(row), page.serial(row),
                   page.index(row), page.value(row)});
}

Status RowSpill::Add(const RowKey& key, const PackedRow& row) {
  Partition& to = PartitionOf(key);
  const auto is_of = [&](const StagedTopic& last) {
    return last.stream == row.stream &&
           std::string_view(to.bytes).substr(last.begin, last.size) == row.topic;
  };
  if (to.topics.empty() || !is_of(to.topics.back())) {
    to.topics.push_back({row.stream, to.bytes.size(), row.topic.size()});
    to.bytes.append(row.topic);
    to.memory += row.topic.size() + kTopicBytes;
  }
  to.rows.push_back({row.serial, row.time, row.index,
                     static_cast<std::uint32_t>(to.topics.size() - 1), to.bytes.size(),
                     static_cast<std::uint32_t>(row.value.size())});
  to.bytes.append(row.value);
  to.memory += row.value.size() + kRowBytes;
  AddSample(key, &to);
  if (to.bytes.size() + to.rows.size() * sizeof(StagedRow) < kChunkBytes) return Status::Ok();
  return Write(&to);
}

// Algorithm R (Vitter, Random Sampling with a Reservoir, 1985), but the numbers are a hash: no key
// can tell which ones they are.
void RowSpill::AddSample(const RowKey& key, Partition* partition) {
  const std::uint64_t number = partition->rows_added++;
  if (number < kSampleKeys) {
    partition->sample.push_back(key);
    return;
  }
  if (number % kSampleStep != 0) return;
  const std::uint64_t among = number / kSampleStep;
  const std::uint64_t place = (among * kGoldenRatio >> 32) % (among + 1);
  if (place < kSampleKeys) partition->sample[place] = key;
}

Status RowSpill::OpenFile() {
  auto file = File::CreateTemporary(directory_);
  if (!file.ok()) file = File::CreateTemporary(TemporaryDirectory());
  TOPICDB_RETURN_IF_ERROR(file.status().WithContext(
      "a read whose messages overlap in time needs a place for a temporary file"));
  file_ = std::move(*file);
  return Status::Ok();
}

std::string RowSpill::Encode(Partition* partition) {
  // A plain page wants serials in their order.
  std::sort(partition->rows.begin(), partition->rows.end(),
            [](const StagedRow& a, const StagedRow& b) {
              return std::pair(a.serial, a.index) < std::pair(b.serial, b.index);
            });
  const std::string_view bytes = partition->bytes;
  builder_.Clear();
  std::optional<std::uint32_t> last;
  std::uint32_t number = 0;
  for (const StagedRow& row : partition->rows) {
    if (last != row.topic) {
      const StagedTopic& topic = partition->topics[row.topic];
      number = builder_.AddTopic(topic.stream, bytes.substr(topic.begin, topic.size));
      last = row.topic;
    }
    builder_.AddRow(number, row.time, row.serial, row.index,
                    bytes.substr(row.value_begin, row.value_bytes));
  }
  partition->rows.clear();
  partition->topics.clear();
  partition->bytes.clear();
  const std::vector<std::string_view> parts = builder_.Encode();
  std::string page;
  page.reserve(std::accumulate(parts.begin(), parts.end(), std::size_t{0},
                               [](std::size_t sum, auto part) { return sum + part.size(); }));
  for (const std::string_view part : parts) page.append(part);
  return page;
}

std::uint64_t RowSpill::Reserve(Partition* partition, std::size_t bytes) {
  if (partition->extent_bytes_left < bytes) {
    const std::size_t size = std::max(bytes, kExtentBytes);
    partition->extents.push_back({file_end_, size});
    partition->extent_bytes_left = size;
    file_end_ += size;
  }
  const Piece& extent = partition->extents.back();
  const std::uint64_t offset = extent.offset + extent.bytes - partition->extent_bytes_left;
  partition->extent_bytes_left -= bytes;
  return offset;
}

Status RowSpill::Write(Partition* partition) {
  if (partition->rows.empty()) return Status::Ok();
  if (file_ == nullptr) TOPICDB_RETURN_IF_ERROR(OpenFile());
  rows_written_ += partition->rows.size();
  const std::string page = Encode(partition);
  const std::uint64_t offset = Reserve(partition, page.size());
  TOPICDB_RETURN_IF_ERROR(file_->WriteAt(offset, page));
  partition->chunks.push_back({offset, page.size()});
  bytes_written_ += page.size();
  return Status::Ok();
}

Result<std::shared_ptr<const Page>> RowSpill::Read(const Piece& chunk) const {
  std::string bytes(chunk.bytes, '\0');
  TOPICDB_ASSIGN_OR_RETURN(const std::size_t size,
                           file_->ReadAt(chunk.offset, bytes.data(), bytes.size()));
  if (size != chunk.bytes) return StorageFault(file_->path() + " is shorter than it was written");
  auto page = Page::Decode(std::move(bytes));
  TOPICDB_RETURN_IF_ERROR(page.status().WithContext(file_->path()));
  return page;
}

void RowSpill::Discard(const Partition& partition) {
  for (const Piece& extent : partition.extents) file_->Discard(extent.offset, extent.bytes);
}

Status RowSpill::Prepare() {
  while (partitions_.front().memory > bytes_max_ && partitions_.front().rows_added > 1) {
    TOPICDB_RETURN_IF_ERROR(Write(&partitions_.front()));
    Partition large = std::move(partitions_.front());
    partitions_.pop_front();
    std::sort(large.sample.begin(), large.sample.end());
    // Twice as many as needed: the sample is small.
    const std::size_t parts = std::min(2 * (large.memory / bytes_max_ + 1), large.sample.size());
    for (std::size_t part = parts - 1; part > 0; --part) {
      const RowKey& bound = large.sample[part * large.sample.size() / parts];
      partitions_.emplace_front().begin = bound;
    }
    partitions_.emplace_front().begin = large.begin;
    for (const Piece& chunk : large.chunks) {
      TOPICDB_ASSIGN_OR_RETURN(const auto page, Read(chunk));
      for (std::uint32_t row = 0; row < page->rows(); ++row) {
        TOPICDB_RETURN_IF_ERROR(Add(KeyOf(order_, *page, row), *page, row));
      }
    }
    Discard(large);
  }
  return Status::Ok();
}

Result<std::vector<std::shared_ptr<const Page>>> RowSpill::Take() {
  Partition taken = std::move(partitions_.front());
  partitions_.pop_front();
  std::vector<std::shared_ptr<const Page>> pages(taken.chunks.size());
  TOPICDB_RETURN_IF_ERROR(RunInParallel(pages.size(), [&](std::size_t i) -> Status {
    TOPICDB_ASSIGN_OR_RETURN(pages[i], Read(taken.chunks[i]));
    return Status::Ok();
  }));
  Discard(taken);
  if (taken.rows.empty()) return pages;
  TOPICDB_ASSIGN_OR_RETURN(auto page, Page::Decode(Encode(&taken)));
  pages.push_back(std::move(page));
  return pages;
}

}  // namespace topicdb::columnar
