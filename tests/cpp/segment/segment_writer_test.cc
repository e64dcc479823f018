#include "segment/segment_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <string>
#include <string_view>

#include "base/file/files.h"
#include "segment/segment_files.h"
#include "test_directory.h"

namespace topicdb {
namespace {

// While it lives, no file can be written beyond `bytes`.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() {
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*const handler_)(int);
  rlimit before_{};
};

class SegmentWriterTest : public testing::Test {
 protected:
  std::unique_ptr<SegmentWriter> Create(std::uint64_t reserve_bytes = 0) const {
    auto writer = SegmentWriter::Create(path_, format_, identity_, reserve_bytes);
    EXPECT_TRUE(writer.ok()) << writer.status().message();
    return std::move(writer).value();
  }
  std::string OnDisk() const { return ReadFile(path_, std::size_t{1} << 20).value(); }
  // Returns the bytes of a file with these appends.
  std::string Encoded(const std::vector<Items>& appends) const {
    std::string out = format_.EncodeHeader(identity_);
    std::uint64_t sequence = identity_.first_sequence;
    for (const Items& items : appends) {
      const std::vector<std::string_view> views(items.begin(), items.end());
      std::string frames;
      format_.EncodeFrames(identity_, out.size(), sequence, views, &frames);
      out += frames;
      sequence += items.size();
    }
    return out;
  }

  const SegmentFormat& format_ = NativeSegmentFormat();
  const SegmentIdentity identity_{3, 10, 8, QueueId{7}};
  const TestDirectory directory_;
  const std::string path_ = directory_ / "segment";
};

TEST_F(SegmentWriterTest, ANewFileHasTheHeaderAlone) {
  const auto writer = Create(/*reserve_bytes=*/100'000);
  EXPECT_EQ(OnDisk(), Encoded({})) << "what is reserved does not make it longer";
  EXPECT_EQ(writer->end().offset, format_.header_bytes());
  EXPECT_EQ(writer->end().sequence, 10U);
  EXPECT_EQ(writer->end().payload_bytes, 0U);
  EXPECT_EQ(writer->identity(), identity_);
}

TEST_F(SegmentWriterTest, NoFileIsReplaced) {
  ASSERT_TRUE(WriteFileAtomically(path_, "mine").ok());
  EXPECT_EQ(SegmentWriter::Create(path_, format_, identity_, 0).status().code(), Code::kStorage);
  EXPECT_EQ(OnDisk(), "mine");
}

TEST_F(SegmentWriterTest, AFileThatCouldNotBeMadeIsNotThere) {
  {
    const FileSizeLimit limit(10);
    EXPECT_EQ(SegmentWriter::Create(path_, format_, identity_, 0).status().code(), Code::kStorage);
    EXPECT_FALSE(Exists(path_));
  }
  Create();
}

TEST_F(SegmentWriterTest, KeepsALittleInMemoryUntilWriteOut) {
  const auto writer = Create();
  AppendTo(*writer, {"a", "bb"}, /*through=*/false);
  AppendTo(*writer, {""}, /*through=*/false);
  EXPECT_EQ(OnDisk(), Encoded({}));
  const std::string whole = Encoded({{"a", "bb"}, {""}});
  EXPECT_EQ(writer->end().offset, whole.size());
  EXPECT_EQ(writer->end().sequence, 13U);
  EXPECT_EQ(writer->end().payload_bytes, 3U);
  ASSERT_TRUE(writer->WriteOut().ok());
  EXPECT_EQ(OnDisk(), whole);
  ASSERT_TRUE(writer->WriteOut().ok());
  EXPECT_EQ(OnDisk(), whole);
}

TEST_F(SegmentWriterTest, AnAppendThatGoesThroughTakesThoseBeforeIt) {
  const auto writer = Create();
  AppendTo(*writer, {"a"}, /*through=*/false);
  AppendTo(*writer, {"b"}, /*through=*/true);
  EXPECT_EQ(OnDisk(), Encoded({{"a"}, {"b"}}));
}

TEST_F(SegmentWriterTest, KeepsNotMuchInMemory) {
  const auto writer = Create();
  const std::string item(SegmentWriter::kBufferBytes - 100, 'x');
  AppendTo(*writer, {item}, /*through=*/false);
  EXPECT_EQ(OnDisk(), Encoded({}));
  AppendTo(*writer, {std::string(100, 'y')}, /*through=*/false);
  EXPECT_EQ(OnDisk().size(), writer->end().offset);
}

TEST_F(SegmentWriterTest, AnAppendThatFailedMayBeRepeated) {
  const auto writer = Create();
  AppendTo(*writer, {"a"}, /*through=*/false);
  const SegmentEnd before = writer->end();
  {
    const FileSizeLimit limit(format_.header_bytes() + 5);  // some bytes are written
    const std::vector<std::string_view> items{"b"};
    EXPECT_EQ(writer->Append(items, /*through=*/true).code(), Code::kStorage);
    EXPECT_EQ(writer->WriteOut().code(), Code::kStorage);
    EXPECT_EQ(writer->Seal().code(), Code::kStorage);
    EXPECT_EQ(writer->Finish().code(), Code::kStorage);
  }
  EXPECT_EQ(writer->end().offset, before.offset);
  EXPECT_EQ(writer->end().sequence, before.sequence);
  EXPECT_EQ(writer->end().payload_bytes, before.payload_bytes);
  AppendTo(*writer, {"c"}, /*through=*/true);
  EXPECT_EQ(OnDisk(), Encoded({{"a"}, {"c"}}));
}

TEST_F(SegmentWriterTest, ASealedFileEndsWithItsFooter) {
  const auto writer = Create(/*reserve_bytes=*/100'000);
  AppendTo(*writer, {"a", "bb"}, /*through=*/false);
  ASSERT_TRUE(writer->Seal().ok());
  const std::string whole = Encoded({{"a", "bb"}});
  const SegmentFooter footer{10, 12, 3, whole.size()};
  EXPECT_EQ(OnDisk(), whole + format_.EncodeFooter(identity_, footer));
}

TEST_F(SegmentWriterTest, AFinishedFileTakesNoMoreSpaceThanItNeeds) {
  constexpr std::uint64_t kReserved = std::uint64_t{4} << 20;
  const auto writer = Create(kReserved);
  AppendTo(*writer, {"a"}, /*through=*/false);
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(OnDisk(), Encoded({{"a"}}));
  struct stat info{};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_LT(static_cast<std::uint64_t>(info.st_blocks) * 512, kReserved);
}

TEST_F(SegmentWriterTest, ContinuesBehindTheEndThatItIsGiven) {
  const auto ends = WriteSegment(path_, format_, identity_, {{"a", "bb"}, {"gone"}}, true);
  const auto writer = SegmentWriter::Continue(path_, format_, identity_, ends[1], 0).value();
  EXPECT_EQ(OnDisk(), Encoded({{"a", "bb"}}));
  AppendTo(*writer, {"c"});
  EXPECT_EQ(OnDisk(), Encoded({{"a", "bb"}, {"c"}}));
  EXPECT_EQ(writer->end().sequence, 13U);
  EXPECT_EQ(writer->end().payload_bytes, 4U);
}

TEST_F(SegmentWriterTest, ContinuesNoFileThatIsMissing) {
  const auto writer = SegmentWriter::Continue(path_, format_, identity_, {64, 10, 0}, 0);
  EXPECT_EQ(writer.status().code(), Code::kNotFound);
  EXPECT_FALSE(Exists(path_));
}

TEST_F(SegmentWriterTest, AFormatWithoutHeaderAndFooterHasItemsOnly) {
  const SegmentFormat& format = ReplayqSegmentFormat();
  const auto ends = WriteSegment(path_, format, {1, 1, 0, {}}, {{"a"}, {"b"}}, true);
  EXPECT_EQ(ends[0].offset, 0U);
  const std::vector<std::string_view> items{"a", "b"};
  std::string expected;
  format.EncodeFrames({}, 0, 0, items, &expected);
  EXPECT_EQ(OnDisk(), expected);
}

}  // namespace
}  // namespace topicdb
