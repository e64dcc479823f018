// What blocks hold, for who plans a read: ListBlocks and CountByCommit of layout/blocks.h.
#include "layout/blocks.h"
#include "layout/columnar/block_query.h"

namespace topicdb {

namespace columnar {

namespace {

BlockInfo InfoOf(const Block& block) {
  const Extent& extent = block.entry.extent;
  return {block.id,
          block.sealed,
          extent.first_time,
          extent.last_time,
          extent.first_serial,
          extent.last_serial,
          {block.entry.rows, block.entry.bytes}};
}

// The size is that of the pages that may hold what is wanted.
Result<BlockInfo> Estimate(const BlockReader& reader, const BlockQuery& query, const Block& block) {
  BlockInfo info = InfoOf(block);
  const bool is_whole = query.wants_every_topic() && query.Covers(block.entry.extent);
  if (is_whole || !block.sealed) return info;
  TOPICDB_ASSIGN_OR_RETURN(const Directory directory, reader.LoadDirectory(block));
  std::uint64_t rows = 0;
  for (const std::uint32_t page : query.PagesOf(directory)) rows += directory[page].rows;
  info.size = {rows, block.entry.bytes * rows / block.entry.rows};
  return info;
}

void CountRows(const Page& page, const BlockQuery& query,
               std::map<std::uint64_t, MessageCount>* counts) {
  const std::vector<bool> wanted = query.TopicsOf(page);
  auto commit = counts->end();
  for (std::uint32_t row = 0; row < page.rows(); ++row) {
    const std::uint32_t topic = page.topic_of(row);
    if (!wanted[topic] || !query.WantsRow(page, row)) continue;
    if (commit == counts->end() || commit->first != page.serial(row)) {
      commit = counts->try_emplace(page.serial(row)).first;
    }
    ++commit->second.messages;
    commit->second.bytes += page.topic(topic).size() + page.value(row).size();
  }
}

}  // namespace

}  // namespace columnar

Result<std::vector<BlockInfo>> ListBlocks(const RocksSource& source,
                                          const std::vector<ReadRequest>& any_of) {
  const columnar::BlockReader reader(source);
  const columnar::BlockQuery query(any_of);
  std::vector<BlockInfo> blocks;
  TOPICDB_RETURN_IF_ERROR(query.ForEachBlock(reader, [&](const columnar::Block& block) {
    auto info = columnar::Estimate(reader, query, block);
    if (info.ok() && info->size.messages > 0) blocks.push_back(*info);
    return info.ok() ? Status::Ok() : info.status();
  }));
  return blocks;
}

Result<std::map<std::uint64_t, MessageCount>> CountByCommit(
    const RocksSource& source, const BlockInfo& block, const std::vector<ReadRequest>& any_of) {
  columnar::BlockReader reader(source);
  const columnar::BlockQuery query(any_of);
  columnar::Block found;
  found.id = block.id;
  found.sealed = block.sealed;
  std::vector<std::uint32_t> pages{0};  // all of a fresh block
  if (block.sealed) {
    TOPICDB_ASSIGN_OR_RETURN(const columnar::Directory directory, reader.LoadDirectory(block.id));
    pages = query.PagesOf(directory);
  }
  std::map<std::uint64_t, MessageCount> counts;
  for (const std::uint32_t number : pages) {
    TOPICDB_ASSIGN_OR_RETURN(const auto page, reader.LoadPage(found, number));
    columnar::CountRows(*page, query, &counts);
  }
  return counts;
}

}  // namespace topicdb
