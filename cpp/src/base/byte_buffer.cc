#include "topicdb/byte_buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace topicdb {

namespace {
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
}  // namespace

ByteBuffer::~ByteBuffer() { std::free(data_); }

void ByteBuffer::reserve(std::size_t capacity) {
  if (capacity <= capacity_) return;
  void* memory = nullptr;
  if (capacity >= kHugePageBytes) {
    capacity = (capacity + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    memory = std::aligned_alloc(kHugePageBytes, capacity);
    // Only a wish; without it the pages are small.
    if (memory != nullptr) madvise(memory, capacity, MADV_HUGEPAGE);
  } else {
    memory = std::malloc(capacity);
  }
  if (memory == nullptr) throw std::bad_alloc();
  if (size_ > 0) std::memcpy(memory, data_, size_);
  std::free(data_);
  data_ = static_cast<char*>(memory);
  capacity_ = capacity;
}

}  // namespace topicdb
