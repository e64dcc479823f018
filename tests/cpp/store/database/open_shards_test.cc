#include "store/database/open_shards.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "store/database/database_parts.h"
#include "test_directory.h"

namespace topicdb {
namespace {

using Numbers = std::vector<std::uint32_t>;

Numbers OpenIn(const OpenShards& shards) {
  Numbers numbers;
  for (const auto& shard : shards.All()) numbers.push_back(shard->index());
  return numbers;
}

// A database of three shards.
class OpenShardsTest : public ::testing::Test {
 protected:
  OpenShardsTest() { const DatabaseParts made(path_, WithShards(3)); }

  static OpenOptions Only(const Numbers& numbers) {
    OpenOptions options;
    options.only_shards = numbers;
    return options;
  }
  static OpenOptions Reading() {
    OpenOptions options;
    options.read_only = true;
    return options;
  }

  const TestDirectory directory_;
  const std::string path_ = directory_ / "db";
};

TEST_F(OpenShardsTest, AllAreOpenedInTheOrderOfTheirNumbers) {
  const DatabaseParts database(path_);
  EXPECT_EQ(OpenIn(database.shards), (Numbers{0, 1, 2}));
  for (const std::uint32_t number : {0, 1, 2}) {
    EXPECT_EQ(database.shards.Find(number).value()->index(), number);
  }
  EXPECT_TRUE(database.shards.CheckMayWrite().ok());
  EXPECT_TRUE(database.shards.CheckMayWriteAll("trim").ok());
}

TEST_F(OpenShardsTest, OnlySomeMayBeOpenedAndAnotherHandleOpensTheRest) {
  const DatabaseParts some(path_, Only({2, 0}));
  EXPECT_EQ(OpenIn(some.shards), (Numbers{0, 2}));
  const Status absent = some.shards.Find(1).status();
  EXPECT_EQ(absent.code(), Code::kReadOnly);
  EXPECT_EQ(absent.message(), "shard 1 is not open here (only_shards=[0, 2])");
  EXPECT_TRUE(some.shards.CheckMayWrite().ok());
  const Status all = some.shards.CheckMayWriteAll("set_retention");
  EXPECT_EQ(all.code(), Code::kReadOnly);
  EXPECT_TRUE(all.message().starts_with("set_retention: ")) << all.message();
  const DatabaseParts rest(path_, Only({1}));
  EXPECT_EQ(OpenIn(rest.shards), (Numbers{1}));
}

TEST_F(OpenShardsTest, OneThatAnotherHandleWritesIsLockedAndThenNoneIsOpen) {
  const DatabaseParts writer(path_, Only({1}));
  const auto environment = DatabaseParts::MakeEnvironment(path_, {});
  OpenShards shards(environment, std::make_unique<LocalShards>(environment), std::nullopt);
  EXPECT_EQ(shards.Open().code(), Code::kLocked);
  EXPECT_TRUE(shards.All().empty());
  EXPECT_EQ(OpenIn(DatabaseParts(path_, Only({0, 2})).shards), (Numbers{0, 2}))
      << "the others are free again";
}

TEST_F(OpenShardsTest, ADamagedOneIsAnErrorThatNamesIt) {
  std::filesystem::remove_all(path_ + "/shards/0001");
  const auto environment = DatabaseParts::MakeEnvironment(path_, {});
  OpenShards shards(environment, std::make_unique<LocalShards>(environment), std::nullopt);
  const Status opened = shards.Open();
  EXPECT_EQ(opened.code(), Code::kCorruption);
  EXPECT_NE(opened.message().find("shard 1 of " + path_), std::string::npos) << opened.message();
  EXPECT_TRUE(shards.All().empty());
}

// Opens the shards of a database from which some are missing.
class SkippingTest : public OpenShardsTest {
 protected:
  static OpenOptions Skipping(bool read_only = false) {
    OpenOptions options;
    options.on_damage = OnDamage::kSkip;
    options.read_only = read_only;
    return options;
  }
  std::string ShardPath(std::uint32_t shard) const {
    return path_ + "/shards/000" + std::to_string(shard);
  }
  // Takes a shard away, or brings it back.
  void MoveAway(std::uint32_t shard) const {
    std::filesystem::rename(ShardPath(shard), directory_ / std::to_string(shard));
  }
  void BringBack(std::uint32_t shard) const {
    std::filesystem::rename(directory_ / std::to_string(shard), ShardPath(shard));
  }
};

std::vector<Filter> One(const std::string& filter) { return {Filter::Parse(filter).value()}; }

TEST_F(SkippingTest, ADamagedOneIsLeftOutAndWhatNeedsItIsRefused) {
  MoveAway(1);
  const DatabaseParts database(path_, Skipping());
  const OpenShards& shards = database.shards;
  EXPECT_EQ(OpenIn(shards), (Numbers{0, 2}));
  EXPECT_EQ(shards.Missing()->reasons().at(1).code(), Code::kCorruption);

  EXPECT_EQ(shards.Find(1).status().code(), Code::kMissingShard);
  EXPECT_EQ(shards.NotOpen(1).code(), Code::kMissingShard);
  EXPECT_EQ(shards.NotOpen(7).code(), Code::kNotFound);
  EXPECT_TRUE(shards.CheckMayWrite().ok());
  const Status all = shards.CheckMayWriteAll("snapshot");
  EXPECT_EQ(all.code(), Code::kMissingShard);
  EXPECT_TRUE(all.message().starts_with("snapshot: " + path_)) << all.message();

  for (const std::string& filter : {std::string("#"), TopicIn(1, 3), TopicIn(0, 3)}) {
    EXPECT_EQ(shards.CheckMayChange(One(filter)).code(), Code::kMissingShard) << filter;
    EXPECT_EQ(shards.LeftOut(One(filter), false).status().code(), Code::kMissingShard) << filter;
    EXPECT_EQ(shards.LeftOut(One(filter), true).value().size(), 1U) << filter;
  }
  EXPECT_TRUE(shards.CheckMayChange({}).ok()) << "nothing matches no filter";
  EXPECT_TRUE(shards.LeftOut({}, false).value().empty());
}

TEST_F(SkippingTest, WhatIsNotAskedForIsNotMissing) {
  MoveAway(1);
  OpenOptions options = Skipping();
  options.only_shards = Numbers{0, 2};
  const DatabaseParts database(path_, options);
  EXPECT_TRUE(database.shards.Missing()->empty());
  EXPECT_EQ(database.shards.Find(1).status().code(), Code::kReadOnly);
  EXPECT_TRUE(database.shards.LeftOut(One("#"), false).value().empty());
}

TEST_F(SkippingTest, OneThatAnotherHandleWritesIsNotDamaged) {
  const DatabaseParts writer(path_, Only({1}));
  const auto environment = DatabaseParts::MakeEnvironment(path_, {});
  OpenShards shards(environment, std::make_unique<LocalShards>(environment), std::nullopt,
                    OnDamage::kSkip);
  EXPECT_EQ(shards.Open().code(), Code::kLocked);
  EXPECT_TRUE(shards.All().empty());
}

TEST_F(SkippingTest, IfAllAreDamagedThereIsNothingToOpen) {
  for (const std::uint32_t shard : {0, 1, 2}) MoveAway(shard);
  const auto environment = DatabaseParts::MakeEnvironment(path_, {});
  OpenShards shards(environment, std::make_unique<LocalShards>(environment), std::nullopt,
                    OnDamage::kSkip);
  const Status opened = shards.Open();
  EXPECT_EQ(opened.code(), Code::kCorruption);
  EXPECT_NE(opened.message().find("shard 0 of " + path_), std::string::npos) << opened.message();
}

TEST_F(SkippingTest, AReaderTakesOneUpOnceItIsBack) {
  DatabaseParts(path_).Append({{TopicIn(1, 3), 5, "kept"}});
  MoveAway(1);
  DatabaseParts reader(path_, Skipping(/*read_only=*/true));
  EXPECT_EQ(OpenIn(reader.shards), (Numbers{0, 2}));
  const auto before = reader.shards.Missing();
  ASSERT_TRUE(reader.shards.Open().ok());
  EXPECT_EQ(reader.shards.Missing()->reasons().at(1).message(), before->reasons().at(1).message())
      << "its files have not changed";

  BringBack(1);
  ASSERT_TRUE(reader.shards.Open().ok());
  EXPECT_EQ(OpenIn(reader.shards), (Numbers{0, 1, 2}));
  EXPECT_TRUE(reader.shards.Missing()->empty());
  EXPECT_EQ(before->size(), 1U) << "who has the old list still has it";
}

TEST_F(SkippingTest, OneThatWasOpenIsNotLeftOutLater) {
  DatabaseParts reader(path_, Skipping(/*read_only=*/true));
  MoveAway(1);
  EXPECT_EQ(reader.shards.Open().code(), Code::kCorruption);
  EXPECT_EQ(OpenIn(reader.shards), (Numbers{0, 1, 2})) << "what was open stays open";
  EXPECT_TRUE(reader.shards.Missing()->empty());
  BringBack(1);
  EXPECT_TRUE(reader.shards.Open().ok());
}

TEST_F(OpenShardsTest, AReaderMayNotWrite) {
  const DatabaseParts reader(path_, Reading());
  EXPECT_EQ(reader.shards.CheckMayWrite().code(), Code::kReadOnly);
  EXPECT_EQ(reader.shards.CheckMayWriteAll("trim").code(), Code::kReadOnly);
}

TEST_F(OpenShardsTest, AReaderOpensAnewWhatHasChangedAndKeepsTheRest) {
  DatabaseParts writer(path_);
  DatabaseParts reader(path_, Reading());
  const auto before = reader.shards.All();
  ASSERT_TRUE(reader.shards.Open().ok());
  EXPECT_EQ(reader.shards.All(), before) << "nothing has changed";

  writer.Append({{TopicIn(1, 3), 5, "new"}});
  ASSERT_TRUE(reader.shards.Open().ok());
  const auto after = reader.shards.All();
  EXPECT_EQ(OpenIn(reader.shards), (Numbers{0, 1, 2}));
  EXPECT_EQ(after[0], before[0]);
  EXPECT_NE(after[1], before[1]);
  EXPECT_EQ(after[2], before[2]);
  EXPECT_EQ(after[1]->view()->serial(), Serial{1});
  EXPECT_EQ(before[1]->view()->serial(), kNoSerial) << "who has it still reads it";
}

TEST_F(OpenShardsTest, GivesAMomentOfEachShard) {
  DatabaseParts database(path_, Only({0, 2}));
  database.Append({{TopicIn(2, 3), 5, "x"}});
  for (const auto& moments : {database.shards.Moments(), database.shards.WholeMoments()}) {
    ASSERT_EQ(moments.size(), 2U);
    EXPECT_EQ(moments[0].shard->index(), 0U);
    EXPECT_EQ(moments[0].view->serial(), kNoSerial);
    EXPECT_EQ(moments[1].shard->index(), 2U);
    EXPECT_EQ(moments[1].view->serial(), Serial{1});
  }
}

TEST_F(OpenShardsTest, OnceTheyAreClosedNoneIsOpen) {
  const DatabaseParts database(path_);
  const auto environment = DatabaseParts::MakeEnvironment(path_, Reading());
  OpenShards shards(environment, std::make_unique<LocalShards>(environment), std::nullopt);
  ASSERT_TRUE(shards.Open().ok());
  EXPECT_EQ(shards.All().size(), 3U);
  EXPECT_TRUE(shards.Close().ok());
  EXPECT_TRUE(shards.All().empty());
  EXPECT_TRUE(shards.Moments().empty());
  EXPECT_EQ(shards.Find(0).status().code(), Code::kReadOnly);
}

// Commits a job of the first two of three shards, which only the first one has applied.
void HalfApply(const std::string& path) {
  JobIntent intent;
  intent.database = FindDatabase(path)->descriptor.id;
  intent.job = intent.sequence = "j";
  intent.files = {Stage(path, "j", {{TopicIn(0, 3), 1, "x"}, {TopicIn(1, 3), 1, "y"}})};
  intent.shards = {0, 1};
  ASSERT_TRUE(WriteIntent(path, &intent).ok());
  OpenOptions options;
  options.only_shards = {0};
  DatabaseParts some(path, options);
  ASSERT_TRUE(some.jobs.Apply().ok());
}

TEST_F(OpenShardsTest, AJobThatNotAllShardsHaveIsHiddenOnlyWhereReadersLook) {
  HalfApply(path_);
  DatabaseParts database(path_);
  EXPECT_EQ(database.shards.WholeMoments()[0].view->hidden().size(), 0U);
  EXPECT_EQ(database.shards.Moments()[0].view->hidden().size(), 1U);
  ASSERT_TRUE(database.jobs.Apply().ok());
  EXPECT_EQ(database.shards.Moments()[0].view->hidden().size(), 0U);
}

// What its generations have of it is another matter; see MasksOf.
TEST_F(OpenShardsTest, WhateverTheLayoutOfTheSchemaAJobIsHidden) {
  OpenOptions options = WithShards(3);
  options.schema.layout = LayoutKind::kSkipstream;
  const std::string path = directory_ / "states";
  {
    const DatabaseParts made(path, options);
  }
  HalfApply(path);
  const DatabaseParts database(path);
  EXPECT_EQ(database.shards.Moments()[0].view->hidden().size(), 1U);
}

}  // namespace
}  // namespace topicdb
