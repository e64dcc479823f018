#include "layout/columnar/block/block_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "layout/columnar/format/block_filter.h"
#include "layout/columnar/format/expect_page.h"

namespace topicdb::columnar {
namespace {

constexpr std::size_t kRowBytes = 8;  // that a row takes in a page besides its topic and value

// A block that was built, and its pages.
class BuiltBlock {
 public:
  // REQUIRES: rows are sorted; they must outlive the object
  BuiltBlock(const Rows& rows, std::size_t page_bytes_max, PageForm form = PageForm::kApart)
      : builder_(PageCodec::kLz4, form, page_bytes_max) {
    const PageSink sink = [&](std::uint32_t number, std::string_view bytes) {
      EXPECT_TRUE(records_.empty() || records_.rbegin()->first < number);
      records_.emplace(number, bytes);
      return Status::Ok();
    };
    const Status built = builder_.Build(AsPacked(rows), sink);
    EXPECT_TRUE(built.ok()) << built.message();
    for (std::uint32_t page = 0; records_.contains(page); ++page) {
      StoredPage stored{records_.at(page)};
      if (records_.contains(ValuesOf(page))) stored.values = records_.at(ValuesOf(page));
      const auto decoded = Page::Decode(std::move(stored), PageParts::kAll);
      EXPECT_TRUE(decoded.ok()) << decoded.status().message();
      pages_.push_back(*decoded);
    }
  }

  std::size_t pages() const { return pages_.size(); }
  std::size_t records() const { return records_.size(); }
  const Page& page(std::size_t number) const { return *pages_[number]; }
  const BlockBuilder& builder() const { return builder_; }

 private:
  BlockBuilder builder_;
  std::map<std::uint32_t, std::string> records_;
  std::vector<std::shared_ptr<const Page>> pages_;
};

// Messages of topics of two streams. The topic "b/1" has half of them.
Rows Example() {
  Rows rows;
  for (std::uint32_t i = 0; i < 30; ++i) {
    rows.push_back({1, "a/" + std::to_string(i % 3), 100 + i, 1 + i, i, "value"});
    rows.push_back({2, "b/1", 500 - i, 1 + i, 7, "larger value"});
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

TEST(BlockBuilder, ItsPagesHaveAllRowsInOrder) {
  const Rows rows = Example();
  const BuiltBlock block(rows, 150);
  EXPECT_GT(block.pages(), 3U);
  Rows found;
  const std::vector<std::size_t>& begins = block.builder().page_begins();
  ASSERT_EQ(begins.size(), block.pages());
  for (std::size_t page = 0; page < block.pages(); ++page) {
    EXPECT_EQ(begins[page], found.size());
    const Rows of_page = RowsOf(block.page(page));
    found.insert(found.end(), of_page.begin(), of_page.end());
  }
  EXPECT_EQ(found, rows);
}

TEST(BlockBuilder, ItsDirectorySaysWhatIsInThePages) {
  const Rows rows = Example();
  const BuiltBlock block(rows, 150);
  const Directory& directory = block.builder().directory();
  ASSERT_EQ(directory.size(), block.pages());
  for (std::size_t number = 0; number < block.pages(); ++number) {
    const Page& page = block.page(number);
    EXPECT_EQ(directory[number].rows, page.rows());
    EXPECT_EQ(directory[number].extent, page.extent());
    EXPECT_EQ(directory[number].first_stream, page.stream(0));
    EXPECT_EQ(directory[number].first_topic, page.topic(0));
  }
}

TEST(BlockBuilder, ItsEntrySumsUpTheRows) {
  const Rows rows = Example();
  const BuiltBlock block(rows, 150);
  const BlockEntry& entry = block.builder().entry();
  std::size_t bytes = 0;
  for (const Row& row : rows) bytes += row.topic.size() + row.value.size();
  EXPECT_EQ(entry.bytes, bytes) << "a topic counts in each of its rows";
  EXPECT_EQ(entry.rows, rows.size());
  EXPECT_EQ(entry.pages, block.pages());
  EXPECT_EQ(entry.extent, ExtentOf(rows));
  EXPECT_EQ(entry.codec, PageCodec::kLz4);
  EXPECT_FALSE(entry.staged);
}

TEST(BlockBuilder, KeysAndValuesAreApartUnlessItIsToldOtherwise) {
  const Rows rows = Example();
  const BuiltBlock apart(rows, 150);
  EXPECT_EQ(apart.records(), 2 * apart.pages());
  EXPECT_EQ(apart.builder().entry().form, PageForm::kApart);
  std::size_t value_bytes = 0;
  for (const Row& row : rows) value_bytes += row.value.size();
  EXPECT_EQ(apart.builder().entry().value_bytes, value_bytes);
  const BuiltBlock together(rows, 150, PageForm::kTogether);
  EXPECT_EQ(together.pages(), apart.pages());
  EXPECT_EQ(together.records(), together.pages());
  EXPECT_EQ(together.builder().entry().form, PageForm::kTogether);
  EXPECT_EQ(together.builder().entry().value_bytes, 0U);
  for (std::size_t page = 0; page < apart.pages(); ++page) {
    EXPECT_EQ(RowsOf(together.page(page)), RowsOf(apart.page(page)));
  }
}

TEST(BlockBuilder, ABlockOfEmptyValuesHasNoRecordsOfValues) {
  const Rows empty = WithoutValues(Example());
  const BuiltBlock block(empty, 60);
  EXPECT_GT(block.pages(), 3U);
  EXPECT_EQ(block.records(), block.pages());
  EXPECT_FALSE(HasValueRecords(block.builder().entry()));
  Rows some = empty;
  some.back().value = "x";
  const BuiltBlock other(some, 60);
  EXPECT_EQ(other.records(), 2 * other.pages()) << "every page has one, then";
}

TEST(BlockBuilder, APageIsNoLargerThanItsLimit) {
  const Rows rows = Example();
  for (const std::size_t page_bytes_max : {60, 150, 400}) {
    const BuiltBlock block(rows, page_bytes_max);
    for (std::size_t number = 0; number < block.pages(); ++number) {
      const Page& page = block.page(number);
      const std::size_t bytes = page.topic_bytes() + page.values().size() + page.rows() * kRowBytes;
      EXPECT_LE(bytes, page_bytes_max);
      if (number + 1 == block.pages()) continue;
      const Row next = RowOf(block.page(number + 1), 0);
      EXPECT_GT(bytes + next.topic.size() + next.value.size() + kRowBytes, page_bytes_max)
          << "the next row had room";
    }
  }
}

TEST(BlockBuilder, ARowThatIsTooLargeHasAPageOfItsOwn) {
  Rows rows{{1, "a", 1, 1, 0, "small"},
            {1, "a", 2, 1, 1, std::string(1'000, 'x')},
            {1, "a", 3, 1, 2, std::string(1'000, 'y')},
            {1, "a", 4, 1, 3, "small"}};
  const BuiltBlock block(rows, 100);
  ASSERT_EQ(block.pages(), 4U);
  for (std::size_t page = 0; page < 4; ++page) EXPECT_EQ(block.page(page).rows(), 1U);
}

TEST(BlockBuilder, ItsFiltersKnowEachStreamAndEachWord) {
  const Rows rows = Example();
  const BuiltBlock block(rows, 150);
  const std::string& streams = block.builder().entry().streams;
  EXPECT_TRUE(MayContain(streams, StreamHash(StreamId{1})));
  EXPECT_TRUE(MayContain(streams, StreamHash(StreamId{2})));
  const std::string& words = block.builder().word_filter();
  for (const char* word : {"a", "b"}) EXPECT_TRUE(MayContain(words, WordHash(0, word)));
  for (const char* word : {"0", "1", "2"}) EXPECT_TRUE(MayContain(words, WordHash(1, word)));
  int absent = 0;
  for (std::uint32_t i = 100; i < 200; ++i) {
    absent += MayContain(streams, StreamHash(StreamId{i})) ? 0 : 1;
    absent += MayContain(words, WordHash(1, std::to_string(i))) ? 0 : 1;
  }
  EXPECT_GT(absent, 150) << "of 200 that were not added";
}

TEST(BlockBuilder, ItsListHasEachTopicOnceWithThePageOfItsLastRow) {
  const Rows rows = Example();
  const BuiltBlock block(rows, 150);
  const std::string record = block.builder().TopicRecord().value();
  TopicList list;
  ASSERT_TRUE(Decode(record, &list));
  EXPECT_EQ(list.topics, 4U);
  EXPECT_EQ(list.rows, rows.size());
  EXPECT_EQ(list.extent, ExtentOf(rows));
  std::vector<std::string> topics;
  const Status listed = ForEachTopic(
      list, Expand(list).value(), [&](StreamId stream, std::string_view topic, std::uint32_t page) {
        topics.emplace_back(topic);
        EXPECT_EQ(stream, StreamId{topic == "b/1" ? 2U : 1U});
        const Row last = *std::find_if(rows.rbegin(), rows.rend(),
                                       [&](const Row& row) { return row.topic == topic; });
        const Rows of_page = RowsOf(block.page(page));
        EXPECT_NE(std::find(of_page.begin(), of_page.end(), last), of_page.end()) << topic;
        EXPECT_GE(list.LastTimeMax(static_cast<std::uint32_t>(topics.size() - 1)), last.time);
        return Status::Ok();
      });
  ASSERT_TRUE(listed.ok()) << listed.message();
  EXPECT_EQ(topics, (std::vector<std::string>{"a/0", "a/1", "a/2", "b/1"}));
}

TEST(BlockBuilder, ATopicOfTwoStreamsIsListedForBoth) {
  const Rows rows{{1, "t", 1, 1, 0, "x"}, {2, "t", 1, 1, 1, "y"}};
  const BuiltBlock block(rows, 1'000);
  const std::string record = block.builder().TopicRecord().value();
  TopicList list;
  ASSERT_TRUE(Decode(record, &list));
  EXPECT_EQ(list.topics, 2U);
  EXPECT_TRUE(MayContain(block.builder().entry().streams, StreamHash(StreamId{2})));
}

TEST(BlockBuilder, AnErrorOfTheSinkEndsTheBlock) {
  const std::vector<PackedRow> rows(10, {StreamId{1}, "t", 1, Serial{1}, 0, "value"});
  BlockBuilder builder(PageCodec::kZstd, PageForm::kApart, 1);
  std::uint32_t calls = 0;
  const Status built = builder.Build(rows, [&](std::uint32_t number, std::string_view) {
    ++calls;
    return number == 2 ? StorageFault("a test") : Status::Ok();
  });
  EXPECT_EQ(built.code(), Code::kStorage);
  EXPECT_EQ(calls, 3U);
}

}  // namespace
}  // namespace topicdb::columnar
