#include "layout/columnar/care/block_salvage.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/bytes/coding.h"
#include "rocks/rocks_compat.h"

namespace topicdb::columnar {

namespace {

constexpr std::size_t kMemoryBytesMax = std::size_t{96} << 20;  // of messages, decoded

std::string PagesPrefix(std::uint64_t pages) {
  std::string prefix;
  AppendBig<std::uint64_t>(&prefix, pages);
  return prefix;
}

// Returns the number of the page of a key, or nothing if the key is that of values or malformed.
std::optional<std::uint32_t> PageOf(std::string_view key, const std::string& prefix) {
  key.remove_prefix(prefix.size());
  if (key.size() != sizeof(std::uint32_t)) return std::nullopt;
  const auto record = ReadBig<std::uint32_t>(key);
  return record < kValuesBegin ? std::optional(record) : std::nullopt;
}

std::string NameOf(BlockId id, std::uint64_t pages) {
  return id != kNoBlock ? columnar::NameOf(id) : "pages " + std::to_string(pages);
}

}  // namespace

BlockSalvage::BlockSalvage(const RocksSource& source, const SlabSalvage& call)
    : source_(source),
      call_(call),
      reader_(source),
      is_incomplete_(call.is_incomplete),
      rows_(source.db->GetName(), kMemoryBytesMax) {}

Status BlockSalvage::Run() {
  TOPICDB_RETURN_IF_ERROR(ListRecords());
  TOPICDB_RETURN_IF_ERROR(ListPages());
  TOPICDB_RETURN_IF_ERROR(ListUnits());
  const auto take = [&](const FoundRow& row) { return Take(row); };
  for (std::size_t i = 0; i < units_.size(); ++i) {
    TOPICDB_RETURN_IF_ERROR(Load(units_[i]));
    if (i + 1 == units_.size()) break;
    TOPICDB_RETURN_IF_ERROR(rows_.TakeBefore(units_[i + 1].first_serial, take));
  }
  TOPICDB_RETURN_IF_ERROR(rows_.TakeRest(take));
  ReportLost();
  return Status::Ok();
}

Status BlockSalvage::ListRecords() {
  rocks::SkippingIterator records(source_.db, source_.snapshot, source_.families.main);
  for (records.Seek({}); records.Valid(); records.Next()) {
    TakeRecord(records.key(), records.value());
  }
  if (!records.gaps().empty()) {
    is_incomplete_ = true;
    Finding finding{"some records of blocks are lost: " + records.gaps().front().why};
    finding.is_counted = false;
    call_.report(std::move(finding));
  }
  return records.status();
}

void BlockSalvage::TakeRecord(std::string_view key, std::string_view value) {
  const auto kind = static_cast<RecordKind>(key.empty() ? 0 : key[0]);
  const BlockId id = BlockOf(key);
  const bool is_known = kind >= RecordKind::kFreshEntry && kind <= RecordKind::kTopics;
  if (!is_known || id == kNoBlock) return;
  Unit& unit = blocks_[id];
  unit.id = id;
  unit.has_own_record = unit.has_own_record || kind != RecordKind::kDeletedRows;
  const bool is_entry = kind == RecordKind::kFreshEntry || kind == RecordKind::kSealedEntry;
  if (is_entry) {
    BlockEntry entry;
    if (Decode(value, &entry)) {
      entry.streams.clear();
      unit.is_paged = unit.is_paged || entry.staged;
      unit.entry = std::move(entry);
    } else {
      is_incomplete_ = true;
    }
  }
  if (kind == RecordKind::kPlacement) {
    Placement placement;
    if (Decode(value, &placement)) {
      unit.pages = placement.pages;
      unit.serial = placement.serial;
      unit.time_shift = placement.time_shift;
    }
  }
  const bool is_of_any = kind == RecordKind::kFreshEntry || kind == RecordKind::kFreshPage ||
                         kind == RecordKind::kDeletedRows;
  if (!is_of_any) unit.is_paged = true;
}

Status BlockSalvage::ListPages() {
  rocks::SkippingIterator pages(source_.db, source_.snapshot, source_.families.sealed);
  for (pages.Seek({}); pages.Valid();) {
    if (pages.key().size() < sizeof(std::uint64_t)) {
      pages.Next();
      continue;
    }
    const auto number = ReadBig<std::uint64_t>(pages.key());
    pages_.insert(number);
    if (number == std::numeric_limits<std::uint64_t>::max()) break;
    pages.Seek(PagesPrefix(number + 1));
  }
  return pages.status();
}

Status BlockSalvage::ListUnits() {
  for (const auto& [id, unit] : blocks_) {
    if (unit.pages.has_value()) pages_.erase(*unit.pages);
  }
  for (auto& [id, unit] : blocks_) {
    if (!unit.is_paged || unit.pages.has_value()) continue;
    // The pages of a block that was never staged have its own number.
    const std::uint64_t own_pages = id.value();
    const bool is_staged =
        unit.entry.has_value() ? unit.entry->staged : !pages_.contains(own_pages);
    if (is_staged) {
      TOPICDB_RETURN_IF_ERROR(MatchStaged(&unit));
    } else {
      unit.pages = own_pages;
      pages_.erase(own_pages);
    }
  }
  for (auto& [id, unit] : blocks_) units_.push_back(std::move(unit));
  blocks_.clear();
  for (const std::uint64_t pages : pages_) {
    if (!is_incomplete_) break;  // no record is missing: the pages never became visible
    if (pages < kStagedPagesMin) {
      units_.push_back({kNoBlock, std::nullopt, true, pages});
      continue;
    }
    TOPICDB_ASSIGN_OR_RETURN(const PagesSummary summary, Summarize(pages));
    Report(kNoBlock, "pages of a job that no block has: whether it was committed is not known",
           summary.rows, summary.extent);
  }
  for (Unit& unit : units_) {
    TOPICDB_ASSIGN_OR_RETURN(unit.first_serial, FirstSerialOf(unit));
  }
  std::sort(units_.begin(), units_.end(), [](const Unit& a, const Unit& b) {
    return std::tuple(a.first_serial, a.id) < std::tuple(b.first_serial, b.id);
  });
  return Status::Ok();
}

Result<BlockSalvage::PagesSummary> BlockSalvage::Summarize(std::uint64_t pages) {
  PagesSummary summary;
  const std::string prefix = PagesPrefix(pages);
  rocks::SkippingIterator found(source_.db, source_.snapshot, source_.families.sealed);
  for (found.Seek(prefix); found.Valid() && found.key().starts_with(prefix); found.Next()) {
    if (!PageOf(found.key(), prefix).has_value()) continue;
    const auto page = Page::Decode(StoredPage{std::string(found.value())}, PageParts::kKeys);
    if (!page.ok()) continue;
    if (summary.pages++ == 0) summary.extent = (*page)->extent();
    summary.extent.Include((*page)->extent());
    summary.rows += (*page)->rows();
  }
  TOPICDB_RETURN_IF_ERROR(found.status());
  return summary;
}

Status BlockSalvage::MatchStaged(Unit* unit) {
  const auto directory = reader_.LoadDirectory(unit->id);
  std::uint64_t rows = 0;
  Extent extent;
  if (unit->entry.has_value()) {
    rows = unit->entry->rows;
    extent = unit->entry->extent;
  } else if (directory.ok() && !directory->empty()) {
    extent = directory->front().extent;
    for (const PageEntry& page : *directory) {
      rows += page.rows;
      extent.Include(page.extent);
    }
  } else {
    return Status::Ok();
  }
  for (auto pages = pages_.lower_bound(kStagedPagesMin); pages != pages_.end(); ++pages) {
    TOPICDB_ASSIGN_OR_RETURN(const PagesSummary found, Summarize(*pages));
    const bool is_equal = found.rows == rows && found.extent.last_time - found.extent.first_time ==
                                                    extent.last_time - extent.first_time;
    if (!is_equal) continue;
    unit->pages = *pages;
    unit->serial = extent.first_serial;
    unit->time_shift = extent.first_time - found.extent.first_time;
    pages_.erase(pages);
    return Status::Ok();
  }
  return Status::Ok();
}

Result<Serial> BlockSalvage::FirstSerialOf(const Unit& unit) {
  if (unit.entry.has_value()) return unit.entry->extent.first_serial;
  if (unit.is_staged()) return unit.serial;
  if (!unit.is_paged) {
    const auto bytes = Get(source_.families.main, RecordKey(RecordKind::kFreshPage, unit.id));
    if (!bytes.ok())
      return bytes.status().code() == Code::kCorruption ? Result<Serial>(kNoSerial)
                                                        : bytes.status();
    const auto page = Page::Decode(*bytes);
    return page.ok() ? (*page)->extent().first_serial : kNoSerial;
  }
  if (!unit.pages.has_value()) return kNoSerial;
  TOPICDB_ASSIGN_OR_RETURN(const PagesSummary summary, Summarize(*unit.pages));
  return summary.extent.first_serial;
}

Status BlockSalvage::Load(const Unit& unit) {
  return unit.is_paged ? LoadPaged(unit) : LoadPlain(unit);
}

Result<std::string> BlockSalvage::Get(rocksdb::ColumnFamilyHandle* family,
                                      const std::string& key) const {
  rocksdb::ReadOptions options;
  options.snapshot = source_.snapshot;
  options.fill_cache = false;
  std::string value;
  const rocksdb::Status status = source_.db->Get(options, family, key, &value);
  if (status.IsNotFound()) return Corruption("it is missing");
  TOPICDB_RETURN_IF_ERROR(rocks::FromRocks(status, "reading it"));
  return value;
}

Status BlockSalvage::LoadPlain(const Unit& unit) {
  // A crash may take a block and leave its deleted rows (DeletedRowsKey). That is no damage.
  if (!unit.has_own_record && !is_incomplete_) return Status::Ok();
  Result<std::string> bytes =
      Get(source_.families.main, RecordKey(RecordKind::kFreshPage, unit.id));
  if (!bytes.ok() && bytes.status().code() != Code::kCorruption) return bytes.status();
  auto deleted = LoadDeleted(unit);
  Status status = bytes.status();
  if (bytes.ok()) status = TakePage(unit, {std::move(*bytes)}, deleted[0]).status();
  if (status.ok()) return status;
  const BlockEntry entry = unit.entry.value_or(BlockEntry());
  if (entry.rows > 0 && entry.rows == deleted[0].size()) return Status::Ok();
  Report(unit.id, NameOf(unit.id) + ": its page: " + status.message(), entry.rows, entry.extent);
  return Status::Ok();
}

DeletedByPage BlockSalvage::LoadDeleted(const Unit& unit) {
  if (unit.id == kNoBlock) return {};
  // The iterator of a reader that has met damage may be of no more use.
  auto deleted = BlockReader(source_).LoadDeleted(unit.id);
  if (deleted.ok()) return std::move(*deleted);
  call_.report(
      {NameOf(unit.id) + ": which of its messages were deleted is lost: they are there again"});
  return {};
}

Status BlockSalvage::LoadPaged(const Unit& unit) {
  std::optional<Directory> directory;
  if (unit.id != kNoBlock) {
    auto loaded = reader_.LoadDirectory(unit.id);
    if (!loaded.ok() && loaded.status().code() != Code::kCorruption) return loaded.status();
    if (loaded.ok()) directory = std::move(*loaded);
  }
  if (!unit.pages.has_value()) {
    const BlockEntry entry = unit.entry.value_or(BlockEntry());
    Report(unit.id, NameOf(unit.id) + ": where its pages are is lost", entry.rows, entry.extent);
    return Status::Ok();
  }
  const auto deleted = LoadDeleted(unit);
  const bool is_counted = directory.has_value() || unit.entry.has_value();
  return is_counted ? LoadKnownPages(unit, directory, deleted) : LoadAnyPages(unit, deleted);
}

Status BlockSalvage::LoadKnownPages(const Unit& unit, const std::optional<Directory>& directory,
                                    const DeletedByPage& deleted) {
  const std::size_t count = directory.has_value() ? directory->size() : unit.entry->pages;
  std::uint64_t rows = 0;
  for (std::uint32_t number = 0; number < count; ++number) {
    const auto known = deleted.find(number);
    const DeletedRows& removed = known != deleted.end() ? known->second : DeletedRows();
    Result<StoredPage> stored = GetPage(*unit.pages, number);
    if (!stored.ok() && stored.status().code() != Code::kCorruption) return stored.status();
    Result<std::uint32_t> taken =
        stored.ok() ? TakePage(unit, std::move(*stored), removed) : stored.status();
    if (taken.ok()) rows += *taken + removed.size();
    if (taken.ok() || !directory.has_value()) continue;
    const PageEntry& page = (*directory)[number];
    if (page.rows == removed.size()) continue;  // all of its rows are deleted
    std::vector<StreamId> streams;
    if (!unit.is_staged()) streams.push_back(page.first_stream);
    if (!unit.is_staged() && number + 1 < count) {
      const StreamId next = (*directory)[number + 1].first_stream;
      if (next != page.first_stream) streams.push_back(next);
    }
    Report(unit.id,
           NameOf(unit.id, *unit.pages) + ", page " + std::to_string(number) + ": " +
               taken.status().message(),
           page.rows - removed.size(), page.extent, std::move(streams));
  }
  if (directory.has_value() || rows == unit.entry->rows) return Status::Ok();
  Report(unit.id, NameOf(unit.id, *unit.pages) + ": some of its pages", unit.entry->rows - rows,
         unit.entry->extent);
  return Status::Ok();
}

Status BlockSalvage::LoadAnyPages(const Unit& unit, const DeletedByPage& deleted) {
  const std::string prefix = PagesPrefix(*unit.pages);
  rocks::SkippingIterator pages(source_.db, source_.snapshot, source_.families.sealed);
  bool is_whole = true;
  for (pages.Seek(prefix); pages.Valid() && pages.key().starts_with(prefix); pages.Next()) {
    const std::optional<std::uint32_t> number = PageOf(pages.key(), prefix);
    if (!number.has_value()) continue;  // the keys of these values tell of them
    const auto known = deleted.find(*number);
    const DeletedRows& removed = known != deleted.end() ? known->second : DeletedRows();
    Result<StoredPage> stored = GetPage(*unit.pages, *number);
    if (!stored.ok() && stored.status().code() != Code::kCorruption) return stored.status();
    is_whole = stored.ok() && TakePage(unit, std::move(*stored), removed).ok() && is_whole;
  }
  if (!is_whole || !pages.gaps().empty()) {
    call_.report({NameOf(unit.id, *unit.pages) +
                  ": some of its pages are lost; how many messages " + "they had is not known"});
  }
  return pages.status();
}

Result<StoredPage> BlockSalvage::GetPage(std::uint64_t pages, std::uint32_t number) const {
  StoredPage stored;
  TOPICDB_ASSIGN_OR_RETURN(stored.keys, Get(source_.families.sealed, SealedPageKey(pages, number)));
  Result<std::string> values = Get(source_.families.sealed, SealedPageKey(pages, ValuesOf(number)));
  if (!values.ok() && values.status().code() != Code::kCorruption) return values.status();
  if (values.ok()) stored.values = std::move(*values);
  return stored;
}

Result<std::uint32_t> BlockSalvage::TakePage(const Unit& unit, StoredPage stored,
                                             const DeletedRows& deleted) {
  TOPICDB_ASSIGN_OR_RETURN(const std::shared_ptr<const Page> page,
                           Page::Decode(std::move(stored), PageParts::kAll));
  rows_.AddPage(page);
  std::uint32_t taken = 0;
  DeletedCursor cursor(deleted);
  for (std::uint32_t row = 0; row < page->rows(); ++row) {
    if (cursor.Holds(row)) continue;
    const Serial serial = unit.is_staged() ? unit.serial : page->serial(row);
    rows_.AddRow(row, serial, page->time(row) + unit.time_shift, unit.id == kNoBlock);
    ++taken;
  }
  return taken;
}

void BlockSalvage::Report(BlockId block, const std::string& what, std::uint64_t messages,
                          const Extent& extent, std::vector<StreamId> streams) {
  Finding finding{what, messages, std::pair(extent.first_time, extent.last_time),
                  std::move(streams)};
  if (messages == 0) finding = {what + "; how many messages it had is not known"};
  lost_.push_back({block, extent, std::move(finding)});
}

void BlockSalvage::ReportLost() {
  for (LostRows& lost : lost_) {
    std::uint64_t* const messages = &lost.finding.messages;
    auto stray = strays_.lower_bound(lost.extent.first_serial);
    const bool was_counted = *messages > 0;
    while (*messages > 0 && stray != strays_.end() && stray->first <= lost.extent.last_serial) {
      const std::uint64_t found = std::min(*messages, stray->second);
      *messages -= found;
      stray->second -= found;
      stray = stray->second == 0 ? strays_.erase(stray) : std::next(stray);
    }
    if (was_counted && *messages == 0) lost.finding = {lost.finding.what + "; found elsewhere"};
    lost.finding.is_counted = was_counted;
    call_.report(std::move(lost.finding));
  }
}

Status BlockSalvage::Take(const FoundRow& row) {
  if (row.is_stray) ++strays_[row.serial];
  return call_.take({row.topic, row.time, row.serial, row.index, row.value});
}

}  // namespace topicdb::columnar
