#include "layout/columnar/care/block_check.h"

#include <algorithm>
#include <tuple>

#include "base/bytes/coding.h"
#include "layout/columnar/format/block_filter.h"
#include "layout/columnar/format/topic_list.h"
#include "rocks/rocks_compat.h"

namespace topicdb::columnar {

namespace {

std::unique_ptr<rocksdb::Iterator> Records(const RocksSource& source,
                                           rocksdb::ColumnFamilyHandle* family) {
  rocksdb::ReadOptions options;
  options.snapshot = source.snapshot;
  options.fill_cache = false;
  return std::unique_ptr<rocksdb::Iterator>(source.db->NewIterator(options, family));
}

// Returns true if a word of the topic is not in the filter.
bool MissesWord(std::string_view filter, std::string_view topic) {
  for (std::size_t depth = 0;; ++depth) {
    const std::size_t slash = topic.find('/');
    if (!MayContain(filter, WordHash(depth, topic.substr(0, slash)))) return true;
    if (slash == std::string_view::npos) return false;
    topic.remove_prefix(slash + 1);
  }
}

}  // namespace

Result<CheckCounts> BlockChecker::Run() {
  TOPICDB_RETURN_IF_ERROR(ListRecords());
  CheckRecords();
  CheckOrder();
  for (const auto* blocks : {&sealed_, &fresh_}) {
    for (const auto& [id, block] : *blocks) TOPICDB_RETURN_IF_ERROR(CheckBlock(block));
  }
  TOPICDB_RETURN_IF_ERROR(CheckPageKeys());
  return counts_;
}

Status BlockChecker::Note(const Status& status, Finding finding) {
  if (status.ok() || status.code() != Code::kCorruption) return status;
  finding.what = status.message();
  check_.report(std::move(finding));
  return Status::Ok();
}

void BlockChecker::Report(const Block& block, const std::string& what) {
  check_.report({NameOf(block.id) + ": " + what});
}

Finding BlockChecker::Lost(const Block& block) const {
  const Extent& extent = block.entry.extent;
  return {{}, block.entry.rows, std::pair(extent.first_time, extent.last_time), {}};
}

Finding BlockChecker::Lost(const Block& block, const Directory& directory,
                           std::uint32_t page) const {
  const PageEntry& entry = directory[page];
  Finding lost{{}, entry.rows, std::pair(entry.extent.first_time, entry.extent.last_time), {}};
  if (block.entry.staged) return lost;  // its directory has groups instead of streams
  lost.streams.push_back(entry.first_stream);
  for (std::uint32_t next = page + 1; next < directory.size(); ++next) {
    const StreamId stream = directory[next].first_stream;
    if (stream != lost.streams.back()) lost.streams.push_back(stream);
    break;
  }
  return lost;
}

Status BlockChecker::ListRecords() {
  const auto records = Records(source_, source_.families.main);
  for (records->SeekToFirst(); records->Valid(); records->Next()) {
    const std::string_view key = records->key().ToStringView();
    const auto kind = static_cast<RecordKind>(key.empty() ? 0 : key[0]);
    const BlockId id = BlockOf(key);
    const bool is_known = kind >= RecordKind::kFreshEntry && kind <= RecordKind::kTopics;
    if (!is_known || id == kNoBlock) {
      check_.report({"a record of no known kind among those of blocks"});
      continue;
    }
    records_[kind].insert(id);
    if (kind != RecordKind::kFreshEntry && kind != RecordKind::kSealedEntry) continue;
    Block block{id, kind == RecordKind::kSealedEntry, {}};
    if (!Decode(records->value().ToStringView(), &block.entry)) {
      check_.report({NameOf(id) + ": its entry is damaged"});
      continue;
    }
    (block.sealed ? sealed_ : fresh_).emplace(id, std::move(block));
    ++counts_.blocks;
  }
  return Note(rocks::FromRocks(records->status(), "reading the records of blocks"), {});
}

void BlockChecker::CheckRecords() {
  const auto has = [&](RecordKind kind, BlockId block) { return records_[kind].contains(block); };
  for (const auto& [kind, blocks] : records_) {
    if (kind == RecordKind::kDeletedRows) continue;  // a crash may have taken the block alone
    for (const BlockId id : blocks) {
      if (has(RecordKind::kFreshEntry, id) || has(RecordKind::kSealedEntry, id)) continue;
      check_.report({NameOf(id) + ": it has a record of kind " +
                     std::to_string(static_cast<int>(kind)) + ", but no entry"});
    }
  }
  for (const auto* blocks : {&sealed_, &fresh_}) {
    for (const auto& [id, block] : *blocks) {
      if (block.sealed && has(RecordKind::kFreshEntry, id)) Report(block, "it has two entries");
      if (block.entry.rows == 0 || block.entry.pages == 0) Report(block, "it is empty");
    }
  }
}

void BlockChecker::CheckOrder() {
  Serial last_sealed;
  for (const auto& [id, block] : sealed_) {
    last_sealed = std::max(last_sealed, block.entry.extent.last_serial);
  }
  for (const auto& [id, block] : fresh_) {
    if (block.entry.extent.first_serial < last_sealed) {
      Report(block, "it is among the fresh ones, but has commits before sealed ones");
    }
  }
}

Status BlockChecker::CheckBlock(const Block& block) {
  rows_ = 0;
  bytes_ = 0;
  value_bytes_ = 0;
  words_.clear();
  topics_.clear();
  const Extent& extent = block.entry.extent;
  if (extent.last_serial > check_.serial_max) {
    Report(block, "it has serial " + std::to_string(extent.last_serial.value()) +
                      ", but the last commit of the shard is " +
                      std::to_string(check_.serial_max.value()));
  }
  Status status;
  if (!block.is_paged()) {
    status = check_.deep ? CheckPage(block, nullptr, 0) : Status::Ok();
    if (!check_.deep) counts_.messages += block.entry.rows;
  } else {
    const Result<Directory> directory = reader_.LoadDirectory(block);
    TOPICDB_RETURN_IF_ERROR(Note(directory.status(), Lost(block)));
    if (!directory.ok()) return Status::Ok();
    status = CheckPages(block, *directory);
  }
  TOPICDB_RETURN_IF_ERROR(status);
  return check_.checked(block.entry.rows) ? Interrupted() : Status::Ok();
}

Status BlockChecker::CheckPages(const Block& block, const Directory& directory) {
  std::uint64_t pages = block.id.value();
  if (block.entry.staged) {
    const auto placement = reader_.LoadPlacement(block);
    TOPICDB_RETURN_IF_ERROR(Note(placement.status(), Lost(block)));
    if (!placement.ok()) return Status::Ok();
    pages = (*placement)->pages;
  }
  pages_.emplace(
      pages, PagesOf{static_cast<std::uint32_t>(directory.size()), HasValueRecords(block.entry)});
  Result<std::string> words = reader_.LoadWordFilter(block.id);
  TOPICDB_RETURN_IF_ERROR(Note(words.status(), {}));
  if (words.ok()) words_ = std::move(*words);
  CheckDeleted(block, directory);
  if (!check_.deep) {
    counts_.messages += block.entry.rows;
    return Status::Ok();
  }
  for (std::uint32_t page = 0; page < directory.size(); ++page) {
    TOPICDB_RETURN_IF_ERROR(CheckPage(block, &directory, page));
  }
  if (rows_ != block.entry.rows) return Status::Ok();  // CheckPage has reported the missing rows
  TOPICDB_RETURN_IF_ERROR(CheckTopicList(block));
  if (bytes_ != block.entry.bytes) {
    Report(block, "its messages have " + std::to_string(bytes_) + " bytes, by its entry " +
                      std::to_string(block.entry.bytes));
  }
  if (block.entry.form == PageForm::kApart && value_bytes_ != block.entry.value_bytes) {
    Report(block, "its values have " + std::to_string(value_bytes_) + " bytes, by its entry " +
                      std::to_string(block.entry.value_bytes));
  }
  return Status::Ok();
}

void BlockChecker::CheckDeleted(const Block& block, const Directory& directory) {
  const auto deleted = reader_.LoadDeleted(block.id);
  if (!deleted.ok()) {
    check_.report({deleted.status().message()});
    return;
  }
  for (const auto& [page, rows] : *deleted) {
    if (page >= directory.size() || rows.empty() || rows.back() >= directory[page].rows) {
      Report(block, "rows are deleted that it does not have");
    }
  }
}

Status BlockChecker::CheckPage(const Block& block, const Directory* directory,
                               std::uint32_t number) {
  const Result<std::shared_ptr<const Page>> loaded = reader_.LoadPage(block, number);
  TOPICDB_RETURN_IF_ERROR(
      Note(loaded.status(), directory == nullptr ? Lost(block) : Lost(block, *directory, number)));
  if (!loaded.ok()) return Status::Ok();
  const Page& page = **loaded;
  const std::string what = "page " + std::to_string(number);
  ++counts_.pages;
  counts_.messages += page.rows();
  rows_ += page.rows();
  extent_ = {page.time(0), page.time(0), page.serial(0), page.serial(0)};
  CheckRows(block, page, number);
  CheckTopics(block, page, number);
  const Extent& expected = directory == nullptr ? block.entry.extent : (*directory)[number].extent;
  const std::uint32_t rows = directory == nullptr ? block.entry.rows : (*directory)[number].rows;
  if (page.rows() != rows || extent_ != expected) {
    Report(block, what + " has other messages than " +
                      (directory == nullptr ? "its entry" : "the directory") + " says");
  }
  if (directory == nullptr && page.topic_bytes() + page.values().size() != block.entry.bytes) {
    Report(block, "its messages have other sizes than its entry says");
  }
  if (directory != nullptr && !block.entry.staged) {
    const PageEntry& entry = (*directory)[number];
    const std::uint32_t first = page.topic_of(0);
    if (page.stream(first) != entry.first_stream || page.topic(first) != entry.first_topic) {
      Report(block, what + " begins with another topic than the directory says");
    }
  }
  return Status::Ok();
}

void BlockChecker::SeeTopic(const Page& page, std::uint32_t row, std::uint32_t number) {
  const std::uint32_t topic = page.topic_of(row);
  const std::string_view text = page.topic(topic);
  const bool is_known = !topics_.empty() && topics_.back().text == text &&
                        topics_.back().stream == page.stream(topic);
  if (!is_known) topics_.push_back({page.stream(topic), std::string(text), 0, page.time(row)});
  topics_.back().page = number;
  topics_.back().last_time = std::max(topics_.back().last_time, page.time(row));
}

void BlockChecker::CheckRows(const Block& block, const Page& page, std::uint32_t number) {
  const std::string what = "page " + std::to_string(number);
  const bool is_sorted = block.sealed && !block.entry.staged;
  bool in_order = true;
  const auto place = [&](std::uint32_t row) {
    return std::tuple(page.topic_of(row), page.time(row), page.serial(row), page.index(row));
  };
  for (std::uint32_t row = 0; row < page.rows(); ++row) {
    extent_.Include(page.time(row), page.serial(row));
    bytes_ += page.topic(page.topic_of(row)).size() + page.value(row).size();
    value_bytes_ += page.value(row).size();
    if (block.is_paged()) SeeTopic(page, row, number);
    if (is_sorted && row > 0 && place(row) < place(row - 1)) in_order = false;
  }
  if (!in_order) Report(block, what + " is not sorted");
}

void BlockChecker::CheckTopics(const Block& block, const Page& page, std::uint32_t number) {
  const std::string what = "page " + std::to_string(number);
  for (std::uint32_t topic = 0; topic < page.topics(); ++topic) {
    const std::string_view text = page.topic(topic);
    const StreamId stream = page.stream(topic);
    if (!MayContain(block.entry.streams, StreamHash(stream))) {
      Report(block,
             what + ": its entry does not know the stream of topic '" + std::string(text) + "'");
    }
    if (block.is_paged() && !words_.empty() && MissesWord(words_, text)) {
      Report(block, what + ": its word filter does not know the topic '" + std::string(text) + "'");
    }
    if (check_.stream_of(text) != stream) {
      Report(block, what + ": topic '" + std::string(text) + "' is of another stream by the " +
                        "structures of its generation");
    }
  }
}

Status BlockChecker::CheckTopicList(const Block& block) {
  const auto record = reader_.LoadTopics(block.id);
  TOPICDB_RETURN_IF_ERROR(Note(record.status(), {}));
  if (!record.ok() || !record->has_value()) return Status::Ok();
  TopicList list;
  if (!Decode(**record, &list)) {
    Report(block, "the list of its topics is damaged");
    return Status::Ok();
  }
  if (list.rows != block.entry.rows || list.extent != block.entry.extent ||
      list.page_topics.size() != block.entry.pages) {
    return Status::Ok();  // the list is that of another block, and readers ignore it
  }
  const auto texts = Expand(list);
  TOPICDB_RETURN_IF_ERROR(Note(texts.status(), {}));
  if (!texts.ok()) return Status::Ok();
  std::uint32_t next = 0;
  bool is_right = list.topics == topics_.size();
  const auto compare = [&](StreamId stream, std::string_view topic, std::uint32_t page) {
    const std::uint32_t number = next++;
    if (number >= topics_.size()) return Status::Ok();
    const SeenTopic& seen = topics_[number];
    is_right = is_right && seen.text == topic && seen.page == page &&
               (block.entry.staged || seen.stream == stream) &&
               list.LastTimeMax(number) >= seen.last_time;
    return Status::Ok();
  };
  TOPICDB_RETURN_IF_ERROR(Note(ForEachTopic(list, *texts, compare), {}));
  if (!is_right) Report(block, "the list of its topics is not that of its messages");
  return Status::Ok();
}

Status BlockChecker::CheckPageKeys() {
  const BlockId last = sealed_.empty() ? kNoBlock : sealed_.rbegin()->first;
  const auto keys = Records(source_, source_.families.sealed);
  for (keys->SeekToFirst(); keys->Valid(); keys->Next()) {
    const std::string_view key = keys->key().ToStringView();
    const std::uint64_t pages = key.size() == 12 ? ReadBig<std::uint64_t>(key) : 0;
    // Blocks that are being sealed or are staged have pages before they have an entry.
    if (BlockId{pages} > last && (pages < kStagedPagesMin || !pages_.contains(pages))) continue;
    const auto found = pages_.find(pages);
    const bool is_known = found != pages_.end();
    if (is_known && found->second.Has(ReadBig<std::uint32_t>(key.substr(8)))) continue;
    if (!is_known && sealed_.contains(BlockId{pages})) continue;  // its directory is damaged
    check_.report({NameOf(BlockId{pages}) + ": it has a page that no directory knows"});
  }
  return Note(rocks::FromRocks(keys->status(), "reading the pages of blocks"), {});
}

}  // namespace topicdb::columnar
