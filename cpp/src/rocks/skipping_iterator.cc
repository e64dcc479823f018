#include "rocks/skipping_iterator.h"

#include <algorithm>

#include "rocks/rocks_compat.h"

namespace topicdb::rocks {

namespace {

// Keys are taken for numbers of so many bytes more than they have.
constexpr std::size_t kMoreBytes = 8;
constexpr std::size_t kBytesMin = 32;

std::unique_ptr<rocksdb::Iterator> NewIterator(rocksdb::DB* db, const rocksdb::Snapshot* snapshot,
                                               rocksdb::ColumnFamilyHandle* family) {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot;
  options.fill_cache = false;
  return std::unique_ptr<rocksdb::Iterator>(db->NewIterator(options, family));
}

// Adds the bit, counted from the lowest one; false if the number would be too large.
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
  if (status_.code() != Code::kCorruption) return true;  // and not valid: the end
  why_ = status_.message();
  status_ = Status::Ok();
  return false;
}

bool SkippingIterator::IsSoundAt(const std::string& key) {
  // A new one each time: an iterator that has met damage some times in a row goes on to find it
  // everywhere (RocksDB 9.10; it is what it has read ahead).
  records_ = NewIterator(db_, snapshot_, family_);
  records_->Seek(key);
  return IsSound();
}

// The first key that can be read is looked for in steps that double; then, between the last step
// that failed and the first that did not, by halves.
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
