#include "layout/columnar/seal/block_staging.h"

#include <gtest/gtest.h>

#include <map>

#include "layout/columnar/format/block_format.h"
#include "layout/columnar/format/page.h"

namespace topicdb::columnar {
namespace {

using Pages = std::map<std::string, std::string, std::less<>>;

void Add(StagedRows* rows, std::uint32_t topic, std::int64_t time, const std::string& value) {
  rows->rows.push_back({topic, static_cast<std::uint32_t>(rows->values.size()),
                        static_cast<std::uint32_t>(value.size()), time});
  rows->values += value;
}

StagedBlock Stage(const StagedRows& rows, Pages* pages) {
  StagedBlock block;
  const KeySink put = [&](std::string_view key, std::string_view page) {
    EXPECT_TRUE(pages->empty() || pages->rbegin()->first < key);
    pages->emplace(key, page);
    return Status::Ok();
  };
  EXPECT_TRUE(StageBlock(rows, kStagedPagesMin + 5, 1 << 16, put, &block).ok());
  return block;
}

Placement PlacementOf(const StagedBlock& block, std::int64_t time_shift) {
  Placement placement{block.pages, Serial{77}, time_shift, {}};
  for (const StagedTopic& topic : block.topics) {
    if (placement.groups.empty() || placement.groups.back().group != topic.group) {
      placement.groups.push_back({topic.group, StreamId{100 + topic.group}, {}});
    }
  }
  return placement;
}

TEST(BlockStaging, ATopicThatComesTwiceIsOne) {
  StagedRows rows;
  rows.topics = {{2, "b"}, {1, "c"}, {2, "b"}, {2, "a"}};
  Add(&rows, 0, 30, "1");
  Add(&rows, 2, 10, "2");
  Add(&rows, 3, 50, "3");
  Add(&rows, 1, 20, "4");
  Add(&rows, 0, 10, "5");
  Pages pages;
  const StagedBlock block = Stage(rows, &pages);
  ASSERT_EQ(block.topics.size(), 3U);
  EXPECT_EQ(block.topics[0].text, "c");
  EXPECT_EQ(block.topics[1].text, "a");
  EXPECT_EQ(block.topics[2].text, "b");
  ASSERT_EQ(pages.size(), 2U);
  EXPECT_EQ(pages.begin()->first, SealedPageKey(kStagedPagesMin + 5, 0));
  EXPECT_EQ(pages.rbegin()->first, SealedPageKey(kStagedPagesMin + 5, ValuesOf(0)));
  const Placement placement = PlacementOf(block, 1'000);
  const auto page =
      Page::Decode({pages.begin()->second, pages.rbegin()->second}, PageParts::kAll, &placement);
  ASSERT_TRUE(page.ok()) << page.status().message();
  ASSERT_EQ((*page)->topics(), 3U);
  std::string values;
  for (std::uint32_t row = 0; row < (*page)->rows(); ++row) {
    values += (*page)->value(row);
    EXPECT_EQ((*page)->serial(row), Serial{77});
  }
  EXPECT_EQ(values, "43251");  // by topic, time and order of arrival
  EXPECT_EQ((*page)->stream(0), StreamId{101});
  EXPECT_EQ((*page)->stream(2), StreamId{102});
  EXPECT_EQ((*page)->time(2), 1'010);
  EXPECT_EQ((*page)->extent(), (Extent{1'010, 1'050, Serial{77}, Serial{77}}));
}

// Returns what ForEachStagedMessage gives of a block: topic, time and value, one a line.
std::string Messages(const StagedBlock& block, const Pages& pages, Code* code) {
  const KeySource source = [&](std::string_view key) -> Result<std::string> {
    const auto found = pages.find(key);
    if (found == pages.end()) return Corruption("a page is missing");
    return found->second;
  };
  std::string all;
  *code = ForEachStagedMessage(block, source, [&](const StagedMessage& message) {
            all += std::string(message.topic) + " " + std::to_string(message.time) + " " +
                   std::string(message.value) + "\n";
            return Status::Ok();
          }).code();
  return all;
}

TEST(BlockStaging, ItsMessagesCanBeReadAgain) {
  StagedRows rows;
  rows.topics = {{1, "b"}, {1, "a"}};
  Add(&rows, 0, 30, "1");
  Add(&rows, 1, 10, "2");
  Add(&rows, 0, 20, "3");
  Pages pages;
  const StagedBlock block = Stage(rows, &pages);
  Code code{};
  EXPECT_EQ(Messages(block, pages, &code), "a 10 2\nb 20 3\nb 30 1\n");
  EXPECT_EQ(code, Code::kOk);
  pages.erase(SealedPageKey(block.pages, ValuesOf(0)));
  EXPECT_EQ(Messages(block, pages, &code), "");
  EXPECT_EQ(code, Code::kCorruption);
}

// A job of an earlier version left these files, and a commit of this one takes them.
TEST(BlockStaging, ABlockOfPagesThatAreOneRecordCanBeReadToo) {
  StagedRows rows;
  rows.topics = {{1, "a"}};
  Add(&rows, 0, 30, "1");
  Pages pages;
  StagedBlock block = Stage(rows, &pages);
  BlockEntry entry;
  ASSERT_TRUE(Decode(block.entry, &entry));
  entry.form = PageForm::kTogether;
  block.entry = Encode(entry);
  PackedPageEncoder encoder(PageCodec::kLz4);
  const PackedRow row{StreamId{1}, "a", 30, kStagedSerial, 0, "1"};
  std::string page;
  ASSERT_TRUE(encoder.Encode({&row, 1}, &page).ok());
  Code code{};
  EXPECT_EQ(Messages(block, {{SealedPageKey(block.pages, 0), page}}, &code), "a 30 1\n");
  EXPECT_EQ(code, Code::kOk);
}

}  // namespace
}  // namespace topicdb::columnar
