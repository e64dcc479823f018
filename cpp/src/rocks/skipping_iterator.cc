#include "rocks/skipping_iterator.h"

#include <algorithm>

#include "rocks/rocks_compat.h"

namespace topicdb::rocks {

namespace {

// SkipFrom takes a key for a number with this many bytes more than the key has, and with at least
// kBytesMin bytes.
constexpr std::size_t kMoreBytes = 8;
constexpr std::size_t kBytesMin = 32;

std::unique_ptr<rocksdb::Iterator> NewIterator(rocksdb::DB* db, const rocksdb::Snapshot* snapshot,
                                               rocksdb::ColumnFamilyHandle* family) {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot;
  options.fill_cache = false;
  return std::unique_ptr<rocksdb::Iterator>(db->NewIterator(options, family));
}

// Adds 1 << bit to a big-endian number. Returns false if the number would be too large.
bool AddBit(std::string* number, std::size_t bit) {
  unsigned carry = 1U << (bit % 8);
  for (std::size_t i = number->size() - 1 - bit / 8; carry != 0; --i) {
    const unsigned sum = static_cast<unsigned char>((*number)[i]) + carry;
    (*number)[i] = static_cast<char>(sum & 0xff);
    carry = sum >> 8;
    if (i == 0) return carry == 0;
  }
  return true;
}

}  // namespace

SkippingIterator::SkippingIterator(rocksdb::DB* db, const rocksdb::Snapshot* snapshot,
                                   rocksdb::ColumnFamilyHandle* family)
    : db_(db), snapshot_(snapshot), family_(family), records_(NewIterator(db, snapshot, family)) {}

void SkippingIterator::Seek(std::string_view key) {
  if (!status_.ok()) return;
  records_->Seek(rocksdb::Slice(key.data(), key.size()));
  if (!IsSound()) SkipFrom(std::string(key));
}

void SkippingIterator::Next() {
  last_.assign(key());
  records_->Next();
  if (!IsSound()) SkipFrom(last_ + '\0');
}

bool SkippingIterator::IsSound() {
  const rocksdb::Status status = records_->status();
  if (status.ok()) return true;
  status_ = FromRocks(status, "reading a block of a table file");
  if (status_.code() != Code::kCorruption) return true;  // the iterator is not valid, as at the end
  why_ = status_.message();
  status_ = Status::Ok();
  return false;
}

bool SkippingIterator::IsSoundAt(const std::string& key) {
  // Makes a new iterator each time. One that has met damage several times in a row finds it
  // everywhere from then on, because of what it has read ahead (RocksDB 9.10).
  records_ = NewIterator(db_, snapshot_, family_);
  records_->Seek(key);
  return IsSound();
}

// Looks for the first key that can be read, in steps that double. Then looks for it between the
// last step that failed and the first that did not, by halving.
void SkippingIterator::SkipFrom(const std::string& key) {
  const std::string why = why_;
  std::string failed = key;
  failed.resize(std::max(key.size() + kMoreBytes, kBytesMin), '\0');
  std::string sound;
  std::size_t bit = 0;
  for (; bit < 8 * failed.size(); ++bit) {
    std::string next = failed;
    if (!AddBit(&next, bit)) break;
    if (IsSoundAt(next)) {
      sound = std::move(next);
      break;
    }
    failed = std::move(next);
  }
  if (sound.empty()) {
    gaps_.push_back({key, {}, why});
    return;  // not valid
  }
  while (bit-- > 0) {
    std::string middle = failed;
    AddBit(&middle, bit);
    if (middle >= sound) continue;
    if (IsSoundAt(middle)) {
      sound = std::move(middle);
    } else {
      failed = std::move(middle);
    }
  }
  IsSoundAt(sound);
  gaps_.push_back({key, Valid() ? std::string(this->key()) : std::string(), why});
}

}  // namespace topicdb::rocks
