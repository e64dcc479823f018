#include "store/read/drop_summary.h"

#include <algorithm>

#include "layout/blocks.h"
#include "store/read/log_gaps.h"
#include "store/read/stream_plan.h"

namespace topicdb {

namespace {

using Part = meta::DropRecord::Part;
using Count = meta::DropRecord::Count;

// A summary tells at most this many structures apart. If a slab has more, it tells none apart.
constexpr std::size_t kPartsMax = 64;
constexpr std::size_t kCountsMax = 64;  // of a part
// From 2 to this many counts of a part stand for one commit each. Any other number of counts may
// stand for several commits each, which follow each other.
constexpr std::size_t kExactCountsMax = kCountsMax / 2;
// If there are more blocks, a summary does not read their messages. It counts what their pages say,
// and takes their last commits.
constexpr std::size_t kBlocksRead = 64;

class Summary {
 public:
  Summary(const ShardView& view, const Slab& slab)
      : source_(view.Source(slab)), masks_(MasksOf(view.deletes(), slab.id())) {}

  // Counts the messages of these streams by commits. Without `streams`, counts those of all.
  Result<std::vector<Count>> Counts(std::optional<std::vector<StreamId>> streams) {
    ReadRequest request;
    request.streams = std::move(streams);
    request.filter = Filter::Everything();
    request.masks = masks_;
    const std::vector<ReadRequest> requests{std::move(request)};
    TOPICDB_ASSIGN_OR_RETURN(const std::vector<BlockInfo> blocks, ListBlocks(source_, requests));
    std::map<Serial, std::uint64_t> counts;
    bool by_block = false;
    for (const BlockInfo& block : blocks) {
      const bool is_paged = block.sealed || block.staged;  // or it does not tell its streams apart
      if (is_paged && blocks.size() > kBlocksRead) {
        counts[block.last_serial] += block.size.messages;
        by_block = true;
        continue;
      }
      TOPICDB_ASSIGN_OR_RETURN(const auto found, CountByCommit(source_, block, requests));
      for (const auto& [serial, count] : found) counts[serial] += count.messages;
    }
    // A block has messages of earlier commits, too, which few counts would deny.
    if (by_block && counts.size() <= kExactCountsMax) return Together(counts);
    return Coarsened(counts);
  }

 private:
  // Makes one count of all.
  static std::vector<Count> Together(const std::map<Serial, std::uint64_t>& by_commit) {
    Count all;
    for (const auto& [serial, messages] : by_commit) all = {serial, all.messages + messages};
    return {all};
  }
  // Makes at most kCountsMax counts. Commits that follow each other count as the last of them.
  static std::vector<Count> Coarsened(const std::map<Serial, std::uint64_t>& by_commit) {
    const std::size_t together = (by_commit.size() + kCountsMax - 1) / kCountsMax;
    std::vector<Count> counts;
    std::size_t in_last = together;
    for (const auto& [serial, messages] : by_commit) {
      if (in_last == together) {
        counts.emplace_back();
        in_last = 0;
      }
      ++in_last;
      counts.back().serial = serial;
      counts.back().messages += messages;
    }
    return counts;
  }

  const RocksSource source_;
  const std::vector<RowMask> masks_;
};

// Returns whether topics of a part may match the filter. A filter that begins with a wildcard
// matches no topic that begins with '$', but a structure that begins with a wildcard may have such
// topics.
bool MayMeet(const Filter& filter, const Filter& part) {
  if (filter.Intersects(part) || part.is_everything()) return true;
  return part.begins_with_wildcard() && filter.text().starts_with('$');
}

// Returns how many messages of the part commits from `from` up to `until` have, at most.
std::uint64_t CountBetween(const Part& part, Serial from, Serial until) {
  const bool is_exact = part.counts.size() > 1 && part.counts.size() <= kExactCountsMax;
  std::uint64_t messages = 0;
  Serial before;
  for (const Count& count : part.counts) {
    const Serial first = is_exact ? count.serial : before.Next();
    if (count.serial >= from && first <= until) messages += count.messages;
    before = count.serial;
  }
  return messages;
}

}  // namespace

Result<std::vector<Part>> SummarizeLog(const ShardView& view, const Slab& slab) {
  Summary summary(view, slab);
  const auto streams = slab.Match(Filter::Everything());
  std::vector<Part> parts;
  if (streams.size() > kPartsMax) {
    TOPICDB_ASSIGN_OR_RETURN(std::vector<Count> counts, summary.Counts(std::nullopt));
    parts.push_back({"#", std::move(counts)});
    return parts;
  }
  for (const auto& [structure, stream] : streams) {
    TOPICDB_ASSIGN_OR_RETURN(std::vector<Count> counts, summary.Counts(std::vector{stream}));
    if (!counts.empty()) parts.push_back({structure.Text(), std::move(counts)});
  }
  return parts;
}

Result<std::vector<Part>> SummarizeState(const ShardView& view, const Slab& slab) {
  const Serial last = LastCommitOf(view, slab);
  const SlabInfo info = slab.Info({});
  const auto streams = slab.Match(Filter::Everything());
  std::vector<Part> parts;
  if (streams.size() > kPartsMax) {
    parts.push_back({"#", {{last, info.messages}}});
    return parts;
  }
  TOPICDB_ASSIGN_OR_RETURN(
      const StreamSizes sizes,
      slab.layout().SizesByStream(view.Source(slab), slab.MatchIds(Filter::Everything()),
                                  {info.messages, info.bytes}, nullptr));
  for (const auto& [structure, stream] : streams) {
    const auto size = sizes.find(stream);
    if (size == sizes.end()) continue;
    parts.push_back({structure.Text(), {{last, size->second.messages}}});
  }
  return parts;
}

meta::DropRecord Coarse(const meta::DropRecord& older, const meta::DropRecord& newer) {
  meta::DropRecord both = newer;
  Count all;
  for (const meta::DropRecord* record : {&older, &newer}) {
    both.last_timestamp = std::max(both.last_timestamp, record->last_timestamp);
    for (const Part& part : record->parts) {
      for (const Count& count : part.counts) {
        all.serial = std::max(all.serial, count.serial);
        all.messages += count.messages;
      }
    }
  }
  both.parts.clear();
  if (all.messages > 0) both.parts.push_back({"#", {all}});
  return both;
}

std::uint64_t CountLost(const meta::DropRecord& drop, const std::vector<Filter>& filters,
                        std::int64_t timestamp_min, Serial from_serial, Serial until) {
  if (drop.last_timestamp < timestamp_min) return 0;
  std::uint64_t messages = 0;
  for (const Part& part : drop.parts) {
    if (part.counts.back().serial < from_serial) continue;
    const Result<Filter> topics = Filter::Parse(part.filter);
    const auto meets = [&](const Filter& filter) {
      return !topics.ok() || MayMeet(filter, *topics);
    };
    if (std::none_of(filters.begin(), filters.end(), meets)) continue;
    messages += CountBetween(part, from_serial, until);
  }
  return messages;
}

}  // namespace topicdb
