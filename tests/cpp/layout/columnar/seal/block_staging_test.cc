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
  ASSERT_EQ(pages.size(), 1U);
  EXPECT_EQ(pages.begin()->first, SealedPageKey(kStagedPagesMin + 5, 0));
  const Placement placement = PlacementOf(block, 1'000);
  const auto page = Page::Decode(pages.begin()->second, &placement);
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

}  // namespace
}  // namespace topicdb::columnar
