#include "base/memory/memory_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "base/bytes/alignment.h"

namespace topicdb {

MemoryPool::MemoryPool(std::size_t pieces_max) : pieces_(std::make_shared<Pieces>(pieces_max)) {}

std::shared_ptr<char> MemoryPool::Take(std::size_t bytes) {
  const Piece piece = pieces_->Take(bytes);
  return {piece.begin, [piece, pieces = pieces_](char*) { pieces->GiveBack(piece); }};
}

MemoryPool::Piece MemoryPool::Map(std::size_t bytes) {
  const std::size_t size = RoundUp(std::max<std::size_t>(bytes, 1), kHugePageBytes);
  void* const memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // With huge pages it takes less time to touch new memory. The system may refuse them.
  madvise(memory, size, MADV_HUGEPAGE);
  return {static_cast<char*>(memory), size};
}

void MemoryPool::Unmap(Piece piece) {
  if (piece.begin != nullptr) munmap(piece.begin, piece.bytes);
}

MemoryPool::Pieces::Pieces(std::size_t pieces_max) : pieces_max_(pieces_max) {
  unused_.reserve(pieces_max);  // so that GiveBack never fails
}

MemoryPool::Pieces::~Pieces() {
  for (const Piece& piece : unused_) Unmap(piece);
}

MemoryPool::Piece MemoryPool::Pieces::Take(std::size_t bytes) {
  Piece too_small;
  Piece piece = Find(bytes, &too_small);
  Unmap(too_small);
  if (piece.begin == nullptr) piece = Map(bytes);
  const MutexLock lock(mutex_);
  ++used_;
  return piece;
}

MemoryPool::Piece MemoryPool::Pieces::Find(std::size_t bytes, Piece* too_small) {
  const MutexLock lock(mutex_);
  const auto fit = std::find_if(unused_.begin(), unused_.end(),
                                [&](const Piece& piece) { return piece.bytes >= bytes; });
  if (fit != unused_.end()) {
    const Piece piece = *fit;
    unused_.erase(fit);
    return piece;
  }
  if (!unused_.empty()) {
    *too_small = unused_.back();
    unused_.pop_back();
  }
  return {};
}

void MemoryPool::Pieces::GiveBack(Piece piece) {
  {
    const MutexLock lock(mutex_);
    --used_;
    if (used_ + unused_.size() < pieces_max_) {
      unused_.push_back(piece);
      return;
    }
  }
  Unmap(piece);
}

}  // namespace topicdb
