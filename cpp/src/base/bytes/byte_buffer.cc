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

// Large memory of destroyed buffers, for the next buffer that needs some. A reader fills batch
// after batch of similar size. To get memory for each from the system, which zeroes its pages, is a
// fifth of what reading takes.
//
// Any thread may use the slots. They need no lock, which a forked child might find locked forever.
// Memory in a slot belongs to nobody else, and begins with its own size.
constexpr std::size_t kReturnedBytesMax = std::size_t{8} << 20;  // of one slot
std::array<std::atomic<char*>, 4> returned_memory;

// Takes memory of `*capacity` bytes to twice as many out of a slot, and sets `*capacity` to its
// size. Returns null if there is none.
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

// Puts the memory of a buffer into an empty slot, or frees it if no slot is empty or its size does
// not suit the slots.
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
      // The system may refuse huge pages. Then it gives small ones.
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
