#include "layout/columnar/merge/row_spill.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "base/bytes/alignment.h"
#include "base/thread/parallel.h"

namespace topicdb::columnar {

namespace {

constexpr std::size_t kLanesMax = 4;
constexpr std::size_t kChunkBytes = std::size_t{64} << 10;
constexpr std::size_t kStagedBytesMax = std::size_t{16} << 20;  // of all partitions and lanes
constexpr std::size_t kAlignment = 16;                          // of pages in memory
// To begin a thread takes as long as to add this many rows to a lane.
constexpr std::size_t kLaneRowsMin = 2'000;

PackedRow RowOf(const Page& page, std::uint32_t row) {
  const std::uint32_t topic = page.topic_of(row);
  return {page.stream(topic), page.topic(topic), page.time(row),
          page.serial(row),   page.index(row),   page.value(row)};
}

// Returns keys that divide the rows of a partition into at most `parts` parts of about equal size.
// They are ascending, and all of them are behind the partition's first key. There is none if all of
// `sample`, which is ascending, has that key.
std::vector<RowKey> DividingKeys(const std::vector<RowKey>& sample, const RowKey& begin,
                                 std::size_t parts) {
  std::vector<RowKey> keys;
  for (std::size_t part = 1; part < parts; ++part) {
    const RowKey& key = sample[part * sample.size() / parts];
    if (key > (keys.empty() ? begin : keys.back())) keys.push_back(key);
  }
  if (!keys.empty()) return keys;
  const auto behind = std::upper_bound(sample.begin(), sample.end(), begin);
  if (behind != sample.end()) keys.push_back(*behind);
  return keys;
}

}  // namespace

RowKey KeyOf(MergeOrder order, const Page& page, std::uint32_t row) {
  if (order == MergeOrder::kTime) {
    return {static_cast<std::uint64_t>(page.time(row)), page.serial(row).value(), page.index(row)};
  }
  return {page.serial(row).value(), page.index(row), 0};
}

RowSpill::RowSpill(const std::string& directory, MergeOrder order,
                   const std::vector<RowKey>& bounds, std::size_t bytes_max)
    : order_(order), bytes_max_(std::max<std::size_t>(bytes_max, 1)) {
  const std::size_t lanes =
      std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kLanesMax);
  const std::size_t chunk_bytes =
      std::min(kChunkBytes, kStagedBytesMax / (lanes * (bounds.size() + 1)));
  for (std::size_t lane = 0; lane < lanes; ++lane) lanes_.emplace_back(directory, chunk_bytes);
  partitions_.push_back(NewPartition({}));
  for (const RowKey& bound : bounds) partitions_.push_back(NewPartition(bound));
}

std::size_t RowSpill::MemoryOf(std::size_t rows, std::size_t bytes) {
  return bytes + rows * (SpillLane::kRowBytes + SpillLane::kTopicBytes);
}

std::size_t RowSpill::Partition::memory() const {
  return std::accumulate(parts.begin(), parts.end(), std::size_t{0},
                         [](std::size_t sum, const SpillPart& part) { return sum + part.memory; });
}

std::uint64_t RowSpill::Partition::rows() const {
  return std::accumulate(
      parts.begin(), parts.end(), std::uint64_t{0},
      [](std::uint64_t sum, const SpillPart& part) { return sum + part.rows_added; });
}

std::vector<RowKey> RowSpill::Partition::SortedSample() const {
  std::vector<RowKey> sample;
  for (const SpillPart& part : parts) {
    sample.insert(sample.end(), part.sample.begin(), part.sample.end());
  }
  std::sort(sample.begin(), sample.end());
  return sample;
}

std::optional<RowKey> RowSpill::EndOf(std::size_t count) const {
  if (count >= partitions_.size()) return std::nullopt;
  return partitions_[count].begin;
}

bool RowSpill::IsIn(std::size_t partition, const RowKey& key) const {
  return (partition == 0 || !(key < partitions_[partition].begin)) &&
         (partition + 1 == partitions_.size() || key < partitions_[partition + 1].begin);
}

std::size_t RowSpill::PartitionOf(const RowKey& key, std::size_t likely) const {
  if (IsIn(likely, key)) return likely;
  const auto behind = std::upper_bound(
      partitions_.begin() + 1, partitions_.end(), key,
      [](const RowKey& at, const Partition& partition) { return at < partition.begin; });
  return static_cast<std::size_t>(behind - partitions_.begin()) - 1;
}

Status RowSpill::Add(const RowKey& key, const Page& page, std::uint32_t row) {
  return Add(key, RowOf(page, row));
}

Status RowSpill::Add(const RowKey& key, const PackedRow& row) {
  return lanes_.front().Add(key, row, &partitions_[PartitionOf(key, 0)].parts.front());
}

Status RowSpill::Add(std::span<const PageRows> pages, std::size_t lane) {
  std::size_t partition = 0;
  for (const PageRows& of_page : pages) {
    for (const MergedRow& row : of_page.rows) {
      partition = PartitionOf(row.key, partition);
      TOPICDB_RETURN_IF_ERROR(lanes_[lane].Add(row.key, RowOf(*of_page.page, row.row),
                                               &partitions_[partition].parts[lane]));
    }
  }
  return Status::Ok();
}

Status RowSpill::Add(std::span<const PageRows> pages) {
  const std::size_t rows = std::accumulate(
      pages.begin(), pages.end(), std::size_t{0},
      [](std::size_t sum, const PageRows& of_page) { return sum + of_page.rows.size(); });
  const std::size_t lanes = std::clamp<std::size_t>(rows / kLaneRowsMin, 1, lanes_.size());
  // Each lane takes pages that follow one another, up to its share of the rows.
  std::vector<std::span<const PageRows>> shares;
  std::size_t begin = 0;
  std::size_t taken = 0;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    std::size_t end = begin;
    while (end < pages.size() && (lane + 1 == lanes || taken < rows * (lane + 1) / lanes)) {
      taken += pages[end++].rows.size();
    }
    shares.push_back(pages.subspan(begin, end - begin));
    begin = end;
  }
  return RunInParallel(lanes, [&](std::size_t lane) { return Add(shares[lane], lane); });
}

Status RowSpill::Prepare() {
  while (partitions_.front().memory() > bytes_max_ && partitions_.front().rows() > 1) {
    const std::vector<RowKey> sample = partitions_.front().SortedSample();
    // Makes twice as many parts as needed, because a small sample tells their sizes only roughly.
    const std::size_t parts = 2 * (partitions_.front().memory() / bytes_max_ + 1);
    const std::vector<RowKey> keys = DividingKeys(sample, Begin(), std::min(parts, sample.size()));
    if (keys.empty()) break;
    Partition large = std::move(partitions_.front());
    partitions_.pop_front();
    for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
      partitions_.push_front(NewPartition(*key));
    }
    partitions_.push_front(NewPartition(large.begin));
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      SpillPart& part = large.parts[lane];
      TOPICDB_RETURN_IF_ERROR(lanes_[lane].Write(&part));
      for (const SpillPart::Piece& chunk : part.chunks) {
        TOPICDB_ASSIGN_OR_RETURN(const auto page,
                                 lanes_[lane].Read(chunk, memory_.Take(chunk.bytes)));
        for (std::uint32_t row = 0; row < page->rows(); ++row) {
          TOPICDB_RETURN_IF_ERROR(Add(KeyOf(order_, *page, row), *page, row));
        }
      }
      lanes_[lane].Reuse(part);
    }
  }
  return Status::Ok();
}

Status RowSpill::WriteStaged() {
  if (staged_bytes() == 0) return Status::Ok();  // mostly: callers call it before each partition
  return RunInParallel(lanes_.size(), [&](std::size_t lane) -> Status {
    for (Partition& partition : partitions_) {
      TOPICDB_RETURN_IF_ERROR(lanes_[lane].Write(&partition.parts[lane]));
      partition.parts[lane].FreeStaged();
    }
    return Status::Ok();
  });
}

std::size_t RowSpill::staged_bytes() const {
  std::size_t bytes = 0;
  for (const Partition& partition : partitions_) {
    for (const SpillPart& part : partition.parts) bytes += part.staged_bytes();
  }
  return bytes;
}

Result<std::vector<std::shared_ptr<const Page>>> RowSpill::Take() {
  Partition taken = std::move(partitions_.front());
  partitions_.pop_front();
  struct Chunk {
    std::size_t lane;
    SpillPart::Piece piece;
    std::size_t begin;  // offset in `memory`
  };
  std::vector<Chunk> chunks;
  std::size_t bytes = 0;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    for (const SpillPart::Piece& piece : taken.parts[lane].chunks) {
      chunks.push_back({lane, piece, bytes});
      bytes += RoundUp(piece.bytes, kAlignment);
    }
  }
  const std::shared_ptr<char> memory = memory_.Take(bytes);
  std::vector<std::shared_ptr<const Page>> pages(chunks.size());
  TOPICDB_RETURN_IF_ERROR(RunInParallel(chunks.size(), [&](std::size_t i) -> Status {
    const Chunk& chunk = chunks[i];
    TOPICDB_ASSIGN_OR_RETURN(
        pages[i], lanes_[chunk.lane].Read(chunk.piece, {memory, memory.get() + chunk.begin}));
    return Status::Ok();
  }));
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    lanes_[lane].Reuse(taken.parts[lane]);
    TOPICDB_ASSIGN_OR_RETURN(auto staged, lanes_[lane].TakeStaged(&taken.parts[lane]));
    if (staged != nullptr) pages.push_back(std::move(staged));
  }
  return pages;
}

std::uint64_t RowSpill::rows_written() const {
  return std::accumulate(
      lanes_.begin(), lanes_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const SpillLane& lane) { return sum + lane.rows_written(); });
}

std::uint64_t RowSpill::bytes_written() const {
  return std::accumulate(
      lanes_.begin(), lanes_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const SpillLane& lane) { return sum + lane.bytes_written(); });
}

}  // namespace topicdb::columnar
