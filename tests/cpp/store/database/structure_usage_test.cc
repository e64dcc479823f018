#include "store/database/structure_usage.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "layout/columnar/format/block_format.h"
#include "store/database/database_parts.h"
#include "test_directory.h"

namespace topicdb {
namespace {

using namespace std::chrono_literals;

// A database of two shards and two classes, in which the second level of "a/…" and "kept/…" varies.
class StructureUsageTest : public ::testing::Test {
 protected:
  StructureUsageTest() {
    for (int i = 0; i < 20; ++i) {
      const std::string number = std::to_string(10 + i);
      database_.Append({{"a/" + number, i, "value"}, {"kept/" + number, i, "larger value"}});
    }
    database_.Append({{"b", 1, "x"}, {"b", 2, "x"}});
  }

  static OpenOptions Options() {
    OpenOptions options = WithShards(2);
    options.schema.structures = std::vector<std::string>{"a/+", "kept/+"};
    options.schema.retention = {{"kept/#", 5us}};
    return options;
  }
  Result<std::vector<StructureUsage>> Measure(const InterruptCheck& interrupted = {}) const {
    return UsageByStructure(database_.shards.Moments(), interrupted);
  }
  // Returns the usage by class and structure.
  std::map<std::string, StructureUsage> ByName() const {
    const auto measured = Measure();
    EXPECT_TRUE(measured.ok()) << measured.status().message();
    std::map<std::string, StructureUsage> by_name;
    for (const StructureUsage& usage : measured.value()) {
      const std::string name = usage.retention_class + " " + usage.structure;
      EXPECT_TRUE(by_name.emplace(name, usage).second) << name << " comes twice";
    }
    return by_name;
  }

  const TestDirectory directory_;
  DatabaseParts database_{directory_ / "db", Options()};
};

TEST_F(StructureUsageTest, SumsUpWhatTheShardsHave) {
  const auto found = ByName();
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found.at("# a/+").messages, 20U);
  EXPECT_EQ(found.at("# a/+").bytes, 20U * (4 + 5));
  EXPECT_EQ(found.at("kept/# kept/+").messages, 20U);
  EXPECT_EQ(found.at("kept/# kept/+").bytes, 20U * (7 + 12));
  EXPECT_EQ(found.at("# b").messages, 2U);
  EXPECT_EQ(found.at("# b").bytes, 4U);
}

TEST_F(StructureUsageTest, SumsUpGenerations) {
  ASSERT_TRUE(database_.upkeep.Rotate(std::nullopt, false).ok());
  database_.Append({{"a/10", 7, "again"}, {"c", 7, "new"}});
  const auto found = ByName();
  EXPECT_EQ(found.at("# a/+").messages, 21U);
  EXPECT_EQ(found.at("# c").messages, 1U);
}

TEST_F(StructureUsageTest, DividesTheFilesByTheBytesOfMessages) {
  const auto found = ByName();
  std::uint64_t files = 0;
  const auto slabs = database_.upkeep.Usage();
  for (const SlabUsage& slab : slabs.value()) files += slab.disk_bytes;
  std::uint64_t divided = 0;
  for (const auto& [name, usage] : found) divided += usage.disk_bytes;
  EXPECT_LE(divided, files);
  EXPECT_GT(divided, files / 2);
  EXPECT_GT(found.at("# a/+").disk_bytes, found.at("# b").disk_bytes);
}

TEST_F(StructureUsageTest, MayBeInterrupted) {
  EXPECT_EQ(Measure([] { return true; }).status().code(), Code::kInterrupted);
}

TEST_F(StructureUsageTest, DamageIsAnErrorThatNamesTheGeneration) {
  {
    const auto view = database_.shard(1)->view();
    const SlabFamilies families = view->current().front().slab->families();
    const std::string key = columnar::RecordKey(columnar::RecordKind::kFreshPage, BlockId{1});
    ASSERT_TRUE(view->db()->Put({}, families.main, key, "damaged").ok());
  }
  database_.Append({{TopicIn(1, 2), 1, "x"}});  // makes a view that has the damage
  const auto measured = Measure();
  EXPECT_EQ(measured.status().code(), Code::kCorruption);
  EXPECT_NE(measured.status().message().find("generation 1 of shard 1"), std::string::npos)
      << measured.status().message();
}

}  // namespace
}  // namespace topicdb
