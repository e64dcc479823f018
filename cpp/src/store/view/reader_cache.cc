#include "store/view/reader_cache.h"

#include <algorithm>

namespace topicdb {

namespace {
constexpr std::size_t kEntriesMax = 4;
constexpr std::chrono::seconds kUnusedMax(5);
}  // namespace

// The methods destroy entries that they forget after they have released the mutex, because closing
// files may take long.

ReaderCache::Entry ReaderCache::Take(const std::string& iterator) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.iterator == iterator; });
  if (found == entries_.end()) return {};
  Entry entry = std::move(*found);
  entries_.erase(found);
  return entry;
}

void ReaderCache::Put(Entry entry) {
  std::list<Entry> forgotten;
  entry.used_at = std::chrono::steady_clock::now();
  const MutexLock lock(mutex_);
  entries_.push_front(std::move(entry));
  if (entries_.size() > kEntriesMax) {
    forgotten.splice(forgotten.begin(), entries_, std::prev(entries_.end()));
  }
}

void ReaderCache::Expire() {
  std::list<Entry> forgotten;
  const auto oldest = std::chrono::steady_clock::now() - kUnusedMax;
  const MutexLock lock(mutex_);
  while (!entries_.empty() && entries_.back().used_at < oldest) {
    forgotten.splice(forgotten.begin(), entries_, std::prev(entries_.end()));
  }
}

void ReaderCache::Clear() {
  std::list<Entry> forgotten;
  const MutexLock lock(mutex_);
  forgotten.swap(entries_);
}

}  // namespace topicdb
