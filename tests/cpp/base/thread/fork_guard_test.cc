#include "base/thread/fork_guard.h"

#include <gtest/gtest.h>

#include "in_child.h"

namespace topicdb {
namespace {

TEST(ForkGuard, KnowsTheChild) {
  const ForkGuard guard;
  EXPECT_FALSE(guard.Forked());
  EXPECT_EQ(InChild([&] { return guard.Forked() && !ForkGuard().Forked() ? 0 : 1; }), 0);
  EXPECT_FALSE(guard.Forked());
}

}  // namespace
}  // namespace topicdb
