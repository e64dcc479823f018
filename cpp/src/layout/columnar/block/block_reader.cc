#include "layout/columnar/block/block_reader.h"

#include <limits>

#include "base/thread/parallel.h"
#include "rocks/rocks_compat.h"

namespace topicdb::columnar {

namespace {

constexpr std::size_t kPlacementsMax = 64;  // how many placements a reader keeps
// To begin a thread takes as long as to decode a page with this many bytes of topics and values.
constexpr std::uint64_t kLargeBytesMin = std::uint64_t{1} << 20;

Status Damaged(BlockId block, const char* what) {
  return Corruption(NameOf(block) + ": its " + what + " is damaged");
}

}  // namespace

std::unique_ptr<rocksdb::Iterator> BlockReader::NewIterator() const {
  rocksdb::ReadOptions options;
  options.snapshot = source_.snapshot;
  return std::unique_ptr<rocksdb::Iterator>(
      source_.db->NewIterator(options, source_.families.main));
}

Status BlockReader::Check(const rocksdb::Iterator& records) {
  return rocks::FromRocks(records.status(), "reading the entries of blocks");
}

Status BlockReader::DecodeEntry(const rocksdb::Iterator& records, bool sealed, Block* block) {
  block->id = BlockOf(records.key().ToStringView());
  block->sealed = sealed;
  if (block->id == kNoBlock || !Decode(records.value().ToStringView(), &block->entry)) {
    return Damaged(block->id, "entry");
  }
  return Status::Ok();
}

Result<BlockId> BlockReader::LastOf(RecordKind kind, const std::string& key_max) const {
  const std::unique_ptr<rocksdb::Iterator> records = NewIterator();
  records->SeekForPrev(key_max);
  TOPICDB_RETURN_IF_ERROR(Check(*records));
  if (!records->Valid() || !records->key().starts_with(KindPrefix(kind))) return kNoBlock;
  return BlockOf(records->key().ToStringView());
}

Result<BlockId> BlockReader::LastSealed() const {
  return LastOf(RecordKind::kSealedEntry, RecordKey(RecordKind::kSealedEntry, kLastBlock));
}

Result<BlockId> BlockReader::LastWithDeleted() const {
  return LastOf(RecordKind::kDeletedRows,
                DeletedRowsKey(kLastBlock, std::numeric_limits<std::uint32_t>::max()));
}

Result<std::string> BlockReader::Get(rocksdb::ColumnFamilyHandle* family, const std::string& key,
                                     const char* what, BlockId block, Caching caching) const {
  rocksdb::ReadOptions options;
  options.snapshot = source_.snapshot;
  options.fill_cache = caching == Caching::kKeep;
  std::string value;
  const rocksdb::Status status = source_.db->Get(options, family, key, &value);
  if (status.IsNotFound()) {
    return Corruption(NameOf(block) + ": its " + what + " is missing");
  }
  TOPICDB_RETURN_IF_ERROR(
      rocks::FromRocks(status, NameOf(block) + ": reading its " + std::string(what)));
  return value;
}

Result<Directory> BlockReader::LoadDirectory(BlockId block) const {
  TOPICDB_ASSIGN_OR_RETURN(
      const std::string value,
      Get(source_.families.main, RecordKey(RecordKind::kDirectory, block), "directory", block));
  Directory directory;
  if (!Decode(value, &directory)) return Damaged(block, "directory");
  return directory;
}

Result<Directory> BlockReader::LoadDirectory(const Block& block) const {
  TOPICDB_ASSIGN_OR_RETURN(Directory directory, LoadDirectory(block.id));
  std::uint64_t rows = 0;
  for (const PageEntry& page : directory) rows += page.rows;
  if (directory.size() != block.entry.pages || rows != block.entry.rows) {
    return Damaged(block.id, "directory");
  }
  return directory;
}

Result<std::string> BlockReader::LoadWordFilter(BlockId block) const {
  TOPICDB_ASSIGN_OR_RETURN(
      const std::string value,
      Get(source_.families.main, RecordKey(RecordKind::kWordFilter, block), "word filter", block));
  std::string filter;
  if (!DecodeFilter(value, &filter)) return Damaged(block, "word filter");
  return filter;
}

Result<std::optional<std::string>> BlockReader::LoadTopics(BlockId block) const {
  rocksdb::ReadOptions options;
  options.snapshot = source_.snapshot;
  std::optional<std::string> value(std::in_place);
  const rocksdb::Status status = source_.db->Get(options, source_.families.main,
                                                 RecordKey(RecordKind::kTopics, block), &*value);
  if (status.IsNotFound()) return std::optional<std::string>();
  TOPICDB_RETURN_IF_ERROR(
      rocks::FromRocks(status, NameOf(block) + ": reading the list of its topics"));
  return value;
}

Result<std::shared_ptr<const Placement>> BlockReader::LoadPlacement(const Block& block) {
  if (!block.entry.staged) return std::shared_ptr<const Placement>();
  const auto known = placements_.find(block.id);
  if (known != placements_.end()) return known->second;
  TOPICDB_ASSIGN_OR_RETURN(const std::string value,
                           Get(source_.families.main, RecordKey(RecordKind::kPlacement, block.id),
                               "placement", block.id));
  const auto placement = std::make_shared<Placement>();
  if (!Decode(value, placement.get())) return Damaged(block.id, "placement");
  if (placements_.size() >= kPlacementsMax) placements_.clear();
  placements_.emplace(block.id, placement);
  return std::shared_ptr<const Placement>(placement);
}

Result<StoredPage> BlockReader::GetStored(const Block& block, std::uint32_t page,
                                          const Placement* placement,
                                          const LoadOptions& options) const {
  StoredPage stored;
  if (!block.is_paged()) {
    TOPICDB_ASSIGN_OR_RETURN(
        stored.keys, Get(source_.families.main, RecordKey(RecordKind::kFreshPage, block.id), "page",
                         block.id, options.caching));
    return stored;
  }
  const std::uint64_t pages = placement == nullptr ? block.id.value() : placement->pages;
  // Keys that are apart are small, so one block of a table file has those of several pages. Without
  // the cache, RocksDB would read and check that block again for each of these pages.
  const Caching keys = block.entry.form == PageForm::kApart ? Caching::kKeep : options.caching;
  TOPICDB_ASSIGN_OR_RETURN(stored.keys, Get(source_.families.sealed, SealedPageKey(pages, page),
                                            "page", block.id, keys));
  if (options.parts == PageParts::kAll && HasValueRecords(block.entry)) {
    TOPICDB_ASSIGN_OR_RETURN(stored.values,
                             Get(source_.families.sealed, SealedPageKey(pages, ValuesOf(page)),
                                 "page of values", block.id, options.caching));
  }
  return stored;
}

Result<std::shared_ptr<const Page>> BlockReader::LoadPlaced(const Block& block, std::uint32_t page,
                                                            const Placement* placement,
                                                            const LoadOptions& options,
                                                            std::size_t* bytes) const {
  TOPICDB_ASSIGN_OR_RETURN(StoredPage stored, GetStored(block, page, placement, options));
  *bytes = stored.keys.size() + stored.values.size();
  auto loaded = Page::Decode(std::move(stored), options.parts, placement);
  if (loaded.ok()) return loaded;
  return loaded.status().WithContext(NameOf(block.id) + ", page " + std::to_string(page));
}

Result<StoredPage> BlockReader::LoadStored(const Block& block, std::uint32_t page, PageParts parts,
                                           const Placement* placement) {
  TOPICDB_ASSIGN_OR_RETURN(StoredPage stored,
                           GetStored(block, page, placement, {parts, Caching::kPass}));
  bytes_read_ += stored.keys.size() + stored.values.size();
  return stored;
}

Result<std::shared_ptr<const Page>> BlockReader::LoadPage(const Block& block, std::uint32_t page,
                                                          PageParts parts) {
  TOPICDB_ASSIGN_OR_RETURN(const auto placement, LoadPlacement(block));
  std::size_t bytes = 0;
  auto loaded = LoadPlaced(block, page, placement.get(), {parts, Caching::kKeep}, &bytes);
  bytes_read_ += bytes;
  return loaded;
}

Result<std::vector<std::shared_ptr<const Page>>> BlockReader::LoadPages(
    std::span<const PageRef> wanted, PageParts parts) {
  std::vector<std::shared_ptr<const Placement>> placements(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    TOPICDB_ASSIGN_OR_RETURN(placements[i], LoadPlacement(*wanted[i].block));
  }
  std::vector<std::shared_ptr<const Page>> pages(wanted.size());
  std::vector<std::size_t> bytes(wanted.size());
  std::uint64_t bytes_wanted = 0;
  for (const PageRef& ref : wanted) bytes_wanted += ref.block->BytesOfPage(parts);
  const bool is_large = bytes_wanted >= kLargeBytesMin;
  const LoadOptions options{parts, is_large ? Caching::kPass : Caching::kKeep};
  const auto load = [&](std::size_t i) -> Status {
    TOPICDB_ASSIGN_OR_RETURN(pages[i], LoadPlaced(*wanted[i].block, wanted[i].page,
                                                  placements[i].get(), options, &bytes[i]));
    return Status::Ok();
  };
  if (is_large) {
    TOPICDB_RETURN_IF_ERROR(RunInParallel(wanted.size(), load));
  } else {
    for (std::size_t i = 0; i < wanted.size(); ++i) TOPICDB_RETURN_IF_ERROR(load(i));
  }
  for (const std::size_t read : bytes) bytes_read_ += read;
  return pages;
}

Result<DeletedByPage> BlockReader::LoadDeleted(BlockId block) {
  DeletedByPage deleted;
  if (!has_deleted_) return deleted;
  if (deleted_ == nullptr) {
    deleted_ = NewIterator();
    const std::string all = KindPrefix(RecordKind::kDeletedRows);
    deleted_->Seek(all);
    has_deleted_ = deleted_->Valid() && deleted_->key().starts_with(all);
  }
  const std::string prefix = RecordKey(RecordKind::kDeletedRows, block);
  for (deleted_->Seek(prefix); deleted_->Valid() && deleted_->key().starts_with(prefix);
       deleted_->Next()) {
    const std::string_view key = deleted_->key().ToStringView();
    DeletedRows rows;
    if (key.size() != prefix.size() + 4 || !Decode(deleted_->value().ToStringView(), &rows)) {
      return Damaged(block, "list of deleted messages");
    }
    std::uint32_t page = 0;
    for (const char byte : key.substr(prefix.size())) {
      page = (page << 8) | static_cast<unsigned char>(byte);
    }
    deleted.emplace(page, std::move(rows));
  }
  TOPICDB_RETURN_IF_ERROR(Check(*deleted_));
  return deleted;
}

}  // namespace topicdb::columnar
