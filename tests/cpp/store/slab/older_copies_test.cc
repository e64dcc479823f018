// Tests that readers see one message of a topic and timestamp, whatever generation it was stored
// in, even while it is written again. Runs under ThreadSanitizer, too.
#include "store/slab/older_copies.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "test_directory.h"
#include "topicdb/database.h"

namespace topicdb {
namespace {

std::unique_ptr<Database> Open(const TestDirectory& directory, std::uint32_t timestamp_bytes = 8) {
  OpenOptions options;
  options.schema.layout = LayoutKind::kSkipstream;
  options.schema.timestamp_bytes = timestamp_bytes;
  options.schema.shards = 1;
  options.maintenance_interval = std::chrono::microseconds(0);
  auto database = Database::Open(directory / "db", options);
  EXPECT_TRUE(database.ok()) << database.status().message();
  return std::move(database).value();
}

using Found = std::multimap<std::pair<std::string, std::int64_t>, std::string>;

Found All(const Database& database) {
  Found found;
  auto scan = database.NewScan(Filter::Parse("#").value(), {});
  EXPECT_TRUE(scan.ok());
  while (true) {
    auto batch = scan.value()->Next({100, 1 << 20});
    EXPECT_TRUE(batch.ok()) << batch.status().message();
    if (!batch.ok() || *batch == nullptr) return found;
    for (std::size_t row = 0; row < (*batch)->size(); ++row) {
      const MessageView message = (*batch)->message(row);
      found.emplace(std::pair(std::string(message.topic), message.timestamp),
                    std::string(message.value));
    }
  }
}

TEST(OlderCopies, ReadersSeeEachKeyOnce) {
  const TestDirectory directory;
  const auto database = Open(directory);
  constexpr int kKeys = 20;
  constexpr int kRounds = 60;
  std::vector<std::string> topics;
  for (int i = 0; i < kKeys; ++i) topics.push_back("t/" + std::to_string(i));
  const auto write = [&](int round) {
    const std::string value = std::to_string(round);
    std::vector<MessageView> messages;
    for (const std::string& topic : topics) messages.push_back({topic, 5, value});
    ASSERT_TRUE(database->Append(messages).ok());
  };
  write(0);
  std::atomic<bool> done = false;
  std::thread rotating([&] {
    while (!done) {
      EXPECT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
      const std::vector<SlabInfo> slabs = database->upkeep().Slabs().value();
      for (const SlabInfo& slab : slabs) {
        if (!slab.read_only || slab.messages > 0) continue;
        EXPECT_TRUE(database->upkeep().DropSlab(0, slab.retention_class, slab.id.generation).ok());
      }
    }
  });
  std::thread reading([&] {
    while (!done) {
      const Found found = All(*database);
      EXPECT_EQ(found.size(), std::size_t{kKeys});
      std::set<std::string> values;  // readers see commits as a whole
      for (const auto& [key, value] : found) values.insert(value);
      EXPECT_EQ(values.size(), 1U);
    }
  });
  for (int round = 1; round <= kRounds; ++round) write(round);
  done = true;
  rotating.join();
  reading.join();
  const Found found = All(*database);
  ASSERT_EQ(found.size(), std::size_t{kKeys});
  for (const auto& [key, value] : found) EXPECT_EQ(value, std::to_string(kRounds));
}

TEST(OlderCopies, AMapOfTopicsHasOneValueOfEach) {
  const TestDirectory directory;
  const auto database = Open(directory, 0);
  for (int round = 0; round < 5; ++round) {
    const std::string value = std::to_string(round);
    ASSERT_TRUE(
        database->Append(std::vector<MessageView>{{"a/b", 0, value}, {"a", 0, value}}).ok());
    EXPECT_EQ(All(*database), (Found{{{"a", 0}, value}, {{"a/b", 0}, value}}));
    ASSERT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
  }
}

TEST(OlderCopies, AreFoundWhereAClassHadTheTopicBefore) {
  const TestDirectory directory;
  const auto database = Open(directory);
  ASSERT_TRUE(database->Append(std::vector<MessageView>{{"a/b", 7, "old"}}).ok());
  for (const std::string filter : {"a/+", "+/b", "a/#", "a/+"}) {
    ASSERT_TRUE(database->upkeep().SetRetention({{filter}}).ok());
    ASSERT_TRUE(database->Append(std::vector<MessageView>{{"a/b", 7, filter}}).ok());
    EXPECT_EQ(All(*database), (Found{{{"a/b", 7}, filter}}));
  }
}

}  // namespace
}  // namespace topicdb
