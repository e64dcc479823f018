#include "rocks/local_log.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <filesystem>
#include <string>
#include <vector>

#include "rocks/log/commit_link.h"
#include "rocks/log/log_reader.h"
#include "rocks/logged_database.h"

namespace topicdb::rocks {
namespace {

// A LoggedDatabase with what these tests need.
class Written : public LoggedDatabase {
 public:
  Status Put(const ShardEntry& entry, const std::string& key, bool in_other = false) {
    rocksdb::WriteBatch batch;
    EXPECT_TRUE(batch.Put(main(), key, "value").ok());
    if (in_other) {
      EXPECT_TRUE(batch.Put(other(), key, "value").ok());
    }
    return log().Write(entry, &batch);
  }

  bool Has(const std::string& key) {
    std::string value;
    return db().Get({}, main(), key, &value).ok();
  }

  // Returns the links in the logs. Those of one log are in the order of its commits.
  std::vector<CommitLink> Links() {
    std::vector<CommitLink> links;
    for (const auto& file : std::filesystem::directory_iterator(path())) {
      if (file.path().extension() != ".log") continue;
      LogReader reader(file.path());
      while (reader.Next() == LogStep::kRecord) {
        if (const auto link = LinkOf(reader.record())) links.push_back(*link);
      }
    }
    return links;
  }
};

TEST(LocalLog, NumbersWhatIsInTheLog) {
  Written written;
  ASSERT_TRUE(written.Put({}, "a").ok());
  ASSERT_TRUE(written.Put({EntryKind::kCommit, EntryDurability::kMemory}, "b").ok());
  ASSERT_TRUE(written.Put({EntryKind::kNumbers, EntryDurability::kDisk}, "c").ok());
  const std::vector<CommitLink> links = written.Links();
  ASSERT_EQ(links.size(), 2U);
  EXPECT_EQ(links[0].number, 0U);
  EXPECT_EQ(links[1].number, 1U);
  EXPECT_EQ(links[0].session, links[1].session);
}

TEST(LocalLog, KeepsOutOfTheLogWhatIsForMemory) {
  Written written;
  ASSERT_TRUE(written.Put({EntryKind::kCommit, EntryDurability::kMemory}, "memory").ok());
  ASSERT_TRUE(written.Put({EntryKind::kCommit, EntryDurability::kLog}, "log").ok());
  EXPECT_TRUE(written.Has("memory"));
  EXPECT_GT(written.log().bytes(), 2 * std::string("memory").size());
  written.CloseDatabase();
  written.OpenDatabase();
  EXPECT_FALSE(written.Has("memory"));
  EXPECT_TRUE(written.Has("log"));
}

TEST(LocalLog, LeavesOutDataForAFamilyThatIsGone) {
  Written written;
  ASSERT_TRUE(written.db().DropColumnFamily(written.other()).ok());
  ASSERT_TRUE(written.Put({EntryKind::kData}, "data", /*in_other=*/true).ok());
  EXPECT_TRUE(written.Has("data"));
  // Readers would see that a part of a commit is missing, so this write fails.
  const Status status = written.Put({EntryKind::kCommit}, "commit", /*in_other=*/true);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("writing shard 0 of a.db"), std::string::npos);
}

TEST(LocalLog, SyncsAndMayWrite) {
  Written written;
  EXPECT_TRUE(written.log().MayWrite().ok());
  ASSERT_TRUE(written.Put({}, "a").ok());
  EXPECT_TRUE(written.log().Sync().ok());
  EXPECT_TRUE(written.log().CheckInPlace().ok()) << "its file system notes no logs";
}

}  // namespace
}  // namespace topicdb::rocks
