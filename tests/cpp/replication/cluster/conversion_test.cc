// Tests of local databases that become those of a cluster.
#include "replication/cluster/conversion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/file/files.h"
#include "replication/cluster/sites.h"
#include "replication/state/cluster_state.h"
#include "store/care/shard_attachment.h"
#include "store/catalog/found_database.h"
#include "topicdb/database/site.h"

namespace topicdb::replication {
namespace {

using Values = std::vector<std::string>;

class ConversionTest : public SiteTest {
 protected:
  ConversionTest() { sites_ = {{"a", ""}}; }
  std::string path() const { return directory_ / "a"; }
  static Values AllOf(Database* database) {
    Values values = TakeAll(*database, "#");
    std::sort(values.begin(), values.end());
    return values;
  }
  // Makes a local database in the directory of site a. Returns its messages.
  Values MakeLocal() {
    OpenOptions options;
    options.schema.shards = 2;
    options.schema.retention = {{"short/#", std::chrono::hours(1)}};
    const auto database = Database::Open(path(), options).value();
    for (int i = 0; i < 30; ++i) {
      const std::string topic = (i % 3 == 0 ? "short/" : "t/") + std::to_string(i);
      const std::string value = std::to_string(i);
      const std::vector<MessageView> messages{{topic, 1, value}};
      EXPECT_TRUE(database->Append(messages).ok());
      if (i != 20) continue;
      EXPECT_TRUE(database->upkeep().Rotate(std::nullopt).ok());
    }
    EXPECT_TRUE(database->Delete(Filter::Parse("t/1").value(), {}).ok());
    Values values = AllOf(database.get());
    EXPECT_EQ(values.size(), 29U);
    EXPECT_TRUE(database->Close().ok());
    return values;
  }
  SiteOptions ConvertingOptions() const {
    SiteOptions options = OptionsOf("a");
    options.converts = true;
    return options;
  }
  void Convert() {
    auto started = Site::Start(ConvertingOptions());
    ASSERT_TRUE(started.ok()) << started.status().message();
    here_["a"].site = std::move(*started);
    OpenAt({"a"});
  }
};

TEST_F(ConversionTest, WhatIsStoredIsThereAndSitesJoin) {
  const Values values = MakeLocal();
  Convert();
  EXPECT_EQ(AllOf(&At("a")), values);
  EXPECT_EQ(At("a").upkeep().Retention().value().size(), 1U);
  JoinAs("b");
  JoinAs("c");
  EXPECT_EQ(AllOf(&At("c")), values);
  const Receipt receipt = AppendAt("b", "new");
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_EQ(ReadAt(name, receipt).size(), values.size() + 1) << name;
  }
  for (const char* name : {"b", "c"}) {
    AwaitState("a", [&](const ClusterState& state) {
      return state.FindSite(name)->state == SiteState::kMember;
    });
  }
  Stop("a");
  EXPECT_EQ(ReadAt("c", AppendAt("b", "more")).size(), values.size() + 2);
}

TEST_F(ConversionTest, ItIsASiteFromThenOn) {
  const Values values = MakeLocal();
  Convert();
  const ClusterId id = here_.at("a").site->cluster_id();
  Stop("a");
  EXPECT_EQ(Database::Open(path(), OpenOptions()).status().code(), Code::kReadOnly);
  Convert();  // again with the option, which has no effect
  EXPECT_EQ(here_.at("a").site->cluster_id(), id);
  EXPECT_EQ(ReadAt("a", AppendAt("a", "new")).size(), values.size() + 1);
  Stop("a");
  Start("a");
  OpenAt({"a"});
  EXPECT_EQ(ReadAt("a", AppendAt("a", "more")).size(), values.size() + 2);
}

TEST_F(ConversionTest, OneThatWasInterruptedGoesOn) {
  const Values values = MakeLocal();
  ASSERT_TRUE(MakeDirectory(path() + "/site").ok());
  ASSERT_TRUE(WriteFileAtomically(path() + "/site/converting", "").ok());
  const auto environment =
      MakeShardEnvironment(path(), FindDatabase(path()).value(), OpenOptions());
  ASSERT_TRUE(AttachShard(*environment, 1, {1, 1, 0, 0}).ok());
  const Status plain = Site::Start(OptionsOf("a")).status();
  EXPECT_EQ(plain.code(), Code::kInvalidArgument);
  EXPECT_NE(plain.message().find("convert it once more"), std::string::npos) << plain.message();
  Convert();
  EXPECT_EQ(AllOf(&At("a")), values);
  EXPECT_FALSE(IsBeingConverted(path()));
}

TEST_F(ConversionTest, ADatabaseInUseIsNotConverted) {
  MakeLocal();
  const auto database = Database::Open(path(), OpenOptions()).value();
  EXPECT_EQ(Site::Start(ConvertingOptions()).status().code(), Code::kLocked);
  EXPECT_FALSE(Exists(path() + "/site"));
  const std::vector<MessageView> messages{{"t", 1, "still local"}};
  EXPECT_TRUE(database->Append(messages).ok());
}

TEST_F(ConversionTest, WhatCannotBeConvertedIsRefused) {
  const Status nothing = Site::Start(ConvertingOptions()).status();
  EXPECT_EQ(nothing.code(), Code::kNotFound) << nothing.message();
  EXPECT_FALSE(Exists(path() + "/TOPICDB"));
  MakeLocal();
  SiteOptions options = ConvertingOptions();
  options.sites["b"] = "";
  const Status two = Site::Start(options).status();
  EXPECT_EQ(two.code(), Code::kInvalidArgument);
  EXPECT_NE(two.message().find("with one site"), std::string::npos) << two.message();
  EXPECT_FALSE(Exists(path() + "/site"));
  EXPECT_TRUE(Database::Open(path(), OpenOptions()).ok());
}

TEST_F(ConversionTest, AnotherSchemaIsRefused) {
  const Values values = MakeLocal();
  auto site = Site::Start(ConvertingOptions()).value();
  open_.schema.shards = 7;
  EXPECT_EQ(site->OpenDatabase(open_, kLong).status().code(), Code::kSchema);
  open_ = OpenOptions();
  const auto database = site->OpenDatabase(open_, kLong);
  ASSERT_TRUE(database.ok()) << database.status().message();
  EXPECT_EQ(AllOf(database->get()), values);
}

}  // namespace
}  // namespace topicdb::replication
