#include "rocks/files/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

namespace topicdb::rocks {
namespace {

TEST(ReadAhead, TakesAFewRequestsAtATime) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<std::size_t> done{0};
  std::promise<void> last;
  ReadAhead ahead;
  for (std::size_t i = 0; i < ReadAhead::kRequestsMax; ++i) {
    ASSERT_TRUE(ahead.Submit([&] {
      released.wait();
      ++done;
    }));
  }
  EXPECT_FALSE(ahead.Submit([&] { ADD_FAILURE(); }));
  release.set_value();
  while (!ahead.Submit([&] { last.set_value(); })) {
  }
  last.get_future().wait();
}

TEST(ReadAhead, EndsWithTheRequestsThatRunAndDropsTheOthers) {
  auto ahead = std::make_unique<ReadAhead>();
  std::promise<void> begun;
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<bool> is_done{false};
  std::atomic<int> calls{0};
  ASSERT_TRUE(ahead->Submit([&] {
    begun.set_value();
    released.wait();
    is_done = true;
  }));
  begun.get_future().wait();
  ASSERT_TRUE(ahead->Submit([&] {
    released.wait();
    ++calls;
  }));
  std::thread ending([&] { ahead.reset(); });
  release.set_value();
  ending.join();
  EXPECT_TRUE(is_done);
  EXPECT_LE(calls, 1);
}

}  // namespace
}  // namespace topicdb::rocks
