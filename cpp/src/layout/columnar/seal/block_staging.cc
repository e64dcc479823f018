#include "layout/columnar/seal/block_staging.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "base/bytes/coding.h"
#include "layout/columnar/block/block_builder.h"
#include "layout/columnar/block/block_reader.h"
#include "layout/columnar/format/block_filter.h"
#include "layout/columnar/format/topic_list.h"
#include "rocks/log/shard_log.h"
#include "rocks/rocks_compat.h"

namespace topicdb::columnar {

namespace {

// The topics of a job's rows in the order of a block. The job may have given a topic several
// numbers.
struct TopicOrder {
  std::vector<std::uint32_t> sorted;  // numbers of topics by group and text, each topic once
  std::vector<std::uint32_t> same;    // for each topic, the number that `sorted` has for it
};

TopicOrder OrderTopics(const std::vector<StagedTopic>& topics) {
  std::vector<std::uint32_t> all(topics.size());
  std::iota(all.begin(), all.end(), 0);
  const auto key = [&](std::uint32_t topic) {
    return std::pair(topics[topic].group, std::string_view(topics[topic].text));
  };
  std::sort(all.begin(), all.end(),
            [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  TopicOrder order{{}, std::vector<std::uint32_t>(topics.size())};
  for (const std::uint32_t topic : all) {
    if (order.sorted.empty() || key(topic) != key(order.sorted.back())) {
      order.sorted.push_back(topic);
    }
    order.same[topic] = order.sorted.back();
  }
  return order;
}

// Returns the group in the form in which pages, directories and lists of topics of a staged block
// have it. They have groups in place of streams.
StreamId InPlaceOfStream(std::uint32_t group) { return StreamId{group}; }

// Returns the rows sorted by topic, time and the order in which they came. The index of a row is
// its number in this order of coming.
std::vector<PackedRow> SortRows(const StagedRows& staged, const TopicOrder& order) {
  std::vector<std::size_t> begins(staged.topics.size());
  for (const StagedRows::Row& row : staged.rows) ++begins[order.same[row.topic]];
  std::size_t begin = 0;
  for (const std::uint32_t topic : order.sorted) begin += std::exchange(begins[topic], begin);
  std::vector<PackedRow> rows(staged.rows.size());
  std::vector<std::size_t> next = begins;
  for (std::uint32_t i = 0; i < staged.rows.size(); ++i) {
    const StagedRows::Row& row = staged.rows[i];
    const std::uint32_t number = order.same[row.topic];
    const StagedTopic& topic = staged.topics[number];
    const std::string_view value =
        std::string_view(staged.values).substr(row.value_begin, row.value_size);
    rows[next[number]++] = {
        InPlaceOfStream(topic.group), topic.text, row.time, kStagedSerial, i, value};
  }
  const auto by_time = [](const PackedRow& a, const PackedRow& b) {
    return std::pair(a.time, a.index) < std::pair(b.time, b.index);
  };
  for (const std::uint32_t topic : order.sorted) {
    const auto first = rows.begin() + static_cast<std::ptrdiff_t>(begins[topic]);
    const auto last = rows.begin() + static_cast<std::ptrdiff_t>(next[topic]);
    if (!std::is_sorted(first, last, by_time)) std::sort(first, last, by_time);
  }
  return rows;
}

// Returns the extent that a page or block has once the block is placed.
Extent Placed(const Extent& extent, const StagedPlace& place) {
  return {extent.first_time + place.time_shift, extent.last_time + place.time_shift, place.serial,
          place.serial};
}

// Returns the group of these topics, which are all topics of the group. Most topics have the stream
// of the group, and `others` has the rest.
Placement::Group PlaceGroup(std::span<const StagedTopic> topics,
                            std::span<const StreamId> streams) {
  std::map<StreamId, std::size_t> counts;
  for (const StreamId stream : streams) ++counts[stream];
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  Placement::Group group{topics.front().group, most->first, {}};
  for (std::size_t i = 0; i < topics.size(); ++i) {
    if (streams[i] != group.stream) group.others.emplace_back(topics[i].text, streams[i]);
  }
  return group;
}

// Returns the record of the block's topics. It has no ages, because a staged block does not say
// when each topic had its last message.
Result<std::string> TopicRecord(const std::vector<StagedTopic>& topics, const BlockEntry& entry,
                                const Directory& directory) {
  TopicListBuilder list;
  std::uint32_t page = 0;
  const auto begins_at_or_before = [&](const PageEntry& candidate, const StagedTopic& topic) {
    return std::pair(candidate.first_stream, std::string_view(candidate.first_topic)) <=
           std::pair(InPlaceOfStream(topic.group), std::string_view(topic.text));
  };
  for (const StagedTopic& topic : topics) {
    while (page + 1 < directory.size() && begins_at_or_before(directory[page + 1], topic)) ++page;
    list.Add(InPlaceOfStream(topic.group), topic.text, page, std::nullopt);
  }
  return list.Build(entry.rows, entry.pages, entry.extent);
}

// Returns the numbers of the pages that installed blocks have.
Result<std::set<std::uint64_t>> PlacedPages(const RocksSource& source) {
  BlockReader reader(source);
  std::set<std::uint64_t> placed;
  Status fault;
  const auto note = [&](const Block& block) {
    if (!block.entry.staged) return true;
    const auto placement = reader.LoadPlacement(block);
    fault = placement.status();
    if (fault.ok()) placed.insert((*placement)->pages);
    return fault.ok();
  };
  TOPICDB_RETURN_IF_ERROR(reader.ForEachFresh(note));
  TOPICDB_RETURN_IF_ERROR(fault);
  TOPICDB_RETURN_IF_ERROR(reader.ForEachSealed(note));
  TOPICDB_RETURN_IF_ERROR(fault);
  return placed;
}

Status Damaged() { return Corruption("a staged block is damaged"); }

}  // namespace

Status InstallStaged(const SlabFamilies& families, LayoutState* state, const StagedBlock& block,
                     const StagedPlace& place, rocksdb::WriteBatch* batch) {
  BlockEntry entry;
  Directory directory;
  std::string words;
  if (!Decode(block.entry, &entry) || !Decode(block.directory, &directory) ||
      !DecodeFilter(block.word_filter, &words) || !entry.staged || block.topics.empty() ||
      directory.size() != entry.pages || entry.rows != block.rows ||
      entry.extent.last_time > std::numeric_limits<std::int64_t>::max() - place.time_shift) {
    return Damaged();
  }
  entry.extent = Placed(entry.extent, place);
  for (PageEntry& page : directory) page.extent = Placed(page.extent, place);
  Placement placement{block.pages, place.serial, place.time_shift, {}};
  FilterBuilder streams;
  for (std::size_t begin = 0, end = 0; begin < block.topics.size(); begin = end) {
    end = begin + 1;
    while (end < block.topics.size() && block.topics[end].group == block.topics[begin].group) ++end;
    placement.groups.push_back(PlaceGroup(std::span(block.topics).subspan(begin, end - begin),
                                          place.streams.subspan(begin, end - begin)));
    streams.Add(StreamHash(placement.groups.back().stream));
    for (const auto& [topic, stream] : placement.groups.back().others) {
      streams.Add(StreamHash(stream));
    }
  }
  entry.streams = streams.Build();
  TOPICDB_ASSIGN_OR_RETURN(const std::string topics, TopicRecord(block.topics, entry, directory));
  const BlockId number = state->NewBlockId();
  rocksdb::Status status;
  const auto put = [&](RecordKind kind, const std::string& value) {
    if (status.ok()) status = batch->Put(families.main, RecordKey(kind, number), value);
  };
  put(RecordKind::kFreshEntry, Encode(entry));
  put(RecordKind::kDirectory, Encode(directory));
  put(RecordKind::kWordFilter, block.word_filter);
  put(RecordKind::kPlacement, Encode(placement));
  if (IsWorthStoring(topics, entry.bytes)) put(RecordKind::kTopics, topics);
  return rocks::FromRocks(status, "placing a staged block");
}

Result<StagedState> FindStaged(const RocksSource& source, std::uint64_t pages) {
  std::string page;
  const rocksdb::Status status = source.db->Get(rocksdb::ReadOptions(), source.families.sealed,
                                                SealedPageKey(pages, 0), &page);
  if (status.IsNotFound()) return StagedState::kAbsent;
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "looking for staged pages"));
  TOPICDB_ASSIGN_OR_RETURN(const std::set<std::uint64_t> placed, PlacedPages(source));
  return placed.contains(pages) ? StagedState::kInstalled : StagedState::kStored;
}

Status RemoveUnplaced(const RocksSource& source) {
  const std::unique_ptr<rocksdb::Iterator> pages(
      source.db->NewIterator(rocksdb::ReadOptions(), source.families.sealed));
  pages->Seek(SealedPageKey(kStagedPagesMin, 0));
  std::set<std::uint64_t> placed;
  if (pages->Valid()) {  // otherwise there was no job, and the blocks need not be read
    TOPICDB_ASSIGN_OR_RETURN(placed, PlacedPages(source));
  }
  rocksdb::WriteBatch batch;
  rocksdb::Status status;
  while (status.ok() && pages->Valid()) {
    const auto number = ReadBig<std::uint64_t>(pages->key().ToStringView());
    if (placed.contains(number)) {
      pages->Seek(SealedPageKey(number, std::numeric_limits<std::uint32_t>::max()));
      continue;
    }
    status = batch.Delete(source.families.sealed, pages->key());
    pages->Next();
  }
  if (status.ok()) status = pages->status();
  TOPICDB_RETURN_IF_ERROR(
      rocks::FromRocks(status, "looking for pages of jobs that were not committed"));
  if (batch.Count() == 0) return Status::Ok();
  return source.log->Write({rocks::EntryKind::kCleanup}, &batch);
}

}  // namespace topicdb::columnar

namespace topicdb {

Status StageBlock(const StagedRows& rows, std::uint64_t pages, std::size_t page_bytes_max,
                  const KeySink& sink, StagedBlock* block) {
  const columnar::TopicOrder order = columnar::OrderTopics(rows.topics);
  columnar::BlockBuilder builder(columnar::PageCodec::kLz4, columnar::PageForm::kApart,
                                 page_bytes_max);
  const columnar::PageSink put = [&](std::uint32_t number, std::string_view record) {
    return sink(columnar::SealedPageKey(pages, number), record);
  };
  TOPICDB_RETURN_IF_ERROR(builder.Build(columnar::SortRows(rows, order), put));
  block->topics.clear();
  for (const std::uint32_t topic : order.sorted) block->topics.push_back(rows.topics[topic]);
  columnar::BlockEntry entry = builder.entry();
  entry.staged = true;
  entry.streams.clear();
  block->pages = pages;
  block->assigns_times = rows.assigns_times;
  block->rows = entry.rows;
  block->bytes = entry.bytes;
  block->first_time = entry.extent.first_time;
  block->last_time = entry.extent.last_time;
  block->entry = columnar::Encode(entry);
  block->directory = columnar::Encode(builder.directory());
  block->word_filter = columnar::EncodeFilter(builder.word_filter());
  return Status::Ok();
}

Status ForEachStagedMessage(const StagedBlock& block, const KeySource& source,
                            const std::function<Status(const StagedMessage&)>& visit) {
  columnar::BlockEntry entry;
  if (!columnar::Decode(block.entry, &entry)) return columnar::Damaged();
  for (std::uint32_t number = 0; number < entry.pages; ++number) {
    columnar::StoredPage stored;
    TOPICDB_ASSIGN_OR_RETURN(stored.keys, source(columnar::SealedPageKey(block.pages, number)));
    if (columnar::HasValueRecords(entry)) {
      const std::string key = columnar::SealedPageKey(block.pages, columnar::ValuesOf(number));
      TOPICDB_ASSIGN_OR_RETURN(stored.values, source(key));
    }
    TOPICDB_ASSIGN_OR_RETURN(const auto page,
                             columnar::Page::Decode(std::move(stored), columnar::PageParts::kAll));
    for (std::uint32_t row = 0; row < page->rows(); ++row) {
      TOPICDB_RETURN_IF_ERROR(visit(
          {page->topic(page->topic_of(row)), page->time(row), page->value(row), page->index(row)}));
    }
  }
  return Status::Ok();
}

}  // namespace topicdb
