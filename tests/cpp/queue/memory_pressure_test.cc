#include <gtest/gtest.h>

#include "topicdb/queue.h"

namespace topicdb {
namespace {

TEST(Queue, MemoryPressureCanBeAsked) { static_cast<void>(SystemMemoryIsHigh()); }

}  // namespace
}  // namespace topicdb
