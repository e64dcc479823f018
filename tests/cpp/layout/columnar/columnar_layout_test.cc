#include "layout/columnar/columnar_layout.h"

#include <gtest/gtest.h>

#include "layout/columnar/columnar_slab.h"

namespace topicdb::columnar {
namespace {

// Makes a slab whose last commit was deleted and then taken by a crash.
void LoseDeleted(ColumnarSlab* slab) {
  slab->Write({{1, "t/1", 1, 0, 0, "kept"}});
  slab->Write({{1, "t/2", 2, 0, 0, "lost"}});
  EXPECT_EQ(slab->Remove(Request("t/2")), 1U);
  slab->LoseLastCommit();
  EXPECT_EQ(slab->CountOf(RecordKind::kDeletedRows), 1U);
  slab->Reopen();
}

void ExpectAllThere(const ColumnarSlab& slab) {
  const ReadRequest request = Request("#");
  EXPECT_EQ(ReadAll(slab, request), AsRead(slab.Expected(request)));
}

TEST(ColumnarLayout, AFreshBlockGetsNoNumberThatDeletedRowsName) {
  ColumnarSlab slab;
  LoseDeleted(&slab);
  slab.Write({{1, "t/1", 3, 0, 0, "new"}});
  ExpectAllThere(slab);
  EXPECT_EQ(slab.rows().size(), 2U);
}

TEST(ColumnarLayout, ASealedBlockGetsNoNumberThatDeletedRowsName) {
  ColumnarSlab slab;
  LoseDeleted(&slab);
  EXPECT_TRUE(slab.Seal(SealScope::kFresh));
  ExpectAllThere(slab);
  EXPECT_EQ(slab.rows().size(), 1U);
}

}  // namespace
}  // namespace topicdb::columnar
