#include "layout/columnar/care/block_salvage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "layout/columnar/mixed_blocks.h"

namespace topicdb::columnar {
namespace {

class BlockSalvageTest : public MixedBlocksTest {
 protected:
  BlockSalvageTest() : MixedBlocksTest(/*messages=*/100, /*topics=*/4) {
    sealed_ = slab_.Sealed();
    fresh_ = slab_.Fresh();
    staged_ = fresh_.back();
  }

  // Salvages the slab into taken_ and findings_.
  Status Salvage() {
    taken_.clear();
    findings_.clear();
    SlabSalvage call;
    call.is_incomplete = is_incomplete_;
    call.take = [&](const SalvagedRow& row) {
      taken_.push_back({0, std::string(row.topic), row.timestamp, row.serial.value(), row.index,
                        std::string(row.value)});
      return Status::Ok();
    };
    call.report = [&](Finding finding) { findings_.push_back(std::move(finding)); };
    return BlockSalvage(slab_.Source(), call).Run();
  }
  // Salvages the slab, and expects all messages for which lacks(row) is false, in their order.
  template <typename Lacks>
  void ExpectAllBut(Lacks lacks) {
    const Status salvaged = Salvage();
    EXPECT_TRUE(salvaged.ok()) << salvaged.message();
    Rows expected;
    for (Row row : slab_.rows()) {
      if (lacks(row)) continue;
      row.stream = 0;
      expected.push_back(row);
    }
    std::sort(expected.begin(), expected.end(), [](const Row& a, const Row& b) {
      return std::tuple(a.serial, a.index) < std::tuple(b.serial, b.index);
    });
    EXPECT_EQ(taken_, expected);
  }
  void ExpectAll() {
    ExpectAllBut([](const Row&) { return false; });
  }
  // Expects one finding that says this, and returns it.
  Finding TheFinding(const std::string& what) const {
    EXPECT_EQ(findings_.size(), 1U);
    if (findings_.empty()) return {};
    EXPECT_NE(findings_[0].what.find(what), std::string::npos) << findings_[0].what;
    return findings_[0];
  }

  void Remove(RecordKind kind, BlockId block) { slab_.RemoveRecord(RecordKey(kind, block)); }
  void Damage(RecordKind kind, BlockId block) {
    slab_.PutRecord(RecordKey(kind, block), "damaged");
  }
  // Removes all records of a sealed block, but not its pages.
  void RemoveRecords(BlockId block) {
    for (const RecordKind kind : {RecordKind::kSealedEntry, RecordKind::kDirectory,
                                  RecordKind::kWordFilter, RecordKind::kTopics}) {
      Remove(kind, block);
    }
  }
  // Returns the messages of a page.
  Rows OfPage(const Block& block, std::uint32_t page) const {
    return RowsOf(*BlockReader(slab_.Source()).LoadPage(block, page).value());
  }
  static bool Has(const Rows& rows, const Row& row) {
    return std::find(rows.begin(), rows.end(), row) != rows.end();
  }
  // Writes the pages of a step of sealing that a crash then cuts short.
  void SealWithoutEnd() {
    const auto sealing =
        slab_.layout().log()->NewSealing(slab_.Source(), &slab_.state(), slab_.limits);
    ASSERT_TRUE(sealing->Gather(SealScope::kFresh).value());
    ASSERT_TRUE(sealing->WriteData().ok());
  }

  std::vector<Block> sealed_;
  std::vector<Block> fresh_;
  Block staged_;
  bool is_incomplete_ = false;
  Rows taken_;
  std::vector<Finding> findings_;
};

TEST_P(BlockSalvageTest, OfWhatIsWholeNothingIsLost) {
  ExpectAll();
  EXPECT_TRUE(findings_.empty());
  is_incomplete_ = true;
  ExpectAll();
  EXPECT_TRUE(findings_.empty());
}

TEST_P(BlockSalvageTest, WhatIsDeletedStaysDeleted) {
  slab_.Remove(Request("t/1"));
  ExpectAll();
  EXPECT_TRUE(findings_.empty());
}

TEST_P(BlockSalvageTest, APageThatIsDamagedOrMissingTakesNoOtherWithIt) {
  const Block& block = sealed_[0];
  const Rows lost = OfPage(block, 1);
  const PageEntry entry = slab_.DirectoryOf(block.id).at(1);
  const std::string key = SealedPageKey(block.id.value(), 1);
  for (const bool is_missing : {false, true}) {
    if (is_missing) slab_.RemovePage(key);
    if (!is_missing) slab_.PutPage(key, "damaged");
    ExpectAllBut([&](const Row& row) { return Has(lost, row); });
    const Finding finding = TheFinding(NameOf(block.id) + ", page 1: ");
    EXPECT_EQ(finding.messages, lost.size());
    EXPECT_EQ(finding.times, std::pair(entry.extent.first_time, entry.extent.last_time));
    EXPECT_EQ(finding.streams.at(0), entry.first_stream);
    EXPECT_TRUE(finding.is_counted);
  }
}

TEST_P(BlockSalvageTest, APageWithoutItsValuesIsLost) {
  if (GetParam() == PageForm::kTogether) return;
  for (const Block& block : {sealed_[0], staged_}) {
    const std::uint64_t pages = block.sealed ? block.id.value() : kStagedPagesMin + 5;
    const Rows lost = OfPage(block, 1);
    const std::string key = SealedPageKey(pages, ValuesOf(1));
    std::string values;
    ASSERT_TRUE(slab_.db().Get({}, slab_.families().sealed, key, &values).ok());
    slab_.RemovePage(key);
    ExpectAllBut([&](const Row& row) { return Has(lost, row); });
    EXPECT_EQ(TheFinding("page 1: ").messages, lost.size());
    slab_.PutPage(key, values);
  }
  ExpectAll();
}

TEST_P(BlockSalvageTest, DeletedMessagesOfALostPageAreNotLost) {
  const Block& block = sealed_[0];
  const Rows lost = OfPage(block, 1);
  slab_.PutPage(SealedPageKey(block.id.value(), 1), "damaged");
  slab_.PutRecord(DeletedRowsKey(block.id, 1), Encode(DeletedRows{0, 1, 2}));
  ASSERT_TRUE(Salvage().ok());
  EXPECT_EQ(TheFinding("page 1").messages, lost.size() - 3);
  DeletedRows all;
  for (std::uint32_t row = 0; row < lost.size(); ++row) all.push_back(row);
  slab_.PutRecord(DeletedRowsKey(block.id, 1), Encode(all));
  ASSERT_TRUE(Salvage().ok());
  EXPECT_TRUE(findings_.empty());
}

TEST_P(BlockSalvageTest, OfEntryAndDirectoryOneIsEnough) {
  Remove(RecordKind::kDirectory, sealed_[0].id);
  Remove(RecordKind::kSealedEntry, sealed_[1].id);
  Remove(RecordKind::kFreshEntry, fresh_[0].id);
  Remove(RecordKind::kDirectory, staged_.id);
  ExpectAll();
  EXPECT_TRUE(findings_.empty());
  Damage(RecordKind::kDirectory, sealed_[0].id);
  Damage(RecordKind::kSealedEntry, sealed_[1].id);
  Damage(RecordKind::kFreshEntry, fresh_[0].id);
  ExpectAll();
  EXPECT_TRUE(findings_.empty());
}

TEST_P(BlockSalvageTest, AnEntryTellsHowManyMessagesAreLostWithoutTheDirectory) {
  const Rows lost = OfPage(sealed_[0], 1);
  Remove(RecordKind::kDirectory, sealed_[0].id);
  slab_.RemovePage(SealedPageKey(sealed_[0].id.value(), 1));
  ExpectAllBut([&](const Row& row) { return Has(lost, row); });
  EXPECT_EQ(TheFinding("some of its pages").messages, lost.size());
}

TEST_P(BlockSalvageTest, WithoutEntryAndDirectoryThePagesAreFoundAndNotCounted) {
  const BlockId id = sealed_[0].id;
  const Rows lost = OfPage(sealed_[0], 1);
  Remove(RecordKind::kDirectory, id);
  Remove(RecordKind::kSealedEntry, id);
  ExpectAll();
  EXPECT_TRUE(findings_.empty());
  slab_.PutPage(SealedPageKey(id.value(), 1), "damaged");
  ExpectAllBut([&](const Row& row) { return Has(lost, row); });
  const Finding finding = TheFinding(NameOf(id) + ": some of its pages are lost");
  EXPECT_EQ(finding.messages, 0U);
}

TEST_P(BlockSalvageTest, PagesWithoutAnyRecordCountOnlyIfRecordsMayBeMissing) {
  RemoveRecords(sealed_[0].id);
  ExpectAllBut([&](const Row& row) { return row.serial == 1; });
  EXPECT_TRUE(findings_.empty());
  is_incomplete_ = true;
  ExpectAll();
  EXPECT_TRUE(findings_.empty());
}

TEST_P(BlockSalvageTest, AMessageThatIsThereTwiceComesOnce) {
  SealWithoutEnd();
  is_incomplete_ = true;  // so the pages that nobody names are read, too
  ExpectAll();
  EXPECT_TRUE(findings_.empty());
}

TEST_P(BlockSalvageTest, WhatIsLostInOnePlaceMayBeFoundInAnother) {
  SealWithoutEnd();
  Damage(RecordKind::kFreshPage, fresh_[0].id);
  ExpectAllBut([&](const Row& row) { return row.serial == 3; });
  EXPECT_EQ(TheFinding(NameOf(fresh_[0].id) + ": its page").messages, 20U);
  is_incomplete_ = true;
  ExpectAll();
  EXPECT_EQ(TheFinding("; found elsewhere").messages, 0U);
}

TEST_P(BlockSalvageTest, AFreshBlockWithoutItsPageIsLost) {
  Remove(RecordKind::kFreshPage, fresh_[1].id);
  ExpectAllBut([&](const Row& row) { return row.serial == 4; });
  const Finding finding = TheFinding(NameOf(fresh_[1].id) + ": its page: it is missing");
  EXPECT_EQ(finding.messages, 20U);
  EXPECT_TRUE(finding.is_counted);
}

TEST_P(BlockSalvageTest, WithoutItsEntryNobodyKnowsHowManyMessagesItHad) {
  Remove(RecordKind::kFreshEntry, fresh_[1].id);
  Damage(RecordKind::kFreshPage, fresh_[1].id);
  ExpectAllBut([&](const Row& row) { return row.serial == 4; });
  const Finding finding = TheFinding("how many messages it had is not known");
  EXPECT_EQ(finding.messages, 0U);
  EXPECT_FALSE(finding.is_counted);
}

TEST_P(BlockSalvageTest, WithoutTheRecordOfWhatIsDeletedItIsThereAgain) {
  for (const Block& block : {sealed_[0], fresh_[0]}) {
    slab_.PutRecord(DeletedRowsKey(block.id, 0), Encode(DeletedRows{0}));
    ASSERT_TRUE(Salvage().ok());
    EXPECT_EQ(taken_.size(), slab_.rows().size() - 1);
    slab_.PutRecord(DeletedRowsKey(block.id, 0), "damaged");
    ExpectAll();
    TheFinding(NameOf(block.id) + ": which of its messages were deleted is lost");
    slab_.RemoveRecord(DeletedRowsKey(block.id, 0));
  }
}

TEST_P(BlockSalvageTest, AStagedBlockFindsItsPagesWithoutItsPlacement) {
  Remove(RecordKind::kPlacement, staged_.id);
  ExpectAll();
  EXPECT_TRUE(findings_.empty());
  Remove(RecordKind::kFreshEntry, staged_.id);
  ExpectAll();  // the directory knows their number and times, too
  EXPECT_TRUE(findings_.empty());
  Remove(RecordKind::kDirectory, staged_.id);
  ExpectAllBut([&](const Row& row) { return row.serial == 5; });
  TheFinding(NameOf(staged_.id) + ": where its pages are is lost");
}

TEST_P(BlockSalvageTest, WhetherAJobWasCommittedIsNotGuessed) {
  slab_.PutPage(SealedPageKey(kStagedPagesMin + 99, 0),
                PackedPage({{1, "t", 7, 1, 0, "x"}, {1, "t", 8, 1, 1, "y"}}, PageCodec::kLz4));
  ExpectAll();
  EXPECT_TRUE(findings_.empty());
  is_incomplete_ = true;
  ExpectAll();
  EXPECT_EQ(TheFinding("pages of a job that no block has").messages, 2U);
}

TEST_P(BlockSalvageTest, AnErrorOfWhoTakesTheMessagesEndsIt) {
  int calls = 0;
  SlabSalvage call;
  call.take = [&](const SalvagedRow&) {
    return ++calls == 3 ? StorageFault("a test") : Status::Ok();
  };
  call.report = [](const Finding& finding) { ADD_FAILURE() << finding.what; };
  const Status salvaged = BlockSalvage(slab_.Source(), call).Run();
  EXPECT_EQ(salvaged.code(), Code::kStorage);
  EXPECT_EQ(calls, 3);
}

INSTANTIATE_TEST_SUITE_P(Forms, BlockSalvageTest,
                         ::testing::Values(PageForm::kApart, PageForm::kTogether),
                         [](const auto& form) {
                           return form.param == PageForm::kApart ? "Apart" : "Together";
                         });

}  // namespace
}  // namespace topicdb::columnar
