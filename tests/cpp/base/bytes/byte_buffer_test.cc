#include "topicdb/byte_buffer.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace topicdb {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Appends to the buffer in parts until it has `size` bytes, and checks that they are all there.
void Fill(ByteBuffer* buffer, std::size_t size, char byte) {
  const std::string part(size / 7 + 1, byte);
  while (buffer->size() < size) {
    buffer->append(std::string_view(part).substr(0, size - buffer->size()));
  }
  ASSERT_EQ(buffer->size(), size);
  ASSERT_EQ(buffer->view().find_first_not_of(byte), std::string_view::npos);
}

TEST(ByteBuffer, LargeMemoryIsGivenToWhoAsksNext) {
  const char* memory = nullptr;
  {
    ByteBuffer buffer;
    buffer.reserve(3 * kMiB);
    Fill(&buffer, 2 * kMiB, 'a');
    memory = buffer.view().data();
  }
  ByteBuffer next;
  next.reserve(5 * kMiB / 2);
  Fill(&next, kMiB, 'b');
  EXPECT_EQ(next.view().data(), memory);
  EXPECT_EQ(next.capacity(), 4 * kMiB);
}

TEST(ByteBuffer, MemoryThatIsTooSmallOrFarTooLargeIsNotTaken) {
  for (const std::size_t given : {2 * kMiB, 8 * kMiB, 40 * kMiB}) {
    {
      ByteBuffer buffer;
      buffer.reserve(given);
    }
    ByteBuffer next;
    next.reserve(3 * kMiB);
    EXPECT_EQ(next.capacity(), given == 8 * kMiB ? 8 * kMiB : 4 * kMiB);
    Fill(&next, 3 * kMiB, 'c');
  }
}

TEST(ByteBuffer, GrowingKeepsWhatIsThere) {
  for (int round = 0; round < 3; ++round) {
    ByteBuffer buffer;
    Fill(&buffer, 9 * kMiB, static_cast<char>('d' + round));
    ByteBuffer moved = std::move(buffer);
    EXPECT_EQ(moved.size(), 9 * kMiB);
  }
}

TEST(ByteBuffer, ThreadsShareWhatWasGivenBack) {
  std::vector<std::thread> threads;
  for (int number = 0; number < 6; ++number) {
    threads.emplace_back([number] {
      for (std::size_t round = 0; round < 60; ++round) {
        ByteBuffer buffer;
        buffer.reserve((2 + (round + static_cast<std::size_t>(number)) % 5) * kMiB);
        Fill(&buffer, 64 << 10, static_cast<char>('a' + number));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace topicdb
