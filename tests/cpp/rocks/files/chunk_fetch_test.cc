#include "rocks/files/chunk_fetch.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace topicdb::rocks {
namespace {

bool Never() { return false; }

TEST(ChunkFetch, GivesEachReaderItsChunk) {
  ChunkFetch fetch(7, 2);
  EXPECT_FALSE(fetch.Has(6));
  EXPECT_TRUE(fetch.Has(7));
  EXPECT_TRUE(fetch.Has(8));
  EXPECT_FALSE(fetch.Has(9));
  std::vector<std::thread> readers;
  for (const std::uint64_t chunk : {7, 8, 8}) {
    readers.emplace_back([&fetch, chunk] {
      const auto found = fetch.Wait(chunk, Never);
      ASSERT_TRUE(found.ok());
      EXPECT_EQ(**found, std::to_string(chunk));
    });
  }
  fetch.Finish(std::vector<Chunk>{std::make_shared<const std::string>("7"),
                                  std::make_shared<const std::string>("8")});
  for (std::thread& reader : readers) reader.join();
}

TEST(ChunkFetch, GivesTheError) {
  ChunkFetch fetch(0, 1);
  fetch.Finish(StorageFault("no route to host"));
  EXPECT_EQ(fetch.Wait(0, Never).status().message(), "no route to host");
}

TEST(ChunkFetch, AReaderMayStopWaiting) {
  ChunkFetch fetch(0, 1);
  EXPECT_EQ(fetch.Wait(0, [] { return true; }).status().code(), Code::kInterrupted);
}

}  // namespace
}  // namespace topicdb::rocks
