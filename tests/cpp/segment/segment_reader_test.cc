#include "segment/segment_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/file/files.h"
#include "segment/segment_files.h"
#include "test_directory.h"

namespace topicdb {
namespace {

class SegmentReaderTest : public testing::Test {
 protected:
  // Writes a segment with these appends, whose items have the numbers from 1.
  void Write(const std::vector<Items>& appends) {
    ends_ = WriteSegment(path_, *format_, kIdentity, appends, /*sealed=*/false);
  }
  SegmentReader Open() const { return {File::OpenForReading(path_).value(), *format_, kIdentity}; }
  ReadLimit End() const { return {ends_.back().offset, ends_.back().sequence}; }
  // Returns what the reader finds up to the limit: the items, and "lost [first, end)".
  static Items Read(SegmentReader& reader, const ReadLimit& limit) {
    Items found;
    while (true) {
      const ReadEvent event = reader.Next(limit).value();
      if (event == ReadEvent::kEnd) return found;
      if (event == ReadEvent::kBlock) {
        found.insert(found.end(), reader.block().items.begin(), reader.block().items.end());
      } else {
        found.push_back("lost [" + std::to_string(reader.lost().first_sequence) + ", " +
                        std::to_string(reader.lost().end_sequence) + ")");
      }
    }
  }
  Items ReadAll() const {
    SegmentReader reader = Open();
    return Read(reader, End());
  }

  static constexpr SegmentIdentity kIdentity{1, 1, 1, QueueId{7}};
  const SegmentFormat* format_ = &NativeSegmentFormat();
  const TestDirectory directory_;
  const std::string path_ = directory_ / "segment";
  std::vector<SegmentEnd> ends_;  // of the header, and of each append
};

TEST_F(SegmentReaderTest, ReadsFramesInOrder) {
  Write({{"a", "b"}, {"c"}});
  SegmentReader reader = Open();
  ASSERT_EQ(reader.Next(End()).value(), ReadEvent::kBlock);
  EXPECT_EQ(reader.block().items.size(), 2U);
  EXPECT_EQ(reader.offset(), ends_[1].offset);
  EXPECT_EQ(reader.sequence(), 3U);
  EXPECT_EQ(Read(reader, End()), (Items{"c"}));
  EXPECT_EQ(reader.offset(), ends_[2].offset);
  EXPECT_EQ(reader.sequence(), 4U);
  EXPECT_EQ(reader.Next(End()).value(), ReadEvent::kEnd);
}

TEST_F(SegmentReaderTest, MovesToAFrame) {
  Write({{"a"}, {"b"}, {"c"}});
  SegmentReader reader = Open();
  reader.Seek(ends_[1].offset, 2);
  EXPECT_EQ(Read(reader, End()), (Items{"b", "c"}));
  reader.Seek(ends_[0].offset, 1);
  EXPECT_EQ(Read(reader, End()), (Items{"a", "b", "c"}));
}

TEST_F(SegmentReaderTest, ReadsNothingBehindTheLimit) {
  Write({{"a"}, {"b"}});
  SegmentReader reader = Open();
  EXPECT_EQ(Read(reader, {ends_[1].offset, 2}), (Items{"a"}));
  EXPECT_EQ(Read(reader, End()), (Items{"b"}));
}

TEST_F(SegmentReaderTest, ReadsOnInAFileThatGrows) {
  const auto writer = SegmentWriter::Create(path_, *format_, kIdentity, 0).value();
  SegmentReader reader = Open();
  for (const std::string item : {"a", "b"}) {
    AppendTo(*writer, {item});
    EXPECT_EQ(Read(reader, {writer->end().offset, writer->end().sequence}), (Items{item}));
  }
}

// The window is 256 KiB.
TEST_F(SegmentReaderTest, ItemsMayBeLongerThanTheWindow) {
  std::vector<Items> appends;
  Items expected;
  for (const std::size_t size : {100'000, 100'000, 100'000, 1'000'000, 1, 262'144, 10}) {
    expected.emplace_back(size, static_cast<char>('a' + appends.size()));
    appends.push_back({expected.back()});
  }
  Write(appends);
  EXPECT_EQ(ReadAll(), expected);
}

TEST_F(SegmentReaderTest, ASmallWindowReadsTheSame) {
  Write({{"a", "b"}, {std::string(100, 'c')}, {std::string(5'000, 'd'), "e"}, {""}});
  for (const std::size_t bytes : {1, 40, 300}) {
    SegmentReader reader(File::OpenForReading(path_).value(), *format_, kIdentity, bytes);
    EXPECT_EQ(Read(reader, End()), ReadAll()) << bytes;
    EXPECT_LT(reader.window().capacity, 6'000U);
  }
}

TEST_F(SegmentReaderTest, TheMemoryDoesNotGrowWithTheFile) {
  Write(std::vector<Items>(40, {std::string(10'000, 'x')}));
  SegmentReader reader = Open();
  EXPECT_EQ(Read(reader, End()).size(), 40U);
  EXPECT_EQ(reader.window().capacity, SegmentReader::kWindowBytes);
}

TEST_F(SegmentReaderTest, WhoKeepsTheWindowKeepsTheItems) {
  Write(std::vector<Items>(40, {std::string(10'000, 'x')}));
  std::vector<std::string_view> items;
  std::vector<std::shared_ptr<const void>> owners;
  {
    SegmentReader reader = Open();
    while (reader.Next(End()).value() == ReadEvent::kBlock) {
      items.push_back(reader.block().items.at(0));
      owners.push_back(reader.window_owner());
    }
  }
  ASSERT_EQ(items.size(), 40U);
  EXPECT_NE(owners.front(), owners.back());
  for (const std::string_view item : items) EXPECT_EQ(item, std::string(10'000, 'x'));
}

TEST_F(SegmentReaderTest, ADamagedBodyCostsItsFrame) {
  Write({{"a"}, {"b", "c"}, {"d"}});
  FlipBit(path_, ends_[2].offset - 1);
  SegmentReader reader = Open();
  EXPECT_EQ(reader.Next(End()).value(), ReadEvent::kBlock);
  ASSERT_EQ(reader.Next(End()).value(), ReadEvent::kLost);
  EXPECT_EQ(reader.lost().first_sequence, 2U);
  EXPECT_EQ(reader.lost().end_sequence, 4U);
  EXPECT_EQ(reader.lost().offset, ends_[1].offset);
  EXPECT_EQ(reader.lost().bytes, ends_[2].offset - ends_[1].offset);
  EXPECT_EQ(Read(reader, End()), (Items{"d"}));
}

TEST_F(SegmentReaderTest, BehindADamagedHeaderTheNextFrameTellsWhatIsLost) {
  Write({{"a"}, {"b", "c"}, {"d"}});
  FlipBit(path_, ends_[1].offset + 20);  // in the length of the body
  SegmentReader reader = Open();
  EXPECT_EQ(reader.Next(End()).value(), ReadEvent::kBlock);
  ASSERT_EQ(reader.Next(End()).value(), ReadEvent::kLost);
  EXPECT_EQ(reader.lost().end_sequence, 4U);
  EXPECT_EQ(reader.lost().bytes, ends_[2].offset - ends_[1].offset);
  EXPECT_EQ(Read(reader, End()), (Items{"d"}));
}

TEST_F(SegmentReaderTest, DamageBehindDamageIsToldApart) {
  Write({{"a"}, {"b"}, {"c"}, {"d"}});
  FlipBit(path_, ends_[1].offset);
  FlipBit(path_, ends_[3].offset - 1);
  EXPECT_EQ(ReadAll(), (Items{"a", "lost [2, 3)", "lost [3, 4)", "d"}));
}

TEST_F(SegmentReaderTest, AtTheEndTheLimitTellsWhatIsLost) {
  Write({{"a"}, {"b", "c"}});
  FlipBit(path_, ends_[1].offset);
  EXPECT_EQ(ReadAll(), (Items{"a", "lost [2, 4)"}));
  SegmentReader reader = Open();
  EXPECT_EQ(Read(reader, {End().offset, 0}), (Items{"a", "lost [2, 2)"})) << "it is not known";
  SegmentReader other = Open();
  EXPECT_EQ(Read(other, {ends_[1].offset, 4}), (Items{"a", "lost [2, 4)"}))
      << "no bytes are left, but items should be";
}

TEST_F(SegmentReaderTest, AFileMayBeShorterThanItWas) {
  Write({{"a"}, {"b"}, {"c"}});
  for (const std::uint64_t size : {ends_[2].offset - 1, ends_[1].offset + 3, ends_[1].offset}) {
    ASSERT_EQ(truncate(path_.c_str(), static_cast<off_t>(size)), 0);
    EXPECT_EQ(ReadAll(), (Items{"a", "lost [2, 4)"})) << size;
  }
}

TEST_F(SegmentReaderTest, AFrameThatWasCopiedToAnotherPlaceIsNotRead) {
  Write({{"a"}, {"b"}, {"c"}});
  const auto file = File::OpenForWriting(path_).value();
  std::string frame(ends_[1].offset - ends_[0].offset, '\0');
  ASSERT_TRUE(file->ReadAt(ends_[0].offset, frame.data(), frame.size()).ok());
  ASSERT_TRUE(file->WriteAt(ends_[1].offset, frame).ok());
  EXPECT_EQ(ReadAll(), (Items{"a", "lost [2, 3)", "c"}));
}

TEST_F(SegmentReaderTest, NumbersOfItemsOnlyGrow) {
  std::string bytes = format_->EncodeHeader(kIdentity);
  const std::vector<std::string_view> items{"x"};
  for (const std::uint64_t sequence : {1, 5, 2, 6}) {
    std::string frame;
    format_->EncodeFrames(kIdentity, bytes.size(), sequence, items, &frame);
    bytes += frame;
  }
  ASSERT_TRUE(WriteFileAtomically(path_, bytes).ok());
  SegmentReader reader = Open();
  EXPECT_EQ(Read(reader, {bytes.size(), 7}), (Items{"x", "lost [2, 5)", "x", "lost [6, 6)", "x"}));
}

TEST_F(SegmentReaderTest, WithoutNumbersDamageCountsAsOneItem) {
  format_ = &ReplayqSegmentFormat();
  const auto flipped = [&](std::size_t at) {
    unlink(path_.c_str());
    Write({{"a"}, {"b"}, {"c"}});
    FlipBit(path_, ends_[1].offset + at);
    return ReadAll();
  };
  const Items expected{"a", "lost [2, 3)", "c"};
  EXPECT_EQ(flipped(1), expected) << "in the magic number";
  EXPECT_EQ(flipped(12), expected) << "in the length";
  EXPECT_EQ(flipped(13), expected) << "in the item";
}

TEST_F(SegmentReaderTest, AFileThatCannotBeReadIsAnError) {
  SegmentReader reader(File::OpenForReading(directory_ / ".").value(), *format_, kIdentity);
  EXPECT_EQ(reader.Next({1'000, 0}).status().code(), Code::kStorage);
}

}  // namespace
}  // namespace topicdb
