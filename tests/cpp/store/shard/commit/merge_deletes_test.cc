#include "store/shard/commit/merge_deletes.h"

#include <gtest/gtest.h>

namespace topicdb {
namespace {

TEST(MergeDeletes, GathersWhatIsDeletedDuringAMerge) {
  TransactionOps ops;
  ops.deletes = {{Filter::Parse("a/#").value(), {}}, {Filter::Parse("b").value(), {1, 2}}};
  ops.generation = Generation{3};
  ShardCommit commit;
  commit.serial = Serial{10};
  commit.written = true;
  commit.transaction = &ops;
  MergeDeletes deletes;
  deletes.Add(commit);
  EXPECT_FALSE(deletes.is_on());
  deletes.Begin();
  EXPECT_TRUE(deletes.records().empty()) << "what was deleted before is in what is merged";
  deletes.Add(commit);
  ASSERT_EQ(deletes.records().size(), 2U);
  EXPECT_EQ(deletes.records()[0].keys.filter.text(), "a/#");
  EXPECT_EQ(deletes.records()[1].keys.range, (TimeRange{1, 2}));
  EXPECT_EQ(deletes.records()[1].serial, Serial{9})
      << "the messages of its own commit come after it";
  EXPECT_EQ(deletes.records()[1].generation, Generation{3});
  deletes.Add(std::vector<meta::DeleteRecord>{deletes.records()[0]});
  EXPECT_EQ(deletes.records().size(), 3U);
  deletes.End();
  EXPECT_FALSE(deletes.is_on());
  deletes.Begin();
  EXPECT_TRUE(deletes.records().empty());
}

TEST(MergeDeletes, CommitsThatWereNotWrittenDeleteNothing) {
  TransactionOps ops;
  ops.deletes = {{Filter::Parse("#").value(), {}}};
  ShardCommit refused;
  refused.serial = Serial{10};
  refused.written = false;
  refused.transaction = &ops;
  MergeDeletes deletes;
  deletes.Begin();
  deletes.Add(refused);
  deletes.Add(ShardCommit());
  EXPECT_TRUE(deletes.records().empty());
}

}  // namespace
}  // namespace topicdb
