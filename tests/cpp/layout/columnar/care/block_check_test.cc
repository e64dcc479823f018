#include "layout/columnar/care/block_check.h"

#include <gtest/gtest.h>

#include <random>

#include "layout/columnar/columnar_slab.h"
#include "layout/columnar/format/block_filter.h"
#include "layout/columnar/format/topic_list.h"

namespace topicdb::columnar {
namespace {

constexpr std::uint64_t kCommits = 6;

// A slab with three sealed commits and three fresh ones, of four topics in two streams. Keys and
// values of sealed pages are apart or together.
class BlockCheck : public ::testing::TestWithParam<PageForm> {
 protected:
  BlockCheck() {
    slab_.limits.values_apart = GetParam() == PageForm::kApart;
    std::mt19937_64 random(1);
    for (std::uint64_t commit = 0; commit < kCommits; ++commit) {
      Rows rows;
      for (int i = 0; i < 40; ++i) {
        const std::uint32_t topic = static_cast<std::uint32_t>(random() % 4);
        rows.push_back({1 + topic / 2, "t/" + std::to_string(topic),
                        static_cast<std::int64_t>(random() % 100), 0, 0, std::to_string(random())});
      }
      slab_.Write(rows);
      if (commit == 2) slab_.SealAll(SealScope::kFresh);
    }
    sealed_ = slab_.Sealed().at(0);
  }

  // Checks the slab, and returns what the findings say, one a line.
  std::string Find(bool deep = true) {
    SlabCheck check;
    check.deep = deep;
    check.serial_max = Serial{serial_max_};
    check.stream_of = [&](std::string_view topic) {
      return StreamId{topic == misplaced_ ? 9U : topic < "t/2" ? 1U : 2U};
    };
    check.report = [&](Finding finding) { findings_.push_back(std::move(finding)); };
    check.checked = [](std::uint64_t) { return false; };
    findings_.clear();
    const auto counts = slab_.layout().Check(slab_.Source(), check);
    EXPECT_TRUE(counts.ok()) << counts.status().message();
    counts_ = counts.value();
    std::string all;
    for (const Finding& finding : findings_) all += finding.what + "\n";
    return all;
  }

  void Put(const std::string& key, const std::string& value) {
    ASSERT_TRUE(slab_.db().Put({}, slab_.families().main, key, value).ok());
  }
  void Remove(RecordKind kind) {
    ASSERT_TRUE(slab_.db().Delete({}, slab_.families().main, RecordKey(kind, sealed_.id)).ok());
  }
  std::string Page(std::uint32_t number) {
    std::string bytes;
    EXPECT_TRUE(
        slab_.db()
            .Get({}, slab_.families().sealed, SealedPageKey(sealed_.id.value(), number), &bytes)
            .ok());
    return bytes;
  }
  void PutPage(std::uint32_t number, const std::string& bytes) {
    ASSERT_TRUE(
        slab_.db()
            .Put({}, slab_.families().sealed, SealedPageKey(sealed_.id.value(), number), bytes)
            .ok());
  }

  ColumnarSlab slab_;
  Block sealed_;
  std::uint64_t serial_max_ = kCommits;
  std::string misplaced_;
  std::vector<Finding> findings_;
  CheckCounts counts_;
};

TEST_P(BlockCheck, FindsNothingInWhatIsWhole) {
  slab_.Remove(Request("t/1"));
  EXPECT_EQ(Find(), "");
  EXPECT_EQ(counts_.messages, 240U);
  EXPECT_EQ(counts_.blocks, 4U);
  EXPECT_EQ(counts_.pages, sealed_.entry.pages + 3);
  EXPECT_EQ(Find(/*deep=*/false), "");
  EXPECT_EQ(counts_.messages, 240U);
  EXPECT_EQ(counts_.pages, 0U);
}

TEST_P(BlockCheck, AMissingRecord) {
  for (const auto& [kind, name] :
       {std::pair(RecordKind::kDirectory, "its directory is missing"),
        std::pair(RecordKind::kWordFilter, "its word filter is missing"),
        std::pair(RecordKind::kSealedEntry, "it has a record of kind 4, but no entry")}) {
    ColumnarSlab& slab = slab_;
    std::string before;
    const std::string key = RecordKey(kind, sealed_.id);
    ASSERT_TRUE(slab.db().Get({}, slab.families().main, key, &before).ok());
    Remove(kind);
    EXPECT_NE(Find(false).find(name), std::string::npos) << Find(false);
    Put(key, before);
  }
  EXPECT_EQ(Find(), "");
}

TEST_P(BlockCheck, DeletedRowsOfABlockThatACrashHasTakenAreNoDamage) {
  Put(DeletedRowsKey(slab_.state().NewBlockId(), 0), Encode(DeletedRows{0}));
  EXPECT_EQ(Find(), "");
}

TEST_P(BlockCheck, AMissingPageAndWhatIsLostByIt) {
  ASSERT_GT(sealed_.entry.pages, 2U);
  const PageEntry entry = slab_.DirectoryOf(sealed_.id).at(1);
  const std::string key = SealedPageKey(sealed_.id.value(), 1);
  ASSERT_TRUE(slab_.db().Delete({}, slab_.families().sealed, key).ok());
  EXPECT_NE(Find().find("its page is missing"), std::string::npos);
  ASSERT_EQ(findings_.size(), 1U);
  EXPECT_EQ(findings_[0].messages, entry.rows);
  EXPECT_EQ(findings_[0].times, std::pair(entry.extent.first_time, entry.extent.last_time));
  EXPECT_EQ(findings_[0].streams.front(), entry.first_stream);
  EXPECT_EQ(counts_.messages, 240U - entry.rows);
}

TEST_P(BlockCheck, ADamagedPage) {
  std::string bytes = Page(0);
  bytes[bytes.size() / 2] ^= 1;
  PutPage(0, bytes);
  EXPECT_EQ(Find(/*deep=*/false), "");
  EXPECT_NE(Find().find("block " + std::to_string(sealed_.id.value()) + ", page 0"),
            std::string::npos);
}

TEST_P(BlockCheck, PagesThatChangedPlaces) {
  const std::uint32_t last = sealed_.entry.pages - 1;
  const auto exchange = [&](std::uint32_t record, std::uint32_t other) {
    const std::string bytes = Page(record);
    PutPage(record, Page(other));
    PutPage(other, bytes);
  };
  exchange(0, last);
  if (GetParam() == PageForm::kApart) {
    EXPECT_NE(Find().find("its values are those of another page"), std::string::npos);
    exchange(ValuesOf(0), ValuesOf(last));
  }
  const std::string found = Find();
  EXPECT_NE(found.find("page 0 has other messages than the directory says"), std::string::npos);
  EXPECT_NE(found.find("page 0 begins with another topic"), std::string::npos) << found;
}

TEST_P(BlockCheck, AnEntryThatIsNotThatOfItsMessages) {
  Block block = sealed_;
  block.entry.bytes += 1;
  FilterBuilder streams;
  streams.Add(StreamHash(StreamId{77}));
  block.entry.streams = streams.Build();
  Put(RecordKey(RecordKind::kSealedEntry, block.id), Encode(block.entry));
  EXPECT_EQ(Find(/*deep=*/false), "");
  const std::string found = Find();
  EXPECT_NE(found.find("by its entry"), std::string::npos) << found;
  EXPECT_NE(found.find("its entry does not know the stream of topic 't/0'"), std::string::npos);
}

TEST_P(BlockCheck, AWordFilterThatWouldHideMessages) {
  FilterBuilder words;
  words.AddWords("other");
  Put(RecordKey(RecordKind::kWordFilter, sealed_.id), EncodeFilter(words.Build()));
  EXPECT_NE(Find().find("its word filter does not know the topic 't/0'"), std::string::npos);
}

TEST_P(BlockCheck, AListOfTopicsThatIsNotThatOfItsMessages) {
  TopicListBuilder builder;
  builder.Add(StreamId{1}, "t/0", sealed_.entry.pages - 1, 100);
  const auto& entry = sealed_.entry;
  Put(RecordKey(RecordKind::kTopics, sealed_.id),
      builder.Build(entry.rows, entry.pages, entry.extent).value());
  EXPECT_NE(Find().find("the list of its topics is not that of its messages"), std::string::npos);
  Put(RecordKey(RecordKind::kTopics, sealed_.id), "damaged");
  EXPECT_NE(Find().find("the list of its topics is damaged"), std::string::npos);
}

TEST_P(BlockCheck, DeletedRowsThatAreNotThere) {
  Put(DeletedRowsKey(sealed_.id, 0), Encode(DeletedRows{100'000}));
  EXPECT_NE(Find(false).find("rows are deleted that it does not have"), std::string::npos);
}

TEST_P(BlockCheck, ATopicThatTheStructuresPutElsewhere) {
  misplaced_ = "t/3";
  EXPECT_NE(Find().find("topic 't/3' is of another stream"), std::string::npos);
}

TEST_P(BlockCheck, ACommitThatIsStillToCome) {
  serial_max_ = kCommits - 1;
  EXPECT_NE(Find(false).find("it has serial 6, but the last commit of the shard is 5"),
            std::string::npos);
}

TEST_P(BlockCheck, FreshBlocksBeforeSealedOnes) {
  Block block = sealed_;
  block.entry.extent.last_serial = Serial{kCommits};
  Put(RecordKey(RecordKind::kSealedEntry, block.id), Encode(block.entry));
  EXPECT_NE(Find(false).find("has commits before sealed ones"), std::string::npos);
}

TEST_P(BlockCheck, APageThatNobodyKnows) {
  PutPage(sealed_.entry.pages, Page(0));
  EXPECT_NE(Find(false).find("it has a page that no directory knows"), std::string::npos);
}

TEST_P(BlockCheck, ValuesThatNobodyKnows) {
  const std::uint32_t page = GetParam() == PageForm::kApart ? sealed_.entry.pages : 0;
  PutPage(ValuesOf(page), Page(0));
  EXPECT_NE(Find(false).find("it has a page that no directory knows"), std::string::npos);
}

TEST_P(BlockCheck, ValuesThatAreMissing) {
  if (GetParam() == PageForm::kTogether) return;
  const PageEntry entry = slab_.DirectoryOf(sealed_.id).at(1);
  slab_.RemovePage(SealedPageKey(sealed_.id.value(), ValuesOf(1)));
  EXPECT_NE(Find().find("its page of values is missing"), std::string::npos);
  ASSERT_EQ(findings_.size(), 1U);
  EXPECT_EQ(findings_[0].messages, entry.rows);
}

TEST_P(BlockCheck, AnEntryThatIsWrongAboutTheBytesOfValues) {
  if (GetParam() == PageForm::kTogether) return;
  Block block = sealed_;
  block.entry.value_bytes -= 1;
  Put(RecordKey(RecordKind::kSealedEntry, block.id), Encode(block.entry));
  EXPECT_NE(Find().find("its values have"), std::string::npos);
}

TEST_P(BlockCheck, PagesOfBlocksThatAreBeingSealedAreFine) {
  ASSERT_TRUE(
      slab_.db()
          .Put({}, slab_.families().sealed, SealedPageKey(sealed_.id.Next(50).value(), 0), "")
          .ok());
  EXPECT_EQ(Find(), "");
}

INSTANTIATE_TEST_SUITE_P(Forms, BlockCheck,
                         ::testing::Values(PageForm::kApart, PageForm::kTogether),
                         [](const auto& form) {
                           return form.param == PageForm::kApart ? "Apart" : "Together";
                         });

}  // namespace
}  // namespace topicdb::columnar
