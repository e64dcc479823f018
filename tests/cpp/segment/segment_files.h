// Makes segment files for tests of what reads them, and damages them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file/file.h"
#include "segment/segment_writer.h"

namespace topicdb {

using Items = std::vector<std::string>;

// Appends items. In a segment whose items have weights each weighs ten times its bytes.
inline void AppendTo(SegmentWriter& writer, const Items& items, bool through = true) {
  const std::vector<std::string_view> views(items.begin(), items.end());
  std::vector<std::uint64_t> weights;
  for (const std::string& item : items) weights.push_back(10 * item.size());
  if (!writer.identity().weighed) weights.clear();
  const Status status = writer.Append({views, weights}, through);
  EXPECT_TRUE(status.ok()) << status.message();
}

// Writes a new file with a frame for each of `appends`. Returns where the header and each frame
// end.
inline std::vector<SegmentEnd> WriteSegment(const std::string& path, const SegmentFormat& format,
                                            const SegmentIdentity& identity,
                                            const std::vector<Items>& appends, bool sealed) {
  const auto writer = SegmentWriter::Create(path, format, identity, /*reserve_bytes=*/0).value();
  std::vector<SegmentEnd> ends{writer->end()};
  for (const Items& items : appends) {
    AppendTo(*writer, items);
    ends.push_back(writer->end());
  }
  if (sealed) {
    EXPECT_TRUE(writer->Seal().ok());
  }
  return ends;
}

// Changes a bit of the byte at `offset`.
inline void FlipBit(const std::string& path, std::uint64_t offset) {
  const auto file = File::OpenForWriting(path).value();
  char byte = 0;
  ASSERT_EQ(file->ReadAt(offset, &byte, 1).value(), 1U);
  byte = static_cast<char>(byte ^ 1);
  ASSERT_TRUE(file->WriteAt(offset, {&byte, 1}).ok());
}

}  // namespace topicdb
