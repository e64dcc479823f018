// NativeSegmentFormat and StampNativeFrame of segment_format.h.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "every_damage.h"
#include "segment/segment_format.h"

namespace topicdb {
namespace {

using Views = std::vector<std::string_view>;

constexpr SegmentIdentity kIdentity{3, 100, 90, QueueId{1, 2, 3}};
constexpr std::uint64_t kOffset = 64;
constexpr std::size_t kFrameHeader = 32;

const SegmentFormat& Format() { return NativeSegmentFormat(); }

std::string FramesOf(const Views& items, std::uint64_t offset = kOffset) {
  std::string out;
  Format().EncodeFrames(kIdentity, offset, kIdentity.first_sequence, items, &out);
  return out;
}

Found FoundIn(std::string_view bytes) {
  Block block;
  return Format().Parse(kIdentity, kOffset, 0, bytes, &block).found;
}

// Returns a frame whose byte at `place` is another one, with checksums that are right.
std::string Restamped(std::string frame, std::size_t place, char value) {
  frame[place] = value;
  StampNativeFrame(kIdentity, kOffset, frame);
  return frame;
}

TEST(NativeFormat, AHeaderTellsTheSegment) {
  const std::string header = Format().EncodeHeader(kIdentity);
  EXPECT_EQ(header.size(), Format().header_bytes());
  EXPECT_EQ(Format().DecodeHeader(header, 3).value(), kIdentity);
  EXPECT_EQ(Format().DecodeHeader(header + "what follows", 3).value(), kIdentity);
}

TEST(NativeFormat, ADamagedHeaderIsNoHeader) {
  ForEachDamage(Format().EncodeHeader(kIdentity), [](const std::string& bytes) {
    EXPECT_EQ(Format().DecodeHeader(bytes, 3).status().code(), Code::kCorruption);
  });
}

TEST(NativeFormat, AHeaderIsThatOfTheFileItIsIn) {
  const Status other = Format().DecodeHeader(Format().EncodeHeader(kIdentity), 4).status();
  EXPECT_EQ(other.code(), Code::kCorruption);
  EXPECT_NE(other.message().find("segment 3"), std::string::npos) << other.message();
  const std::string unnumbered = Format().EncodeHeader({3, 0, 0, {}});
  EXPECT_EQ(Format().DecodeHeader(unnumbered, 3).status().code(), Code::kCorruption);
}

TEST(NativeFormat, AHeaderOfAnotherVersionIsNotDamage) {
  std::string header = Format().EncodeHeader(kIdentity);
  header[8] = 3;
  header.resize(60);
  AppendLittle(&header, Crc32(header));
  const Status status = Format().DecodeHeader(header, 3).status();
  EXPECT_EQ(status.code(), Code::kSchema);
  EXPECT_NE(status.message().find("version 3"), std::string::npos) << status.message();
}

// As docs/internals/format.md draws it.
TEST(NativeFormat, TheBytesOfAFrame) {
  const std::string frame = FramesOf({"ab", ""});
  ASSERT_EQ(frame.size(), kFrameHeader + 8);
  EXPECT_EQ(frame.substr(0, 4), "TQF\x01");
  Decoder in(std::string_view(frame).substr(8));
  EXPECT_EQ(in.Little<std::uint64_t>(), 100U);
  EXPECT_EQ(in.Little<std::uint32_t>(), 2U);
  EXPECT_EQ(in.Little<std::uint32_t>(), 4U);
  EXPECT_EQ(in.Little<std::uint32_t>(), 1U) << "the append ends here";
  EXPECT_EQ(frame.substr(kFrameHeader), std::string_view("\2\0ab\0\0\0\0", 8));
}

TEST(NativeFormat, AFrameGivesItsItems) {
  const std::string large(70'000, 'x');
  const Views items{"first", "", large};
  std::uint64_t body = 0;
  for (const std::string_view item : items) body += Format().ItemBytes(item);
  std::string bytes = FramesOf(items);
  const std::size_t size = bytes.size();
  EXPECT_EQ(size, (kFrameHeader + body + 7) / 8 * 8);
  bytes += "what follows";
  Block block;
  block.items = {"of the frame before"};
  const Parsed parsed = Format().Parse(kIdentity, kOffset, 0, bytes, &block);
  ASSERT_EQ(parsed.found, Found::kBlock);
  EXPECT_EQ(parsed.bytes, size);
  EXPECT_EQ(block.items, items);
  EXPECT_EQ(block.first_sequence, 100U);
  EXPECT_EQ(block.end_sequence(), 103U);
  EXPECT_EQ(block.offset, kOffset);
  EXPECT_EQ(block.end_offset, kOffset + size);
  EXPECT_FALSE(block.continues);
}

TEST(NativeFormat, ALargeAppendBecomesSeveralFrames) {
  const std::string half((std::size_t{1} << 19) - 3, 'h');  // with its length, half of a frame
  const std::string large(std::size_t{2} << 20, 'l');
  const Views items{half, half, "small", large, "last"};
  const std::string bytes = FramesOf(items);
  std::vector<std::size_t> counts;
  std::vector<bool> continues;
  Block block;
  for (std::size_t at = 0; at < bytes.size(); at = block.end_offset - kOffset) {
    const auto rest = std::string_view(bytes).substr(at);
    ASSERT_EQ(Format().Parse(kIdentity, kOffset + at, 0, rest, &block).found, Found::kBlock);
    std::size_t before = 0;
    for (const std::size_t count : counts) before += count;
    EXPECT_EQ(block.first_sequence, 100 + before);
    counts.push_back(block.items.size());
    continues.push_back(block.continues);
  }
  EXPECT_EQ(counts, (std::vector<std::size_t>{2, 1, 1, 1}));
  EXPECT_EQ(continues, (std::vector<bool>{true, true, true, false}));
}

TEST(NativeFormat, AFrameIsValidOnlyAtItsPlace) {
  const std::string frame = FramesOf({"item"});
  Block block;
  const auto found_at = [&](const SegmentIdentity& identity, std::uint64_t offset) {
    return Format().Parse(identity, offset, 0, frame, &block).found;
  };
  EXPECT_EQ(found_at(kIdentity, kOffset), Found::kBlock);
  EXPECT_EQ(found_at(kIdentity, kOffset + 8), Found::kNothing);
  EXPECT_EQ(found_at({4, 100, 90, kIdentity.queue_id}, kOffset), Found::kNothing);
  EXPECT_EQ(found_at({3, 100, 90, QueueId{1, 2, 4}}, kOffset), Found::kNothing);
  EXPECT_EQ(found_at({3, 0, 0, kIdentity.queue_id}, kOffset), Found::kBlock)
      << "without the header of the file, its frames can still be read";
}

TEST(NativeFormat, WithoutItsBodyAFrameStillTellsWhatIsLost) {
  const std::string frame = FramesOf({"one", "two"});
  for (std::size_t at = 0; at < frame.size(); ++at) {
    std::string bytes = frame;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    Block block;
    const Parsed parsed = Format().Parse(kIdentity, kOffset, 0, bytes, &block);
    EXPECT_EQ(parsed.found, at < kFrameHeader ? Found::kNothing : Found::kDamaged) << at;
    if (parsed.found != Found::kDamaged) continue;
    EXPECT_EQ(parsed.bytes, frame.size());
    EXPECT_EQ(parsed.first_sequence, 100U);
    EXPECT_EQ(parsed.items, 2U);
  }
}

TEST(NativeFormat, TellsHowManyBytesAFrameNeeds) {
  const std::string frame = FramesOf({"one", "two"});
  for (std::size_t size = 0; size < frame.size(); ++size) {
    Block block;
    const auto part = std::string_view(frame).substr(0, size);
    const Parsed parsed = Format().Parse(kIdentity, kOffset, 0, part, &block);
    EXPECT_EQ(parsed.found, Found::kShort) << size;
    EXPECT_EQ(parsed.bytes, size < kFrameHeader ? kFrameHeader : frame.size()) << size;
  }
}

TEST(NativeFormat, RightChecksumsDoNotMakeAFrame) {
  const std::string frame = FramesOf({"ab", "cd"});  // a body of 6 bytes
  EXPECT_EQ(FoundIn(Restamped(frame, 16, 0)), Found::kNothing) << "no items";
  EXPECT_EQ(FoundIn(Restamped(frame, 16, 7)), Found::kNothing) << "more items than bytes";
  EXPECT_EQ(FoundIn(Restamped(frame, 24, 0)), Found::kNothing) << "an unknown kind";
  EXPECT_EQ(FoundIn(Restamped(frame, 24, 3)), Found::kNothing) << "an unknown kind";
  EXPECT_EQ(FoundIn(Restamped(frame, kFrameHeader, 1)), Found::kDamaged) << "too short an item";
  EXPECT_EQ(FoundIn(Restamped(frame, kFrameHeader, 3)), Found::kDamaged) << "too long an item";
  EXPECT_EQ(FoundIn(Restamped(frame, kFrameHeader, 100)), Found::kDamaged) << "longer than all";
  EXPECT_EQ(FoundIn(Restamped(frame, 16, 6)), Found::kDamaged) << "more items than lengths";
  std::string wrapping;
  Format().EncodeFrames(kIdentity, kOffset, UINT64_MAX - 1, Views{"ab", "cd"}, &wrapping);
  EXPECT_EQ(FoundIn(wrapping), Found::kNothing) << "numbers after the greatest one";
}

constexpr SegmentIdentity kWeighed{3, 100, 90, QueueId{1, 2, 3}, true};

std::string WeighedFramesOf(const Views& items, const std::vector<std::uint64_t>& weights,
                            std::uint64_t weight_before) {
  WeighedItems weighed{items, weights};
  weighed.weight_before = weight_before;
  std::string out;
  Format().EncodeFrames(kWeighed, kOffset, kWeighed.first_sequence, weighed, &out);
  return out;
}

// As docs/internals/format.md draws it.
TEST(NativeFormat, TheBytesOfAFrameWithWeights) {
  const std::string frame = WeighedFramesOf({"ab", ""}, {300, 0}, 5);
  ASSERT_EQ(frame.size(), kFrameHeader + 8);
  EXPECT_EQ(frame.substr(0, 4), "TQF\x02");
  EXPECT_EQ(frame.substr(kFrameHeader), std::string_view("\5\2\0\xac\2\0ab", 8));
  const std::string header = Format().EncodeHeader(kWeighed);
  EXPECT_EQ(header[8], 2);
  EXPECT_EQ(Format().DecodeHeader(header, 3).value(), kWeighed);
}

TEST(NativeFormat, AFrameGivesItsWeights) {
  const std::vector<std::uint64_t> weights{1, std::uint64_t{1} << 40, 0};
  const std::string bytes = WeighedFramesOf({"first", "", "third"}, weights, 77);
  Block block;
  ASSERT_EQ(Format().Parse(kWeighed, kOffset, 0, bytes, &block).found, Found::kBlock);
  EXPECT_EQ(block.items, (Views{"first", "", "third"}));
  EXPECT_EQ(block.weights, weights);
  EXPECT_EQ(block.weight_before, 77U);
  EXPECT_EQ(block.weight_behind(), 78 + (std::uint64_t{1} << 40));
  EXPECT_EQ(Format().NextCandidate(kOffset, bytes + bytes), bytes.size());
}

TEST(NativeFormat, EachFrameOfALargeAppendSaysWhatIsBeforeIt) {
  const std::string half((std::size_t{1} << 19) - 9, 'h');
  const std::vector<std::uint64_t> weights{10, 20, 30, 40};
  const std::string bytes = WeighedFramesOf({half, half, half, "last"}, weights, 5);
  std::vector<std::uint64_t> before;
  std::vector<std::uint64_t> found;
  Block block;
  for (std::size_t at = 0; at < bytes.size(); at = block.end_offset - kOffset) {
    const auto rest = std::string_view(bytes).substr(at);
    ASSERT_EQ(Format().Parse(kWeighed, kOffset + at, 0, rest, &block).found, Found::kBlock);
    before.push_back(block.weight_before);
    found.insert(found.end(), block.weights.begin(), block.weights.end());
  }
  EXPECT_EQ(before, (std::vector<std::uint64_t>{5, 35}));
  EXPECT_EQ(found, weights);
}

TEST(NativeFormat, FramesWithWeightsAreNotThoseWithout) {
  Block block;
  const std::string weighed = WeighedFramesOf({"a"}, {1}, 0);
  EXPECT_EQ(Format().Parse(kIdentity, kOffset, 0, weighed, &block).found, Found::kNothing);
  const std::string plain = FramesOf({"a"});
  EXPECT_EQ(Format().Parse(kWeighed, kOffset, 0, plain, &block).found, Found::kNothing);
  // A block that had weights before has none of them left.
  ASSERT_EQ(Format().Parse(kWeighed, kOffset, 0, weighed, &block).found, Found::kBlock);
  ASSERT_EQ(Format().Parse(kIdentity, kOffset, 0, plain, &block).found, Found::kBlock);
  EXPECT_TRUE(block.weights.empty());
  EXPECT_EQ(block.weight_before, 0U);
}

TEST(NativeFormat, RightChecksumsDoNotMakeWeights) {
  const std::string frame = WeighedFramesOf({"ab", "cd"}, {1, 2}, 0);  // a body of 9 bytes
  const auto found = [&](std::size_t place, char value) {
    std::string bytes = frame;
    bytes[place] = value;
    StampNativeFrame(kWeighed, kOffset, bytes);
    Block block;
    return Format().Parse(kWeighed, kOffset, 0, bytes, &block).found;
  };
  EXPECT_EQ(found(kFrameHeader + 3, 1), Found::kBlock);
  EXPECT_EQ(found(kFrameHeader + 4, '\x82'), Found::kDamaged)
      << "it takes a byte of the first item";
  EXPECT_EQ(found(16, 9), Found::kDamaged) << "more items than lengths";
}

TEST(NativeFormat, AFooterTellsTheWeight) {
  const SegmentFooter footer{100, 120, 5'000, 8'000, 123'456};
  const std::string bytes = Format().EncodeFooter(kWeighed, footer);
  EXPECT_EQ(bytes.size(), Format().footer_bytes());
  EXPECT_EQ(Format().DecodeFooter(kWeighed, 8'000, bytes), footer);
  EXPECT_EQ(Format().DecodeFooter(kIdentity, 8'000, bytes), std::nullopt);
  ForEachDamage(bytes, [](const std::string& damaged) {
    EXPECT_EQ(Format().DecodeFooter(kWeighed, 8'000, damaged), std::nullopt);
  });
}

TEST(NativeFormat, FindsWhereTheNextFrameMayBegin) {
  const std::string frame = FramesOf({"item"});
  EXPECT_EQ(Format().NextCandidate(kOffset, frame), frame.size()) << "not the one it stands at";
  EXPECT_EQ(Format().NextCandidate(kOffset, frame + frame), frame.size());
  EXPECT_EQ(Format().NextCandidate(kOffset + 3, std::string(5, 'x') + frame), 5U);
  const std::string shifted = std::string(4, 'x') + frame;
  EXPECT_EQ(Format().NextCandidate(kOffset, shifted), shifted.size()) << "frames are aligned";
  EXPECT_EQ(Format().NextCandidate(kOffset, std::string(8, 'x') + "TQF"), 11U);
  EXPECT_EQ(Format().NextCandidate(kOffset, ""), 0U);
}

TEST(NativeFormat, AFooterTellsTheEnd) {
  const SegmentFooter footer{100, 120, 5'000, 8'000};
  const std::string bytes = Format().EncodeFooter(kIdentity, footer);
  EXPECT_EQ(bytes.size(), Format().footer_bytes());
  EXPECT_EQ(Format().DecodeFooter(kIdentity, 8'000, bytes), footer);
  EXPECT_EQ(Format().DecodeFooter({3, 0, 0, kIdentity.queue_id}, 8'000, bytes), footer);
  EXPECT_EQ(Format().DecodeFooter(kIdentity, 8'008, bytes), std::nullopt);
  EXPECT_EQ(Format().DecodeFooter({4, 100, 90, kIdentity.queue_id}, 8'000, bytes), std::nullopt);
  EXPECT_EQ(Format().DecodeFooter({3, 99, 90, kIdentity.queue_id}, 8'000, bytes), std::nullopt);
  EXPECT_EQ(Format().DecodeFooter(kIdentity, 8'000, bytes + "x"), std::nullopt);
  ForEachDamage(bytes, [](const std::string& damaged) {
    EXPECT_EQ(Format().DecodeFooter(kIdentity, 8'000, damaged), std::nullopt);
  });
  const std::string backwards = Format().EncodeFooter(kIdentity, {100, 99, 0, 8'000});
  EXPECT_EQ(Format().DecodeFooter(kIdentity, 8'000, backwards), std::nullopt);
}

TEST(NativeFormat, AnItemTakesItsLengthBesides) {
  for (const auto& [size, bytes] : std::vector<std::pair<std::size_t, std::uint64_t>>{
           {0, 1}, {127, 128}, {128, 130}, {16'383, 16'385}, {16'384, 16'387}}) {
    EXPECT_EQ(Format().ItemBytes(std::string(size, 'x')), bytes);
  }
}

TEST(NativeFormat, NumbersOfItemsDoNotDependOnTheSegment) {
  EXPECT_TRUE(Format().numbers_items());
  EXPECT_EQ(Format().FirstSequence(7, 123), 123U);
}

}  // namespace
}  // namespace topicdb
