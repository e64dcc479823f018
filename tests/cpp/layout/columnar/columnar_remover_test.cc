#include "layout/columnar/columnar_remover.h"

#include <gtest/gtest.h>

#include <random>

#include "layout/columnar/columnar_slab.h"

namespace topicdb::columnar {
namespace {

// Takes one step of a delete, and adds the number of removed messages to `removed`.
Result<bool> Step(ColumnarSlab* slab, const ReadRequest& request, std::size_t rows_max,
                  RemovalProgress* progress, std::size_t* removed) {
  rocksdb::WriteBatch batch;
  const auto remover = slab->layout().NewRemover(slab->Source(), &batch);
  remover->GoOnFrom(progress);
  TOPICDB_ASSIGN_OR_RETURN(const bool complete, remover->Remove(request, rows_max, removed));
  TOPICDB_RETURN_IF_ERROR(remover->Finish());
  EXPECT_TRUE(slab->db().Write({}, &batch).ok());
  return complete;
}

ReadRequest TimesBefore(std::int64_t end) {
  ReadRequest request = Request("#");
  request.range = {std::nullopt, end};
  return request;
}

TEST(ColumnarRemover, AStepGoesOnWhereTheOneBeforeHasEnded) {
  ColumnarSlab slab;
  for (int block = 0; block < 2; ++block) {
    Rows rows;
    for (int time = 0; time < 20; ++time) rows.push_back({1, "t/1", time, 0, 0, "x"});
    slab.Write(rows);
    ASSERT_TRUE(slab.Seal(SealScope::kFresh));
  }
  const ReadRequest request = TimesBefore(10);
  RemovalProgress progress;
  std::size_t removed = 0;
  auto complete = Step(&slab, request, 15, &progress, &removed);
  ASSERT_TRUE(complete.ok()) << complete.status().message();
  EXPECT_FALSE(*complete);
  EXPECT_EQ(removed, 15U);

  // Only a step that begins anew notices that the first block is damaged.
  const BlockId first = slab.Sealed().at(0).id;
  const std::string page = SealedPageKey(first.value(), 0);
  ASSERT_TRUE(slab.db().Put({}, slab.families().sealed, page, "damaged").ok());
  EXPECT_EQ(Step(&slab, request, 15, nullptr, &removed).status().code(), Code::kCorruption);
  complete = Step(&slab, request, 15, &progress, &removed);
  ASSERT_TRUE(complete.ok()) << complete.status().message();
  EXPECT_TRUE(*complete);
  EXPECT_EQ(removed, 20U);
}

TEST(ColumnarRemover, AStepEndsWhenItHasExaminedEnough) {
  ColumnarSlab slab;
  for (int block = 0; block < 3; ++block) {
    Rows rows;
    for (int time = 0; time < 20; ++time) rows.push_back({1, "t/1", time, 0, 0, "x"});
    slab.Write(rows);
    ASSERT_TRUE(slab.Seal(SealScope::kFresh));
  }
  const ReadRequest request = TimesBefore(1);
  RemovalProgress progress;
  std::size_t removed = 0;
  for (const std::size_t expected : {1U, 2U, 3U}) {
    rocksdb::WriteBatch batch;
    const auto remover = slab.layout().NewRemover(slab.Source(), &batch);
    std::size_t examined_left = 5;
    remover->GoOnFrom(&progress);
    remover->LimitExamined(&examined_left);
    const auto complete = remover->Remove(request, 100, &removed);
    ASSERT_TRUE(complete.ok() && remover->Finish().ok());
    ASSERT_TRUE(slab.db().Write({}, &batch).ok());
    EXPECT_EQ(*complete, expected == 3);
    EXPECT_EQ(removed, expected) << "one page a step";
    EXPECT_EQ(examined_left, 0U);
  }
  slab.Forget(request);
  EXPECT_EQ(ReadAll(slab, Request("#")), AsRead(slab.Expected(Request("#"))));
}

TEST(ColumnarRemover, APointIsRemovedHoweverMuchWasExamined) {
  ColumnarSlab slab;
  slab.Write({{1, "t/1", 1, 0, 0, "x"}});
  slab.Write({{1, "t/1", 1, 0, 0, "y"}});
  rocksdb::WriteBatch batch;
  const auto remover = slab.layout().NewRemover(slab.Source(), &batch);
  std::size_t examined_left = 0;
  remover->LimitExamined(&examined_left);
  std::size_t removed = 0;
  ASSERT_TRUE(
      remover->RemovePoint({StreamId{1}, "t/1", {}, 1, kNoSerial, 0, {}}, {}, Serial{2}, &removed)
          .ok());
  EXPECT_EQ(removed, 2U);
}

TEST(ColumnarRemover, StepsRemoveAllOfItWhateverIsSealedBetweenThem) {
  std::mt19937_64 random(1);
  ColumnarSlab slab;
  for (int commit = 0; commit < 40; ++commit) {
    Rows rows;
    for (int i = 0; i < 30; ++i) {
      rows.push_back({1, "t/" + std::to_string(random() % 5),
                      static_cast<std::int64_t>(random() % 100), 0, 0, std::to_string(random())});
    }
    slab.Write(rows);
    if (commit % 3 == 0) slab.Seal(SealScope::kFresh);
  }
  ReadRequest request = TimesBefore(50);
  request.serial_max = Serial{40};
  RemovalProgress progress;
  std::size_t removed = 0;
  for (int step = 0;; ++step) {
    const auto complete = Step(&slab, request, 17, &progress, &removed);
    ASSERT_TRUE(complete.ok()) << complete.status().message();
    if (*complete) break;
    if (step % 4 == 0) slab.Write({{1, "t/1", 7, 0, 0, "later"}});
    if (step % 3 == 0) slab.Seal(step % 2 == 0 ? SealScope::kFresh : SealScope::kClosed);
  }
  EXPECT_EQ(removed, slab.Forget(request));
  EXPECT_EQ(ReadAll(slab, Request("#")), AsRead(slab.Expected(Request("#"))));
}

}  // namespace
}  // namespace topicdb::columnar
