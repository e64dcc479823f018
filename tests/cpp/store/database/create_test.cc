#include "store/database/create.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "fsyncs.h"
#include "store/database/database_parts.h"
#include "test_directory.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

DatabaseId IdOf(const Result<FoundDatabase>& found) {
  EXPECT_TRUE(found.ok()) << found.status().message();
  return found.ok() ? found->descriptor.id : DatabaseId{};
}

TEST(Create, ADatabaseIsMadeOnceAndThenFound) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  const auto made = FindOrCreateDatabase(path, WithShards(3));
  const DatabaseId id = IdOf(made);
  EXPECT_NE(id, DatabaseId{});
  EXPECT_EQ(made->descriptor.schema.shards, 3U);
  for (const char* name : {"TOPICDB", "shards/0000/CURRENT", "shards/0002/CURRENT"}) {
    EXPECT_TRUE(fs::exists(path + "/" + name)) << name;
  }
  EXPECT_FALSE(fs::exists(path + "/CREATING"));
  EXPECT_EQ(IdOf(FindOrCreateDatabase(path, {})), id);
  EXPECT_EQ(DatabaseParts(path).shards.All().size(), 3U);
}

TEST(Create, AnEmptyDirectoryIsAsGoodAsNone) {
  const TestDirectory directory;
  EXPECT_TRUE(FindOrCreateDatabase(directory / "", {}).ok());
}

TEST(Create, AReaderMakesNone) {
  const TestDirectory directory;
  OpenOptions options;
  options.read_only = true;
  EXPECT_EQ(FindOrCreateDatabase(directory / "db", options).status().code(), Code::kNotFound);
  EXPECT_FALSE(fs::exists(directory / "db"));
}

TEST(Create, ADirectoryWithAnythingElseStaysAsItIs) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  fs::create_directory(path);
  std::ofstream(path + "/notes.txt") << "mine";
  const Status refused = FindOrCreateDatabase(path, {}).status();
  EXPECT_EQ(refused.code(), Code::kCorruption);
  EXPECT_NE(refused.message().find("notes.txt"), std::string::npos) << refused.message();
  EXPECT_EQ(std::distance(fs::directory_iterator(path), {}), 1);
  EXPECT_EQ(fs::file_size(path + "/notes.txt"), 4U);
}

TEST(Create, WithASchemaThatNoDatabaseCanHaveNothingIsMade) {
  const TestDirectory directory;
  OpenOptions options = WithShards(0);
  EXPECT_EQ(FindOrCreateDatabase(directory / "db", options).status().code(), Code::kSchema);
  options = WithShards(1);
  options.schema.retention = {{{"a/#"}, {"a/#"}}};
  EXPECT_EQ(FindOrCreateDatabase(directory / "db", options).status().code(), Code::kSchema);
  options.schema.layout = LayoutKind::kSkipstream;
  options.schema.timestamp_bytes = 0;
  options.schema.retention = {{"a/#", 0us, 0, 0us, 0, LayoutKind::kColumnar}};
  EXPECT_EQ(FindOrCreateDatabase(directory / "db", options).status().code(), Code::kSchema);
  EXPECT_FALSE(fs::exists(directory / "db"));
}

TEST(Create, ADatabaseMustAgreeWithWhatIsAskedFor) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  ASSERT_TRUE(FindOrCreateDatabase(path, WithShards(2)).ok());
  const Status refused = FindOrCreateDatabase(path, WithShards(3)).status();
  EXPECT_EQ(refused.code(), Code::kSchema);
  EXPECT_NE(refused.message().find("shards"), std::string::npos) << refused.message();
  EXPECT_TRUE(FindOrCreateDatabase(path, WithShards(2)).ok());
}

TEST(Create, LimitsThatTheDescriptorCannotHoldAreStoredBesideIt) {
  const TestDirectory directory;
  OpenOptions options;
  options.schema.retention = {{"a/#", 5us}};
  ASSERT_TRUE(FindOrCreateDatabase(directory / "ages", options).ok());
  EXPECT_FALSE(fs::exists(directory / "ages/retention"));
  const std::vector<RetentionClass> limits[] = {{{"a/#", 5us, 1'000}},
                                                {{"a/#", 5us, 0, 2us}},
                                                {{"a/#", 5us, 0, 0us, 3}},
                                                {{"a/#", 5us, 0, 0us, 0, LayoutKind::kSkipstream}}};
  for (const std::vector<RetentionClass>& classes : limits) {
    const std::string path = directory / "limits";
    options.schema.retention = classes;
    ASSERT_TRUE(FindOrCreateDatabase(path, options).ok());
    EXPECT_TRUE(fs::exists(path + "/retention"));
    EXPECT_EQ(FindDatabase(path)->rules.classes().front(), classes.front());
    fs::remove_all(path);
  }
}

TEST(Create, OneThatWasCutShortIsStartedAnew) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  const DatabaseId first = IdOf(FindOrCreateDatabase(path, WithShards(3)));
  fs::remove(path + "/TOPICDB");
  EXPECT_EQ(FindOrCreateDatabase(path, {}).status().code(), Code::kCorruption)
      << "nothing says that it was never a database";
  std::ofstream(path + "/CREATING").close();
  EXPECT_NE(IdOf(FindOrCreateDatabase(path, WithShards(1))), first);
  EXPECT_FALSE(fs::exists(path + "/CREATING"));
  EXPECT_FALSE(fs::exists(path + "/shards/0002")) << "what the first try has left";
  EXPECT_EQ(DatabaseParts(path).shards.All().size(), 1U);
}

TEST(Create, WhatAnotherMakesMeanwhileIsFound) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  const std::string parent = fs::canonical(directory / "").string();
  std::atomic<bool> called{false};
  DatabaseId made{};
  const DirectorySyncHook hook([&](const std::string& synced) {
    // The directory is there. It is seen to be empty, or not, after this call.
    if (synced == parent && !called.exchange(true)) made = IdOf(FindOrCreateDatabase(path, {}));
  });
  EXPECT_EQ(IdOf(FindOrCreateDatabase(path, {})), made);
  EXPECT_TRUE(called);
}

TEST(Create, OfManyAtOnceOneMakesIt) {
  const TestDirectory directory;
  const std::string path = directory / "db";
  std::vector<DatabaseId> ids(6);
  std::vector<std::thread> threads;
  for (DatabaseId& id : ids) {
    threads.emplace_back([&] { id = IdOf(FindOrCreateDatabase(path, {})); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(ids[0], DatabaseId{});
  for (const DatabaseId& id : ids) EXPECT_EQ(id, ids[0]);
}

}  // namespace
}  // namespace topicdb
