#include "topicdb/byte_buffer.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/bytes/alignment.h"

namespace topicdb {

namespace {

// Large memory that was given back, for who asks next. A reader fills batch after batch of like
// size; to get each from the system anew, with its pages zeroed, is a fifth of what reading takes.
//
// For any thread; without a lock, which a forked child might find taken for ever. Memory in a slot
// is nobody else's, and begins with its own size.
constexpr std::size_t kReturnedBytesMax = std::size_t{8} << 20;  // of each
std::array<std::atomic<char*>, 4> returned_memory;

// Memory of `capacity` bytes or somewhat more, which `capacity` then is. Null: there is none.
char* TakeReturned(std::size_t* capacity) {
  for (std::atomic<char*>& slot : returned_memory) {
    char* const memory = slot.exchange(nullptr);
    if (memory == nullptr) continue;
    std::size_t bytes = 0;
    std::memcpy(&bytes, memory, sizeof(bytes));
    if (bytes >= *capacity && bytes <= 2 * *capacity) {
      *capacity = bytes;
      return memory;
    }
    std::free(memory);  // no longer of the size that is asked for
  }
  return nullptr;
}

void GiveBack(char* memory, std::size_t bytes) {
  if (bytes < kHugePageBytes || bytes > kReturnedBytesMax) return std::free(memory);
  std::memcpy(memory, &bytes, sizeof(bytes));
  for (std::atomic<char*>& slot : returned_memory) {
    char* empty = nullptr;
    if (slot.compare_exchange_strong(empty, memory)) return;
  }
  std::free(memory);
}

}  // namespace

ByteBuffer::~ByteBuffer() { GiveBack(data_, capacity_); }

void ByteBuffer::reserve(std::size_t capacity) {
  if (capacity <= capacity_) return;
  void* memory = nullptr;
  if (capacity >= kHugePageBytes) {
    capacity = RoundUp(capacity, kHugePageBytes);
    memory = TakeReturned(&capacity);
    if (memory == nullptr) {
      memory = std::aligned_alloc(kHugePageBytes, capacity);
      // Only a wish; without it the pages are small.
      if (memory != nullptr) madvise(memory, capacity, MADV_HUGEPAGE);
    }
  } else {
    memory = std::malloc(capacity);
  }
  if (memory == nullptr) throw std::bad_alloc();
  if (size_ > 0) std::memcpy(memory, data_, size_);
  GiveBack(data_, capacity_);
  data_ = static_cast<char*>(memory);
  capacity_ = capacity;
}

}  // namespace topicdb
