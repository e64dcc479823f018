#include "store/slab/slab.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rocks/logged_database.h"
#include "store/catalog/family_names.h"

namespace topicdb {
namespace {

constexpr SlabId kSlab{0, RetentionClassId{1}, Generation{2}};

using Texts = std::vector<std::string>;

meta::SlabRecord RecordOf(LayoutKind layout) {
  meta::SlabRecord record;
  record.layout = layout;
  record.keep_last = 3;
  record.begun_at = Serial{17};
  return record;
}

class SlabTest : public ::testing::Test {
 protected:
  // Makes column families of these names.
  FamiliesByName Families(const Texts& names) {
    FamiliesByName families;
    for (const std::string& name : names) {
      rocksdb::ColumnFamilyHandle* handle = nullptr;
      EXPECT_TRUE(database_.db().CreateColumnFamily({}, name, &handle).ok());
      families[name] = std::make_shared<FamilyHandle>(&database_.db(), handle);
    }
    return families;
  }
  std::shared_ptr<Slab> Make(LayoutKind layout = LayoutKind::kColumnar) {
    FamiliesByName families = Families(FamilyNames(layout, kSlab));
    auto slab = Slab::Make(kSlab, RecordOf(layout), &families, StructureTrie(learning_), {});
    EXPECT_TRUE(slab.ok()) << slab.status().message();
    return std::move(slab).value();
  }
  // Lets the slab learn these topics, as a commit does.
  static void Learn(Slab* slab, const Texts& topics, const meta::SlabCounters& counters) {
    StructureEdit edit(slab->TrieForCommit());
    std::vector<std::string_view> varying;
    for (const std::string& topic : topics) edit.Resolve(topic, &varying);
    slab->ApplyCommit(edit, counters);
  }
  static meta::SlabCounters Counted(std::int64_t first, std::int64_t last) {
    meta::SlabCounters counters;
    counters.Count(4, first, last, 50);
    return counters;
  }

  const Learning learning_{{2}, false, 0};  // two words of a level, then a wildcard
  rocks::LoggedDatabase database_;
};

TEST_F(SlabTest, TakesItsFamiliesAndLeavesOthers) {
  Texts names = FamilyNames(LayoutKind::kColumnar, kSlab);
  names.emplace_back("another");
  FamiliesByName families = Families(names);
  const auto slab =
      Slab::Make(kSlab, RecordOf(LayoutKind::kColumnar), &families, StructureTrie(learning_), {});
  ASSERT_TRUE(slab.ok()) << slab.status().message();
  EXPECT_EQ(families.size(), 1U);
  const SlabFamilies own = (*slab)->families();
  EXPECT_EQ(own.main->GetName(), BlocksFamilyName(kSlab));
  EXPECT_EQ(own.sealed->GetName(), PagesFamilyName(kSlab));
  EXPECT_EQ((*slab)->all_families(),
            (std::vector<rocksdb::ColumnFamilyHandle*>{own.main, own.sealed}));
  EXPECT_NE((*slab)->log(), nullptr);
}

TEST_F(SlabTest, OfALayoutForStateHasOneFamilyAndNoLog) {
  const auto slab = Make(LayoutKind::kSkipstream);
  EXPECT_EQ(slab->families().main->GetName(), FamilyName(kSlab));
  EXPECT_EQ(slab->families().sealed, nullptr);
  EXPECT_EQ(slab->all_families().size(), 1U);
  EXPECT_EQ(slab->log(), nullptr);
}

TEST_F(SlabTest, WithoutOneOfItsFamiliesIsCorrupt) {
  FamiliesByName families = Families({BlocksFamilyName(kSlab)});
  const auto slab =
      Slab::Make(kSlab, RecordOf(LayoutKind::kColumnar), &families, StructureTrie(learning_), {});
  EXPECT_EQ(slab.status().code(), Code::kCorruption);
  EXPECT_NE(slab.status().message().find("'" + PagesFamilyName(kSlab) + "' is missing"),
            std::string::npos)
      << slab.status().message();
}

TEST_F(SlabTest, MayHoldMessagesOfItsTimes) {
  const auto slab = Make();
  EXPECT_FALSE(slab->MayHold({})) << "it has none";
  Learn(slab.get(), {"a"}, Counted(10, 20));
  EXPECT_TRUE(slab->MayHold({}));
  EXPECT_TRUE(slab->MayHold({20, std::nullopt}));
  EXPECT_FALSE(slab->MayHold({21, std::nullopt}));
  EXPECT_TRUE(slab->MayHold({std::nullopt, 11}));
  EXPECT_FALSE(slab->MayHold({std::nullopt, 10}));
  EXPECT_TRUE(slab->MayHold({12, 13})) << "it does not know what lies in between";
  EXPECT_EQ(slab->FirstTimestamp(), 10);
  EXPECT_EQ(slab->LastTimestamp(), 20);
}

TEST_F(SlabTest, FindsItsStreamsByStructure) {
  const auto slab = Make();
  Learn(slab.get(), {"b/1", "b/2", "b/3", "a"}, Counted(1, 2));
  const auto texts = [&](const std::string& filter) {
    Texts found;
    for (const auto& [structure, stream] : slab->Match(Filter::Parse(filter).value())) {
      EXPECT_EQ(slab->StructureOf(stream)->Text(), structure.Text());
      found.push_back(structure.Text());
    }
    return found;
  };
  EXPECT_EQ(texts("#"), (Texts{"a", "b/+", "b/1", "b/2"}));
  EXPECT_EQ(texts("b/1"), (Texts{"b/+", "b/1"}));
  EXPECT_TRUE(texts("c").empty());
  const std::vector<StreamId> ids = slab->MatchIds(Filter::Everything());
  EXPECT_EQ(ids.size(), 4U);
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_LE(ids.back(), slab->LastStreamMax());
  EXPECT_EQ(slab->StructureOf(slab->LastStreamMax().Next()), std::nullopt);
  EXPECT_EQ(slab->StructureOf(kNoStream), std::nullopt);
}

TEST_F(SlabTest, FindsTheStreamOfATopicAndItsWords) {
  const auto slab = Make();
  Learn(slab.get(), {"b/1", "b/2", "b/3"}, Counted(1, 2));
  std::vector<std::string_view> varying;
  EXPECT_EQ(slab->StructureOf(slab->FindStream("b/7", &varying))->Text(), "b/+");
  EXPECT_EQ(varying, std::vector<std::string_view>{"7"});
  EXPECT_EQ(slab->StructureOf(slab->FindStream("b/2", &varying))->Text(), "b/2");
  EXPECT_TRUE(varying.empty());
  EXPECT_EQ(slab->FindStream("b", &varying), kNoStream);
}

TEST_F(SlabTest, StreamsThatItLearnsLaterHaveLargerNumbers) {
  const auto slab = Make();
  Learn(slab.get(), {"a"}, Counted(1, 2));
  const StreamId before = slab->LastStreamMax();
  const std::size_t bytes = slab->structure_bytes();
  Learn(slab.get(), {"b"}, Counted(1, 2));
  std::vector<std::string_view> varying;
  EXPECT_LE(slab->FindStream("a", &varying), before);
  EXPECT_GT(slab->FindStream("b", &varying), before);
  EXPECT_GE(slab->structure_bytes(), bytes);
}

TEST_F(SlabTest, TellsUsersWhatItHas) {
  const auto slab = Make();
  SlabInfo info = slab->Info("a/#");
  EXPECT_EQ(info.id, kSlab);
  EXPECT_EQ(info.retention_class, "a/#");
  EXPECT_EQ(info.layout, LayoutKind::kColumnar);
  EXPECT_EQ(info.keep_last, 3U);
  EXPECT_EQ(info.messages, 0U);
  EXPECT_EQ(info.first_timestamp, std::nullopt) << "there is none";
  Learn(slab.get(), {"a", "b"}, Counted(10, 20));
  info = slab->Info("a/#");
  EXPECT_EQ(info.messages, 4U);
  EXPECT_EQ(info.bytes, 50U);
  EXPECT_EQ(info.streams, 2U);
  EXPECT_EQ(info.first_timestamp, 10);
  EXPECT_EQ(info.last_timestamp, 20);
}

TEST_F(SlabTest, MayBeginAgain) {
  const auto slab = Make();
  EXPECT_EQ(slab->begun_at(), Serial{17});
  slab->BeginAgain(Serial{23});
  EXPECT_EQ(slab->begun_at(), Serial{23});
  EXPECT_EQ(slab->record().begun_at, Serial{23});
  EXPECT_EQ(slab->record().keep_last, 3U);
}

TEST_F(SlabTest, SumsWhatReadersHaveDone) {
  const auto slab = Make();
  ReadCounters counters{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
  slab->AddReads(counters);
  slab->AddReads(counters);
  const ReadCounters sum = slab->reads();
  EXPECT_EQ(sum.blocks, 2U);
  EXPECT_EQ(sum.blocks_skipped_by_time, 4U);
  EXPECT_EQ(sum.blocks_skipped_by_stream, 6U);
  EXPECT_EQ(sum.blocks_skipped_by_word, 8U);
  EXPECT_EQ(sum.pages, 10U);
  EXPECT_EQ(sum.pages_skipped_by_time, 12U);
  EXPECT_EQ(sum.pages_skipped_by_topic, 14U);
  EXPECT_EQ(sum.pages_read, 16U);
  EXPECT_EQ(sum.bytes_read, 18U);
  EXPECT_EQ(sum.rows_examined, 20U);
  EXPECT_EQ(sum.rows_matched, 22U);
  EXPECT_EQ(sum.rows_spilled, 24U);
  EXPECT_EQ(sum.bytes_spilled, 26U);
}

}  // namespace
}  // namespace topicdb
