#include "topicdb/database/upkeep.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "test_directory.h"
#include "topicdb/database.h"

namespace topicdb {
namespace {

// A class is in the rules before any shard has a generation of it, and shards get theirs one after
// the other.
TEST(Upkeep, ThreadsLookAndDropWhileClassesAreAdded) {
  const TestDirectory directory;
  OpenOptions options;
  options.schema.shards = 4;
  const auto database = Database::Open(directory / "db", options).value();
  Upkeep& upkeep = database->upkeep();
  std::vector<RetentionClass> classes{{"class/0/#"}};
  ASSERT_TRUE(upkeep.SetRetention(classes).ok());

  std::atomic<bool> stop{false};
  const auto until_stopped = [&](auto call) {
    return std::thread([&stop, call] {
      while (!stop) call();
    });
  };
  std::vector<std::thread> others;
  others.push_back(until_stopped([&] {
    EXPECT_TRUE(upkeep.Slabs().ok());
    EXPECT_TRUE(upkeep.Usage().ok());
    EXPECT_TRUE(upkeep.UsageByStructure().ok());
  }));
  others.push_back(
      until_stopped([&] { EXPECT_TRUE(database->Slices({Filter::Everything()}, {}).ok()); }));
  others.push_back(until_stopped([&] {
    const std::string newest = upkeep.Retention()->back().filter;
    // The last shard is the last to adopt a class.
    EXPECT_EQ(upkeep.DropSlab(3, newest, Generation{1'000'000}).code(), Code::kNotFound);
  }));

  for (int i = 1; i < 30; ++i) {
    classes.push_back({"class/" + std::to_string(i) + "/#"});
    EXPECT_TRUE(upkeep.SetRetention(classes).ok());
  }
  stop = true;
  for (std::thread& thread : others) thread.join();
  EXPECT_EQ(upkeep.Retention()->size(), classes.size());
}

}  // namespace
}  // namespace topicdb
