#include "rocks/files/chunk_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace topicdb::rocks {
namespace {

Chunk ChunkOf(std::size_t bytes) { return std::make_shared<const std::string>(bytes, 'x'); }

TEST(ChunkCache, GivesUpWhatWasNotUsedForLongest) {
  ChunkCache cache(30);
  cache.Add({"a", 0}, ChunkOf(10));
  cache.Add({"a", 1}, ChunkOf(10));
  cache.Add({"b", 0}, ChunkOf(10));
  EXPECT_NE(cache.Find({"a", 0}), nullptr);
  cache.Add({"b", 1}, ChunkOf(10));
  EXPECT_EQ(cache.Find({"a", 1}), nullptr);
  EXPECT_NE(cache.Find({"a", 0}), nullptr);
  EXPECT_EQ(cache.bytes(), 30U);
}

TEST(ChunkCache, KeepsMoreAsLongAsThereIsRoom) {
  ChunkCache cache(20);
  {
    const ChunkCache::Room room(&cache, 20);
    for (std::uint64_t chunk = 0; chunk < 5; ++chunk) cache.Add({"a", chunk}, ChunkOf(10));
    EXPECT_EQ(cache.bytes(), 40U);
  }
  EXPECT_EQ(cache.bytes(), 20U);
  EXPECT_NE(cache.Find({"a", 4}), nullptr);
}

TEST(ChunkCache, KeepsAChunkOnce) {
  ChunkCache cache(30);
  const Chunk first = ChunkOf(10);
  cache.Add({"a", 0}, first);
  cache.Add({"a", 0}, ChunkOf(10));
  EXPECT_EQ(cache.Find({"a", 0}), first);
  EXPECT_EQ(cache.bytes(), 10U);
}

}  // namespace
}  // namespace topicdb::rocks
