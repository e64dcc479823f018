// A growing run of bytes, such as a column of a batch.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

namespace topicdb {

// Like std::string, except that new room is not zeroed and that large buffers ask the system for
// huge pages. Otherwise touching a column of 20 MB for the first time takes as long as filling it.
// The memory of destroyed buffers of 2 to 8 MiB is kept for later buffers of any thread, up to 32
// MiB in all. Not thread-safe: threads may only read a buffer at the same time.
class ByteBuffer {
 public:
  ByteBuffer() = default;
  ~ByteBuffer();
  ByteBuffer(const ByteBuffer&) = delete;
  ByteBuffer& operator=(const ByteBuffer&) = delete;
  ByteBuffer(ByteBuffer&& other) noexcept { Swap(other); }
  ByteBuffer& operator=(ByteBuffer&& other) noexcept {
    ByteBuffer(std::move(other)).Swap(*this);
    return *this;
  }

  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  std::string_view view() const { return {data_, size_}; }

  // Makes room for at least `capacity` bytes in all. Throws std::bad_alloc.
  void reserve(std::size_t capacity);
  // Copies the bytes to the end. Throws std::bad_alloc. REQUIRES: `bytes` is not in this buffer
  void append(std::string_view bytes);
  // Makes the buffer empty, and keeps its memory.
  void clear() { size_ = 0; }

 private:
  void Swap(ByteBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  char* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

inline void ByteBuffer::append(std::string_view bytes) {
  if (bytes.empty()) return;
  if (size_ + bytes.size() > capacity_) {
    reserve(size_ + bytes.size() > 2 * capacity_ ? size_ + bytes.size() : 2 * capacity_);
  }
  bytes.copy(data_ + size_, bytes.size());
  size_ += bytes.size();
}

}  // namespace topicdb
