#include "rocks/files/chunk_cache.h"

namespace topicdb::rocks {

Chunk ChunkCache::Find(const ChunkKey& key) {
  const MutexLock lock(mutex_);
  const auto found = places_.find(key);
  if (found == places_.end()) return nullptr;
  used_.splice(used_.begin(), used_, found->second);
  return found->second->chunk;
}

void ChunkCache::Add(const ChunkKey& key, Chunk chunk) {
  const MutexLock lock(mutex_);
  if (places_.contains(key)) return;
  bytes_ += chunk->size();
  used_.push_front({key, std::move(chunk)});
  places_[key] = used_.begin();
  GiveUp();
}

void ChunkCache::Widen(std::size_t bytes) {
  const MutexLock lock(mutex_);
  bytes_max_ += bytes;
}

void ChunkCache::Narrow(std::size_t bytes) {
  const MutexLock lock(mutex_);
  bytes_max_ -= bytes;
  GiveUp();
}

void ChunkCache::GiveUp() {
  while (bytes_ > bytes_max_ && used_.size() > 1) {
    bytes_ -= used_.back().chunk->size();
    places_.erase(used_.back().key);
    used_.pop_back();
  }
}

std::size_t ChunkCache::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace topicdb::rocks
