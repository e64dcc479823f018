// What both formats share: the names of segment files.
#include "segment/segment_format.h"

#include <gtest/gtest.h>

#include <string>

namespace topicdb {
namespace {

TEST(SegmentFormat, FileNamesAreThoseThatQueuesHave) {
  EXPECT_EQ(NativeSegmentFormat().FileName(7), "0000000000000007.segment");
  EXPECT_EQ(ReplayqSegmentFormat().FileName(7), "0000000007.replaylog");
}

TEST(SegmentFormat, FileNamesTellTheNumber) {
  for (const std::uint64_t number :
       {std::uint64_t{1}, std::uint64_t{UINT32_MAX}, std::uint64_t{9'999'999'999'999'999},
        std::uint64_t{10'000'000'000'000'000}, UINT64_MAX}) {
    const std::string native = NativeSegmentFormat().FileName(number);
    EXPECT_EQ(NativeSegmentFormat().NumberOf(native), number) << native;
    EXPECT_EQ(ReplayqSegmentFormat().NumberOf(native), std::nullopt) << native;
  }
}

TEST(SegmentFormat, NumbersOfReplayqHave32Bits) {
  EXPECT_EQ(ReplayqSegmentFormat().NumberOf("4294967295.replaylog"), UINT32_MAX);
  EXPECT_EQ(ReplayqSegmentFormat().NumberOf("4294967296.replaylog"), std::nullopt);
}

TEST(SegmentFormat, OtherNamesAreNotSegments) {
  for (const char* name :
       {"", ".segment", "QUEUE", "7.segment", "0000000000000000.segment", "0000000000000007",
        "0000000000000007.segment.damaged", "0000000000000007.segmenta", "000000000000000x.segment",
        "00000000000000007.segment", "-000000000000007.segment", " 000000000000007.segment",
        "18446744073709551616.segment"}) {
    EXPECT_EQ(NativeSegmentFormat().NumberOf(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace topicdb
