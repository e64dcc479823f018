// Measures what blocks hold: for callers that plan a read (layout/blocks.h), and by stream.
#include "layout/columnar/select/block_sizes.h"

#include <algorithm>

#include "layout/blocks.h"
#include "layout/columnar/select/block_query.h"

namespace topicdb {

namespace columnar {

namespace {

BlockInfo InfoOf(const Block& block) {
  const BlockEntry& entry = block.entry;
  BlockInfo info;
  info.id = block.id;
  info.sealed = block.sealed;
  info.staged = entry.staged;
  info.rows = entry.rows;
  info.pages = entry.pages;
  info.first_time = entry.extent.first_time;
  info.last_time = entry.extent.last_time;
  info.first_serial = entry.extent.first_serial;
  info.last_serial = entry.extent.last_serial;
  info.size = {entry.rows, entry.bytes};
  return info;
}

// Returns a block with what a reader needs to load its pages.
Block AsBlock(const BlockInfo& info) {
  Block block;
  block.id = info.id;
  block.sealed = info.sealed;
  block.entry.staged = info.staged;
  block.entry.rows = info.rows;
  block.entry.pages = info.pages;
  return block;
}

// Describes a block. The size is that of the pages that may hold wanted messages, without the
// deleted rows of these pages.
Result<BlockInfo> Estimate(const BlockQuery& query, const Block& block, BlockReader* reader) {
  BlockInfo info = InfoOf(block);
  std::uint64_t rows = block.entry.rows;
  TOPICDB_ASSIGN_OR_RETURN(const auto deleted, reader->LoadDeleted(block.id));
  const bool is_whole = query.wants_every_topic() && query.rows().Covers(block.entry.extent);
  if (is_whole || !block.is_paged()) {
    for (const auto& [page, gone] : deleted) rows -= std::min<std::uint64_t>(rows, gone.size());
  } else {
    TOPICDB_ASSIGN_OR_RETURN(const BlockQuery::Pages pages, query.PagesOf(block, reader));
    rows = pages.rows;
    for (const std::uint32_t page : pages.numbers) {
      const auto gone = deleted.find(page);
      if (gone != deleted.end()) rows -= std::min<std::uint64_t>(rows, gone->second.size());
    }
  }
  if (rows != block.entry.rows) info.size = {rows, block.entry.bytes * rows / block.entry.rows};
  return info;
}

// Adds the wanted rows of a page to the counts of their commits.
void CountRows(const Page& page, const BlockQuery& query, const DeletedRows& deleted,
               std::map<Serial, MessageCount>* counts) {
  const std::vector<bool> wanted = query.TopicsOf(page);
  auto commit = counts->end();
  for (std::uint32_t row = 0; row < page.rows(); ++row) {
    const std::uint32_t topic = page.topic_of(row);
    if (!wanted[topic] || !query.rows().Wants(page, row)) continue;
    if (std::binary_search(deleted.begin(), deleted.end(), row)) continue;
    if (query.rows().has_masks() && query.rows().IsMasked(page, row)) continue;
    if (commit == counts->end() || commit->first != page.serial(row)) {
      commit = counts->try_emplace(page.serial(row)).first;
    }
    ++commit->second.messages;
    commit->second.bytes += page.topic(topic).size() + page.value_size(row);
  }
}

// Adds all rows of a page to the sizes of their streams.
void AddRows(const Page& page, StreamSizes* sizes) {
  for (std::uint32_t row = 0; row < page.rows(); ++row) {
    const std::uint32_t topic = page.topic_of(row);
    MessageCount& count = (*sizes)[page.stream(topic)];
    ++count.messages;
    count.bytes += page.topic(topic).size() + page.value_size(row);
  }
}

// Returns the stream of all messages of a page, as far as the directory tells. Returns kNoStream if
// the messages may be of several streams. A page begins with the topic at which the page before
// ends or with a later one, so all topics of a page lie between its first topic and that of the
// next page.
StreamId OnlyStream(const Directory& directory, std::size_t page, const Placement* placement) {
  const StreamId first = directory[page].first_stream;
  const bool is_last = page + 1 == directory.size();
  if (is_last || directory[page + 1].first_stream != first) return kNoStream;
  if (placement == nullptr) return first;
  const Placement::Group* group = placement->Find(first.value());
  return group != nullptr && group->others.empty() ? group->stream : kNoStream;
}

// Adds all rows of a block to the sizes of their streams.
Status AddBlock(const Block& block, BlockReader* reader, StreamSizes* sizes) {
  Directory directory;
  if (block.is_paged()) {
    TOPICDB_ASSIGN_OR_RETURN(directory, reader->LoadDirectory(block));
  }
  TOPICDB_ASSIGN_OR_RETURN(const auto placement, reader->LoadPlacement(block));
  const std::uint32_t pages = block.is_paged() ? static_cast<std::uint32_t>(directory.size()) : 1;
  for (std::uint32_t number = 0; number < pages; ++number) {
    const StreamId only =
        block.is_paged() ? OnlyStream(directory, number, placement.get()) : kNoStream;
    if (only != kNoStream) {
      const std::uint64_t rows = directory[number].rows;
      (*sizes)[only].messages += rows;
      (*sizes)[only].bytes += block.entry.bytes * rows / block.entry.rows;
      continue;
    }
    TOPICDB_ASSIGN_OR_RETURN(const auto page, reader->LoadPage(block, number, PageParts::kKeys));
    AddRows(*page, sizes);
  }
  return Status::Ok();
}

}  // namespace

Result<StreamSizes> SizesByStream(const RocksSource& source, const InterruptCheck& interrupted) {
  BlockReader reader(source);
  StreamSizes sizes;
  Status status;
  const auto add = [&](const Block& block) {
    status = interrupted && interrupted() ? Interrupted() : AddBlock(block, &reader, &sizes);
    return status.ok();
  };
  TOPICDB_RETURN_IF_ERROR(reader.ForEachSealed(add));
  TOPICDB_RETURN_IF_ERROR(status);
  TOPICDB_RETURN_IF_ERROR(reader.ForEachFresh(add));
  TOPICDB_RETURN_IF_ERROR(status);
  return sizes;
}

}  // namespace columnar

Result<std::vector<BlockInfo>> ListBlocks(const RocksSource& source,
                                          const std::vector<ReadRequest>& any_of) {
  columnar::BlockReader reader(source);
  const columnar::BlockQuery query(any_of);
  std::vector<BlockInfo> blocks;
  TOPICDB_RETURN_IF_ERROR(query.ForEachBlock(reader, [&](const columnar::Block& block) {
    auto info = columnar::Estimate(query, block, &reader);
    if (info.ok() && info->size.messages > 0) blocks.push_back(*info);
    return info.ok() ? Status::Ok() : info.status();
  }));
  return blocks;
}

Result<std::map<Serial, MessageCount>> CountByCommit(const RocksSource& source,
                                                     const BlockInfo& block,
                                                     const std::vector<ReadRequest>& any_of) {
  columnar::BlockReader reader(source);
  const columnar::BlockQuery query(any_of);
  const columnar::Block found = columnar::AsBlock(block);
  TOPICDB_ASSIGN_OR_RETURN(const columnar::BlockQuery::Pages pages, query.PagesOf(found, &reader));
  TOPICDB_ASSIGN_OR_RETURN(auto deleted, reader.LoadDeleted(found.id));
  std::map<Serial, MessageCount> counts;
  for (const std::uint32_t number : pages.numbers) {
    TOPICDB_ASSIGN_OR_RETURN(const auto page,
                             reader.LoadPage(found, number, columnar::PageParts::kKeys));
    columnar::CountRows(*page, query, deleted[number], &counts);
  }
  return counts;
}

}  // namespace topicdb
