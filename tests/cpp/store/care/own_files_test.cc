#include "store/care/own_files.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "store/care/care_database.h"

namespace topicdb {
namespace {

namespace fs = std::filesystem;

class OwnFilesTest : public ::testing::Test {
 protected:
  // Makes a file with this path in the database, and the directories above it.
  void Make(const std::string& relative) const {
    const fs::path path = database_.path() + "/" + relative;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "x";
  }
  Result<OwnFiles> List() const { return ListOwnFiles(database_.path(), nullptr); }
  // Expects that nothing is listed, and that the error names this path.
  void ExpectForeign(const std::string& relative) const {
    const Status found = List().status();
    EXPECT_EQ(found.code(), Code::kCorruption) << relative;
    EXPECT_TRUE(found.message().starts_with(database_.path() + "/" + relative + " is not"))
        << found.message();
  }

  const CareDatabase database_;
};

TEST_F(OwnFilesTest, ListsAllThatADatabaseHas) {
  const OwnFiles found = List().value();
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(database_.path())) {
    const std::string relative = fs::relative(entry.path(), database_.path()).string();
    const auto listed =
        std::find_if(found.entries.begin(), found.entries.end(),
                     [&](const OwnFiles::Entry& one) { return one.path == relative; });
    ASSERT_NE(listed, found.entries.end()) << relative;
    EXPECT_EQ(listed->is_directory, entry.is_directory());
    if (!entry.is_regular_file()) continue;
    ++files;
    bytes += entry.file_size();
  }
  EXPECT_EQ(found.files, files);
  EXPECT_EQ(found.bytes, bytes);
  EXPECT_EQ(found.shards, (std::set<std::uint32_t>{0, 1}));
}

TEST_F(OwnFilesTest, ADirectoryComesBehindWhatIsInIt) {
  const OwnFiles found = List().value();
  for (const OwnFiles::Entry& entry : found.entries) {
    const std::string path = database_.path() + "/" + entry.path;
    EXPECT_EQ(fs::is_directory(path), entry.is_directory) << path;
    EXPECT_TRUE(fs::remove(path)) << path << " is not empty";
  }
  EXPECT_TRUE(fs::is_empty(database_.path()));
}

TEST_F(OwnFilesTest, KnowsWhatJobsRepairsAndCrashesLeave) {
  const std::vector<std::string> own = {
      "retention",
      "retention.tmp",
      "TOPICDB.tmp",
      "CREATING.tmp",
      "jobs/etl-7/00ab.staged",
      "jobs/etl-7/00ab.staged.tmp",
      "jobs/etl-7/00ab-0-1.pages",
      "jobs/etl-7/00ab-0-1.pages.ingest",
      "jobs/of.lock/00ab.staged",
      "jobs/00000001795689698123456-etl-7.intent",
      "jobs/00000001795689698123456-etl-7.intent.tmp",
      "jobs/00000001795689698123456-etl-7.shard-0003",
      "quarantine/20261122T104138.123456Z/0001/CURRENT",
      "quarantine/20261122T104138.123456Z/0001.building/000012.sst",
      "quarantine/20261122T104138.123456Z/0001.scratch/lost/000012.sst",
      "quarantine/20261122T104138.123456Z/0001.new/CURRENT",
      "shards/0001/topicdb-a1B2c3.tmp",
      "shards/1023.lock"};
  for (const std::string& relative : own) Make(relative);
  const auto found = List();
  ASSERT_TRUE(found.ok()) << found.status().message();
  for (const std::string& relative : own) {
    EXPECT_TRUE(std::any_of(found->entries.begin(), found->entries.end(),
                            [&](const OwnFiles::Entry& one) { return one.path == relative; }))
        << relative;
  }
  EXPECT_TRUE(found->shards.contains(1023));
}

// A process that was killed while it had a replay log open leaves the socket of the log.
TEST_F(OwnFilesTest, KnowsTheSocketsOfReplayLogs) {
  fs::create_directories(database_.path() + "/control");
  const auto bind_at = [&](const std::string& name) {
    const fs::path before = fs::current_path();
    fs::current_path(database_.path() + "/control");  // an address of a socket is short
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(static_cast<char*>(address.sun_path), sizeof(address.sun_path) - 1);
    const int bound = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(bind(bound, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    close(bound);
    fs::current_path(before);
  };
  bind_at("0123456789abcdef.sock");
  std::vector<std::string> paths;
  const OwnFiles found = List().value();
  for (const OwnFiles::Entry& entry : found.entries) paths.push_back(entry.path);
  EXPECT_TRUE(std::count(paths.begin(), paths.end(), "control/0123456789abcdef.sock"));
  EXPECT_TRUE(std::count(paths.begin(), paths.end(), "control"));
  bind_at("other.sock");
  ExpectForeign("control/other.sock");
  fs::remove(database_.path() + "/control/other.sock");
  Make("control/0123456789abcdee.sock");  // a file
  ExpectForeign("control/0123456789abcdee.sock");
}

TEST_F(OwnFilesTest, NamesWhatIsForeign) {
  for (const std::string relative :
       {"notes.txt", "shards/notes.txt", "shards/0000/notes.txt", "shards/12/CURRENT",
        "jobs/notes.txt", "jobs/etl/notes.txt", "jobs/etl/more/00ab.staged", "quarantine/notes.txt",
        "quarantine/yesterday/0000/CURRENT", "quarantine/20261122T104138.123456Z/notes.txt",
        "mine/notes.txt", ".hidden", "shards/0000/mine/CURRENT"}) {
    Make(relative);
    const fs::path first = fs::path(relative);
    // Of a foreign directory, the directory is named.
    std::string named;
    for (const auto& part : first) {
      named += (named.empty() ? "" : "/") + part.string();
      if (List().status().message().starts_with(database_.path() + "/" + named + " ")) break;
    }
    ExpectForeign(named);
    fs::remove_all(database_.path() + "/" + named);
  }
  EXPECT_TRUE(List().ok());
}

TEST_F(OwnFilesTest, FollowsNoLinkAndTakesNoneForItsOwn) {
  const std::string elsewhere = database_ / "elsewhere";
  fs::rename(database_.shard_path(1), elsewhere);
  fs::create_directory_symlink(elsewhere, database_.shard_path(1));
  ExpectForeign("shards/0001");
  fs::remove(database_.shard_path(1));
  fs::rename(elsewhere, database_.shard_path(1));
  fs::create_symlink(database_.path() + "/TOPICDB", database_.path() + "/retention");
  ExpectForeign("retention");
}

TEST_F(OwnFilesTest, MayBeInterrupted) {
  EXPECT_EQ(ListOwnFiles(database_.path(), [] { return true; }).status().code(),
            Code::kInterrupted);
}

TEST_F(OwnFilesTest, NeedsADirectory) {
  EXPECT_EQ(ListOwnFiles(database_ / "none", nullptr).status().code(), Code::kStorage);
}

}  // namespace
}  // namespace topicdb
