// Large pieces of memory that are used one after the other, without the heap.
//
// The heap keeps what is freed, for each thread on its own. A read that fills 50 MiB in one thread,
// frees them in another and does so a hundred times would keep several times as much as it uses.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/thread/mutex.h"

namespace topicdb {

// Hands out pieces of memory, and keeps those that come back for later ones. Its owner may destroy
// it while pieces are in use. Thread-safe.
class MemoryPool {
 public:
  // When a piece comes back, the pool keeps it if it then has at most `pieces_max` pieces,
  // including those in use.
  explicit MemoryPool(std::size_t pieces_max);

  // Returns at least `bytes` bytes with arbitrary content, aligned to 4 KiB. The piece comes back
  // when its last owner is destroyed, in whatever thread. Throws std::bad_alloc.
  std::shared_ptr<char> Take(std::size_t bytes);

 private:
  // A piece of memory from the system.
  struct Piece {
    char* begin = nullptr;
    std::size_t bytes = 0;
  };
  // All pieces of a pool. Outlives the pool as long as pieces are in use. Thread-safe.
  class Pieces {
   public:
    explicit Pieces(std::size_t pieces_max);
    ~Pieces();
    Pieces(const Pieces&) = delete;
    Pieces& operator=(const Pieces&) = delete;

    // Returns an unused piece of at least `bytes`, or a new one. Throws std::bad_alloc.
    Piece Take(std::size_t bytes);
    // Keeps the piece for a later Take, or returns it to the system.
    void GiveBack(Piece piece);

   private:
    // Removes and returns an unused piece of at least `bytes`. If there is none, returns no piece,
    // and sets `too_small` to one whose place a larger one takes.
    Piece Find(std::size_t bytes, Piece* too_small);

    const std::size_t pieces_max_;
    Mutex mutex_;
    std::size_t used_ TOPICDB_GUARDED_BY(mutex_) = 0;  // how many pieces are in use
    std::vector<Piece> unused_ TOPICDB_GUARDED_BY(mutex_);
  };

  // Map gets a piece from the system, and throws std::bad_alloc if there is no memory. Unmap
  // returns the piece to the system.
  static Piece Map(std::size_t bytes);
  static void Unmap(Piece piece);

  const std::shared_ptr<Pieces> pieces_;
};

}  // namespace topicdb
