#include "base/memory/memory_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <thread>

namespace topicdb {
namespace {

constexpr std::size_t kBytes = std::size_t{3} << 20;

TEST(MemoryPool, AWholePieceCanBeWritten) {
  MemoryPool pool(1);
  const std::shared_ptr<char> piece = pool.Take(kBytes);
  std::memset(piece.get(), 'x', kBytes);
  EXPECT_EQ(piece.get()[kBytes - 1], 'x');
  EXPECT_NE(pool.Take(0), nullptr);
}

TEST(MemoryPool, APieceIsUsedAgainOnceItsLastOwnerIsGone) {
  MemoryPool pool(2);
  std::shared_ptr<char> piece = pool.Take(kBytes);
  char* const begin = piece.get();
  std::shared_ptr<char> other_owner(piece, begin + 100);
  piece.reset();
  const std::shared_ptr<char> meanwhile = pool.Take(kBytes);
  EXPECT_NE(meanwhile.get(), begin);
  std::thread([&] { other_owner.reset(); }).join();
  EXPECT_EQ(pool.Take(kBytes).get(), begin);
}

TEST(MemoryPool, ALargerPieceTakesThePlaceOfOneThatIsTooSmall) {
  MemoryPool pool(1);
  std::shared_ptr<char> piece = pool.Take(kBytes);
  piece.reset();
  piece = pool.Take(4 * kBytes);
  std::memset(piece.get(), 'x', 4 * kBytes);
  char* const begin = piece.get();
  piece.reset();
  EXPECT_EQ(pool.Take(kBytes).get(), begin);
}

TEST(MemoryPool, KeepsNoMorePiecesThanItMay) {
  MemoryPool pool(1);
  std::shared_ptr<char> first = pool.Take(kBytes);
  std::shared_ptr<char> second = pool.Take(kBytes);
  char* const begin_of_second = second.get();
  first.reset();  // the pool does not keep it: it may have one piece, and that is in use
  second.reset();
  std::shared_ptr<char> third = pool.Take(kBytes);
  std::shared_ptr<char> fourth = pool.Take(kBytes);
  EXPECT_EQ(third.get(), begin_of_second);
  EXPECT_NE(fourth.get(), begin_of_second);
}

TEST(MemoryPool, MayEndBeforeItsPieces) {
  std::optional<MemoryPool> pool(std::in_place, 1);
  const std::shared_ptr<char> piece = pool->Take(kBytes);
  pool.reset();
  std::memset(piece.get(), 'x', kBytes);
}

}  // namespace
}  // namespace topicdb
