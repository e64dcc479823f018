#include "replication/batch_scan.h"

#include "rocks/rocks_compat.h"
#include "store/catalog/meta.h"

namespace topicdb::replication {

namespace {

constexpr std::uint32_t kDefaultFamily = 0;

// Calls functions for what a batch has. Kinds of records that it does not override make Iterate
// fail. Not thread-safe.
class ScanHandler : public rocksdb::WriteBatch::Handler {
 public:
  rocksdb::Status PutCF(std::uint32_t id, const rocksdb::Slice& key,
                        const rocksdb::Slice& value) override {
    Note(id);
    if (id == kDefaultFamily && key == commit_state_key_) {
      meta::CommitState state;
      if (!meta::Decode(value.ToStringView(), &state)) {
        return rocksdb::Status::Corruption("the commit state is malformed");
      }
      content.serial = state.serial;
    }
    return rocksdb::Status::OK();
  }
  rocksdb::Status DeleteCF(std::uint32_t id, const rocksdb::Slice&) override {
    Note(id);
    return rocksdb::Status::OK();
  }
  rocksdb::Status DeleteRangeCF(std::uint32_t id, const rocksdb::Slice&,
                                const rocksdb::Slice&) override {
    Note(id);
    return rocksdb::Status::OK();
  }
  rocksdb::Status SingleDeleteCF(std::uint32_t, const rocksdb::Slice&) override {
    return rocksdb::Status::Corruption("a single delete may not be applied twice");
  }
  rocksdb::Status MergeCF(std::uint32_t, const rocksdb::Slice&, const rocksdb::Slice&) override {
    return rocksdb::Status::Corruption("a merge may not be applied twice");
  }

  BatchContent content;

 private:
  void Note(std::uint32_t id) {
    if (id != kDefaultFamily) content.families.insert(id);
  }

  const std::string commit_state_key_ = meta::CommitStateKey();
};

// Adds what a batch has to another one. Not thread-safe.
class CopyHandler : public rocksdb::WriteBatch::Handler {
 public:
  CopyHandler(const std::function<rocksdb::ColumnFamilyHandle*(std::uint32_t)>& handle_of,
              rocksdb::WriteBatch* to)
      : handle_of_(handle_of), to_(to) {}

  rocksdb::Status PutCF(std::uint32_t id, const rocksdb::Slice& key,
                        const rocksdb::Slice& value) override {
    return to_->Put(HandleOf(id), key, value);
  }
  rocksdb::Status DeleteCF(std::uint32_t id, const rocksdb::Slice& key) override {
    return to_->Delete(HandleOf(id), key);
  }
  rocksdb::Status DeleteRangeCF(std::uint32_t id, const rocksdb::Slice& begin,
                                const rocksdb::Slice& end) override {
    return to_->DeleteRange(HandleOf(id), begin, end);
  }

 private:
  // Null stands for the default family.
  rocksdb::ColumnFamilyHandle* HandleOf(std::uint32_t id) const {
    return id == kDefaultFamily ? nullptr : handle_of_(id);
  }

  const std::function<rocksdb::ColumnFamilyHandle*(std::uint32_t)>& handle_of_;
  rocksdb::WriteBatch* const to_;
};

}  // namespace

Result<BatchContent> ScanBatch(const rocksdb::WriteBatch& batch) {
  ScanHandler handler;
  const rocksdb::Status status = batch.Iterate(&handler);
  if (status.ok()) return std::move(handler.content);
  return Corruption("a batch cannot be replicated: " + status.ToString());
}

Status CopyBatch(const rocksdb::WriteBatch& from,
                 const std::function<rocksdb::ColumnFamilyHandle*(std::uint32_t)>& handle_of,
                 rocksdb::WriteBatch* to) {
  CopyHandler handler(handle_of, to);
  return rocks::FromRocks(from.Iterate(&handler), "copying a batch");
}

}  // namespace topicdb::replication
