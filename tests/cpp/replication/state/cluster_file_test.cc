#include "replication/state/cluster_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "test_directory.h"

namespace topicdb::replication {
namespace {

TEST(ClusterFile, HasWhatWasStoredLast) {
  const TestDirectory directory;
  const std::string path = directory / "cluster";
  EXPECT_FALSE(LoadClusterSnapshot(path).value().has_value());
  ClusterSnapshot snapshot;
  for (const std::uint64_t index : {7U, 8U}) {
    snapshot.index = index;
    snapshot.state.revision = index + 1;
    ASSERT_TRUE(StoreClusterSnapshot(path, snapshot).ok());
    EXPECT_EQ(LoadClusterSnapshot(path).value(), snapshot);
  }
}

TEST(ClusterFile, OneThatIsDamagedIsNamed) {
  const TestDirectory directory;
  const std::string path = directory / "cluster";
  std::ofstream(path) << "no state";
  const Status status = LoadClusterSnapshot(path).status();
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find(path), std::string::npos) << status.message();
}

}  // namespace
}  // namespace topicdb::replication
