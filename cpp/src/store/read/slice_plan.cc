#include "store/read/slice_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace topicdb {

namespace {

// A run of blocks is cut by time when it is larger than a slice should be by this factor, and a
// slice may grow by half of what that allows before the next begins.
constexpr double kSlack = 1.5;
constexpr std::int64_t kTimeMax = std::numeric_limits<std::int64_t>::max();

double Width(std::int64_t first, std::int64_t last) {
  return static_cast<double>(last) - static_cast<double>(first) + 1;
}

// Returns the part of the times from `first` to `last` that lies in `range`, as a share of 1.
double ShareIn(const TimeRange& range, std::int64_t first, std::int64_t last) {
  const std::int64_t from = std::max(first, range.start.value_or(0));
  const std::int64_t to = range.end.has_value() ? std::min(last, *range.end - 1) : last;
  return to < from ? 0 : Width(from, to) / Width(first, last);
}

std::uint64_t Part(std::uint64_t whole, double share) {
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(whole) * share));
}

// Returns the times at which to cut a slice into pieces of equal size. `density` has the times at
// which blocks begin and end, and by how many bytes for each microsecond that changes the density.
std::vector<std::int64_t> CutTimes(std::vector<std::pair<std::int64_t, double>> density,
                                   double bytes, std::uint64_t pieces) {
  std::sort(density.begin(), density.end());
  std::vector<std::int64_t> cuts;
  const double step = bytes / static_cast<double>(pieces);
  double sum = 0;
  double rate = 0;
  std::int64_t now = density.front().first;
  for (const auto& [time, change] : density) {
    const double until = sum + rate * (static_cast<double>(time) - static_cast<double>(now));
    while (rate > 0 && cuts.size() + 1 < pieces &&
           until >= step * static_cast<double>(cuts.size() + 1)) {
      const double rest = step * static_cast<double>(cuts.size() + 1) - sum;
      cuts.push_back(now + static_cast<std::int64_t>(rest / rate));
    }
    sum = until;
    rate += change;
    now = time;
  }
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::erase_if(cuts, [&](std::int64_t cut) { return cut <= density.front().first; });
  return cuts;
}

std::vector<Slice> CutByTime(const Slice& whole, std::span<const BlockInfo> blocks,
                             std::uint64_t bytes_max) {
  std::vector<std::pair<std::int64_t, double>> density;
  double bytes = 0;
  for (const BlockInfo& block : blocks) {
    const std::int64_t first = std::max(block.first_time, whole.range.start.value_or(0));
    const std::int64_t last = whole.range.end.has_value()
                                  ? std::min(block.last_time, *whole.range.end - 1)
                                  : block.last_time;
    const double rate = static_cast<double>(block.size.bytes) / Width(first, last);
    density.emplace_back(first, rate);
    density.emplace_back(last == kTimeMax ? last : last + 1, -rate);
    bytes += static_cast<double>(block.size.bytes);
  }
  const auto pieces = static_cast<std::uint64_t>(std::ceil(bytes / static_cast<double>(bytes_max)));
  Slice slice = whole;
  std::vector<Slice> slices;
  const std::vector<std::int64_t> cuts = CutTimes(std::move(density), bytes, pieces);
  const auto share = 1 / static_cast<double>(cuts.size() + 1);
  slice.messages = Part(whole.messages, share);
  slice.bytes = Part(whole.bytes, share);
  for (const std::int64_t cut : cuts) {
    if (cut <= slice.range.start.value_or(0)) continue;
    slice.range.end = cut;
    slices.push_back(slice);
    slice.range.start = cut;
  }
  slice.range.end = whole.range.end;
  slices.push_back(std::move(slice));
  return slices;
}

// Collects blocks into slices, in the order of commits.
class Cutter {
 public:
  Cutter(const Slice& whole, std::uint64_t bytes_max)
      : whole_(whole), bytes_max_(bytes_max), after_(whole.after) {}

  // Adds a run of blocks whose commits overlap. They must follow the commits of earlier runs.
  void Add(std::span<const BlockInfo> run, const MessageCount& size, Serial last_serial) {
    const auto limit = static_cast<double>(bytes_max_);
    if (static_cast<double>(pending_.bytes + size.bytes) > limit * (1 + kSlack) / 2) Flush();
    pending_.messages += size.messages;
    pending_.bytes += size.bytes;
    last_serial_ = last_serial;
    if (static_cast<double>(size.bytes) <= limit * kSlack) return;
    for (Slice& slice : CutByTime(Next(), run, bytes_max_)) slices_.push_back(std::move(slice));
    Reset();
  }

  std::vector<Slice> Finish() {
    Flush();
    const Serial last = after_;
    for (Slice& slice : slices_) {  // the last ones go on to the end
      if (slice.until == last) slice.until = whole_.until;
    }
    return std::move(slices_);
  }

 private:
  Slice Next() const {
    Slice slice = whole_;
    slice.after = after_;
    slice.until = last_serial_;
    slice.messages = pending_.messages;
    slice.bytes = pending_.bytes;
    return slice;
  }
  void Reset() {
    after_ = last_serial_;
    pending_ = {};
  }
  void Flush() {
    if (pending_.messages == 0) return;
    slices_.push_back(Next());
    Reset();
  }

  const Slice whole_;
  const std::uint64_t bytes_max_;
  Serial after_;
  Serial last_serial_;
  MessageCount pending_;
  std::vector<Slice> slices_;
};

// Cuts a slice of a layout without blocks into equal spans of time, because only the size and the
// times of the whole are known.
std::vector<Slice> CutEvenly(const Slice& whole, const SlabInfo& info, std::uint64_t bytes_max) {
  BlockInfo block;
  block.first_time = *info.first_timestamp;
  block.last_time = *info.last_timestamp;
  block.size = {whole.messages, whole.bytes};
  return CutByTime(whole, std::span(&block, 1), bytes_max);
}

// Estimates how much of a slab a read finds, as if all streams and times had equally much.
MessageCount Guess(const SlabInfo& info, const std::vector<ReadRequest>& requests,
                   const TimeRange& range) {
  double share = ShareIn(range, *info.first_timestamp, *info.last_timestamp);
  std::size_t streams = 0;
  for (const ReadRequest& request : requests) {
    if (!request.streams.has_value()) streams = info.streams;
    if (request.streams.has_value()) streams += request.streams->size();
  }
  if (streams < info.streams) {
    share *= static_cast<double>(streams) / static_cast<double>(info.streams);
  }
  return {std::max<std::uint64_t>(Part(info.messages, share), 1), Part(info.bytes, share)};
}

}  // namespace

std::vector<ReadRequest> RequestsOf(const ShardView& view, const Slab& slab,
                                    const std::vector<Filter>& filters, const Slice& slice) {
  std::vector<RowMask> masks = MasksOf(view, slab);
  // Reads of single streams know no first commit.
  const bool has_first = slice.after != kNoSerial && slab.layout().reads_one_stream();
  if (has_first) masks.push_back({Filter::Everything(), {}, slice.after});
  std::vector<ReadRequest> requests;
  for (const Filter& filter : filters) {
    for (StreamSet& set : SelectStreams(slab, {filter}, std::nullopt)) {
      ReadRequest request;
      request.streams = std::move(set.streams);
      request.structure = std::move(set.structure);
      request.filter = filter;
      request.range = slice.range;
      request.position = StartOf(slice.range);
      request.masks = masks;
      request.serial_min = slice.after.Next();
      request.serial_max = slice.until;
      requests.push_back(std::move(request));
    }
    if (slab.layout().reads_one_stream()) masks.push_back(Except(filter));
  }
  return requests;
}

std::vector<Slice> CutBlocks(const Slice& whole, std::vector<BlockInfo> blocks,
                             std::uint64_t bytes_max) {
  for (BlockInfo& block : blocks) {
    const double share = ShareIn(whole.range, block.first_time, block.last_time);
    block.size = {std::max<std::uint64_t>(Part(block.size.messages, share), 1),
                  Part(block.size.bytes, share)};
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const BlockInfo& a, const BlockInfo& b) { return a.first_serial < b.first_serial; });
  Cutter cutter(whole, bytes_max);
  for (std::size_t begin = 0; begin < blocks.size();) {
    Serial last_serial;
    MessageCount size;
    std::size_t end = begin;
    while (end < blocks.size() && (end == begin || blocks[end].first_serial <= last_serial)) {
      last_serial = std::max(last_serial, blocks[end].last_serial);
      size.messages += blocks[end].size.messages;
      size.bytes += blocks[end].size.bytes;
      ++end;
    }
    cutter.Add(std::span(blocks).subspan(begin, end - begin), size,
               std::min(last_serial, whole.until));
    begin = end;
  }
  return cutter.Finish();
}

Result<std::vector<Slice>> CutSlab(const ShardView& view, const Slab& slab,
                                   const std::vector<Filter>& filters, const Slice& whole,
                                   std::uint64_t bytes_max) {
  const SlabInfo info = slab.Info(whole.retention_class);
  const std::vector<ReadRequest> requests = RequestsOf(view, slab, filters, whole);
  if (info.messages == 0 || requests.empty()) return std::vector<Slice>();
  Slice guess = whole;
  const MessageCount size = Guess(info, requests, whole.range);
  guess.messages = size.messages;
  guess.bytes = size.bytes;
  if (slab.log() == nullptr) return CutEvenly(guess, info, bytes_max);
  const bool is_all = whole.after == kNoSerial && filters.size() == 1 &&
                      !requests.front().streams &&
                      ShareIn(whole.range, *info.first_timestamp, *info.last_timestamp) == 1;
  if (is_all && info.bytes <= bytes_max) return std::vector<Slice>{std::move(guess)};
  TOPICDB_ASSIGN_OR_RETURN(std::vector<BlockInfo> blocks, ListBlocks(view.Source(slab), requests));
  return CutBlocks(whole, std::move(blocks), bytes_max);
}

}  // namespace topicdb
