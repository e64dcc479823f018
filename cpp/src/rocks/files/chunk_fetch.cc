#include "rocks/files/chunk_fetch.h"

#include <chrono>
#include <utility>

namespace topicdb::rocks {

namespace {

constexpr std::chrono::milliseconds kAskEach{100};

}  // namespace

void ChunkFetch::Finish(Result<std::vector<Chunk>> chunks) {
  const MutexLock lock(mutex_);
  status_ = chunks.status();
  if (chunks.ok()) chunks_ = std::move(*chunks);
  is_done_ = true;
  changed_.NotifyAll();
}

Result<Chunk> ChunkFetch::Wait(std::uint64_t chunk, const std::function<bool()>& is_interrupted) {
  const MutexLock lock(mutex_);
  while (!is_done_) {
    changed_.WaitUntil(mutex_, std::chrono::steady_clock::now() + kAskEach);
    if (!is_done_ && is_interrupted()) return Interrupted();
  }
  TOPICDB_RETURN_IF_ERROR(status_);
  return chunks_[chunk - begin_];
}

}  // namespace topicdb::rocks
