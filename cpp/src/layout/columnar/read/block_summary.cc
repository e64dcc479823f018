#include "layout/columnar/read/block_summary.h"

#include <algorithm>
#include <memory>
#include <string>

#include "layout/blocks.h"

namespace topicdb::columnar {

namespace {

// The group of the last row of a topic, which is mostly that of the topic's next row.
struct TopicGroup {
  MessageGroups::Count* count = nullptr;  // null: no row of the topic was counted yet
  MessageGroups::Span span{};
};

}  // namespace

BlockSummary::BlockSummary(const RocksSource& source, const std::vector<ReadRequest>& any_of,
                           MessageGroups* groups)
    : query_(any_of), groups_(groups), reader_(source) {}

ReadCounters BlockSummary::counters() const {
  ReadCounters counters = counters_;
  counters.bytes_read = reader_.bytes_read();
  return counters;
}

bool BlockSummary::IsOneGroup(const Extent& extent) const {
  return query_.wants_every_topic() && query_.rows().Covers(extent) &&
         !query_.rows().MayMask(extent) &&
         groups_->SpanOf(extent.first_time).Holds(extent.last_time);
}

void BlockSummary::AddPage(const Page& page, const DeletedRows* deleted) {
  ++counters_.pages_read;
  counters_.rows_examined += page.rows();
  groups_->AddRead(page.rows());
  const bool masked = query_.rows().MayMask(page.extent());
  if (query_.rows().Covers(page.extent()) && !masked && deleted == nullptr) {
    AddRuns(page);
  } else {
    AddRows(page, masked, deleted);
  }
}

MessageGroups::Count& BlockSummary::CountOf(std::string_view topic, const MessageGroups::Span& span,
                                            std::int64_t time) {
  if (groups_->by_topic()) return groups_->CountOf(topic, time);
  if (recent_.empty()) recent_.resize(std::size_t{1} << kRecentBits);
  constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15;  // the golden ratio, as for hashes
  Recent& recent = recent_[(static_cast<std::uint64_t>(span.first) * kSpread) >> kRecentShift];
  if (recent.count == nullptr || recent.span_first != span.first) {
    recent = {span.first, &groups_->CountOf({}, time)};
  }
  return *recent.count;
}

PageParts BlockSummary::PartsOf(const Extent& block) const {
  const bool by_times = query_.rows().CoversSerials(block) && !query_.rows().MayMask(block);
  return by_times ? PageParts::kTimes : PageParts::kKeys;
}

void BlockSummary::AddRuns(const Page& page) {
  const std::vector<bool> wanted = query_.TopicsOf(page);
  for (std::uint32_t row = 0; row < page.rows();) {
    const std::uint32_t topic = page.topic_of(row);
    if (!wanted[topic]) {
      ++row;
      continue;
    }
    const MessageGroups::Span span = groups_->SpanOf(page.time(row));
    std::int64_t first_time = page.time(row);
    std::int64_t last_time = first_time;
    const std::uint32_t begin = row;
    for (++row; row < page.rows() && page.topic_of(row) == topic && span.Holds(page.time(row));
         ++row) {
      first_time = std::min(first_time, page.time(row));
      last_time = std::max(last_time, page.time(row));
    }
    CountOf(page.topic(topic), span, first_time).Add(row - begin, first_time, last_time);
    counters_.rows_matched += row - begin;
  }
}

void BlockSummary::AddRows(const Page& page, bool masked, const DeletedRows* deleted) {
  const RowSelector& rows = query_.rows();
  const std::vector<bool> wanted = query_.TopicsOf(page);
  static const DeletedRows kNone;
  DeletedCursor gone(deleted == nullptr ? kNone : *deleted);
  std::vector<TopicGroup> topic_groups(page.topics());
  for (std::uint32_t row = 0; row < page.rows(); ++row) {
    const std::uint32_t topic = page.topic_of(row);
    if (!wanted[topic] || !rows.Wants(page, row) || gone.Holds(row) ||
        (masked && rows.IsMasked(page, row))) {
      continue;
    }
    const std::int64_t time = page.time(row);
    TopicGroup& group = topic_groups[topic];
    if (group.count == nullptr || !group.span.Holds(time)) {
      group = {&groups_->CountOf(page.topic(topic), time), groups_->SpanOf(time)};
    }
    group.count->Add(1, time, time);
    ++counters_.rows_matched;
  }
}

Result<std::vector<std::uint32_t>> BlockSummary::AddByDirectory(const Block& block,
                                                                const DeletedByPage& deleted) {
  TOPICDB_ASSIGN_OR_RETURN(BlockQuery::Pages pages, query_.PagesOf(block, &reader_));
  if (!query_.wants_every_topic()) return std::move(pages.numbers);
  const Directory& directory = pages.directory;
  std::vector<std::uint32_t> to_read;
  for (const std::uint32_t number : pages.numbers) {
    const PageEntry& page = directory[number];
    // All topics of a page lie between its first one and that of the next page of the same stream.
    const bool has_next =
        number + 1 < directory.size() && directory[number + 1].first_stream == page.first_stream;
    const bool is_one_topic =
        !groups_->by_topic() ||
        (has_next && groups_->AreOneGroup(page.first_topic, directory[number + 1].first_topic));
    if (deleted.contains(number) || !is_one_topic || !IsOneGroup(page.extent)) {
      to_read.push_back(number);
      continue;
    }
    groups_->CountOf(page.first_topic, page.extent.first_time)
        .Add(page.rows, page.extent.first_time, page.extent.last_time);
    counters_.rows_matched += page.rows;
  }
  return to_read;
}

Status BlockSummary::AddBlock(const Block& block, const InterruptCheck& interrupted) {
  ++counters_.blocks;
  TOPICDB_ASSIGN_OR_RETURN(const DeletedByPage deleted, reader_.LoadDeleted(block.id));
  const Extent& extent = block.entry.extent;
  if (!groups_->by_topic() && deleted.empty() && IsOneGroup(extent)) {
    groups_->CountOf({}, extent.first_time)
        .Add(block.entry.rows, extent.first_time, extent.last_time);
    counters_.rows_matched += block.entry.rows;
    return Status::Ok();
  }
  std::vector<std::uint32_t> to_read{0};
  if (block.is_paged()) {
    TOPICDB_ASSIGN_OR_RETURN(to_read, AddByDirectory(block, deleted));
  }
  counters_.pages += to_read.size();
  for (std::size_t next = 0; next < to_read.size();) {
    if (interrupted && interrupted()) return Interrupted();
    std::vector<BlockReader::PageRef> wanted;
    for (std::uint64_t bytes = 0;
         next < to_read.size() && (wanted.empty() || bytes < BlockReader::kBytesAtOnceMax);
         bytes += block.BytesOfPage(PageParts::kKeys)) {
      wanted.push_back({&block, to_read[next++]});
    }
    TOPICDB_ASSIGN_OR_RETURN(const auto pages, reader_.LoadPages(wanted, PartsOf(extent)));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto found = deleted.find(wanted[i].page);
      AddPage(*pages[i], found == deleted.end() ? nullptr : &found->second);
    }
    TOPICDB_RETURN_IF_ERROR(groups_->CheckSize());
  }
  return groups_->CheckSize();
}

Status BlockSummary::Run(const InterruptCheck& interrupted) {
  return query_.ForEachBlock(reader_, [&](const Block& block) -> Status {
    if (interrupted && interrupted()) return Interrupted();
    return AddBlock(block, interrupted);
  });
}

}  // namespace topicdb::columnar

namespace topicdb {

Result<ReadCounters> SummarizeBlocks(const RocksSource& source,
                                     const std::vector<ReadRequest>& any_of,
                                     const InterruptCheck& interrupted, MessageGroups* groups) {
  columnar::BlockSummary summary(source, any_of, groups);
  TOPICDB_RETURN_IF_ERROR(summary.Run(interrupted));
  return summary.counters();
}

}  // namespace topicdb
