// Tests of sites in one process. tests/cluster has those of processes, which are killed.
#include "topicdb/database/site.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "replication/cluster/sites.h"
#include "replication/replica/site_shards.h"
#include "replication/state/cluster_state.h"

namespace topicdb::replication {
namespace {

TEST_F(SiteTest, SitesFoundOneDatabase) {
  StartAll();
  const ClusterState state = here_.at("a").site->state();
  EXPECT_EQ(state.sites.size(), 3U);
  EXPECT_EQ(here_.at("b").site->state().id, state.id);
  EXPECT_EQ(here_.at("c").site->state().descriptor, state.descriptor);
  Append("1");
  const Receipt receipt = Append("2");
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_EQ(ReadAt(name, receipt), (std::vector<std::string>{"1", "2"})) << name;
  }
}

TEST_F(SiteTest, WhatWasFoundedIsThereAfterAStart) {
  StartAll();
  const Receipt receipt = Append("1");
  const ClusterId id = here_.at("a").site->state().id;
  for (auto& [name, here] : here_) here.database.reset();
  here_.clear();
  StartAll();
  EXPECT_EQ(here_.at("b").site->state().id, id);
  EXPECT_EQ(ReadAt("c", receipt), (std::vector<std::string>{"1"}));
}

TEST_F(SiteTest, TwoOfThreeSitesGoOn) {
  StartAll();
  Append("1");
  here_.at("a").database.reset();
  here_.at("a").site.reset();
  const Receipt receipt = Append("2");
  EXPECT_EQ(ReadAt("b", receipt), (std::vector<std::string>{"1", "2"}));
  Start("a");
  OpenAt({"a"});
  EXPECT_EQ(ReadAt("a", receipt), (std::vector<std::string>{"1", "2"}));
}

TEST_F(SiteTest, ASiteAloneHasACluster) {
  sites_ = {{"a", ""}};
  Start("a");
  OpenAt({"a"});
  EXPECT_EQ(ReadAt("a", Append("1")), (std::vector<std::string>{"1"}));
}

TEST_F(SiteTest, ClientsFindASite) {
  sites_ = {{"a", ""}};
  SiteOptions options = OptionsOf("a");
  for (const std::string url : {"grpc://a:1", "grpc://a:2"}) {
    options.clients = url;
    const auto site = Site::Start(options).value();
    const auto database = site->OpenDatabase(open_, kLong).value();
    EXPECT_EQ(site->state().FindReplica(1)->clients, url);
  }
}

TEST_F(SiteTest, AllSitesSayWhereClientsFindThem) {
  announces_ = true;
  StartAll();
  for (const char* name : {"a", "b", "c"}) {
    const Receipt receipt = AppendAt(name, name);  // so that all have come to what came before
    for (const auto& [other, here] : here_) EXPECT_FALSE(ReadAt(other, receipt).empty());
  }
  for (const auto& [name, here] : here_) {
    for (const ClusterSite& site : here.site->Sites()) {
      while (here.site->state().FindReplica(site.replica)->clients != "grpc://" + site.name) {
        std::this_thread::yield();
      }
    }
  }
}

TEST_F(SiteTest, ASiteTellsOfItsReplicas) {
  open_.schema.shards = 3;
  StartAll();
  const Receipt receipt = AppendAt("a", "1");
  for (const auto& [name, here] : here_) {
    ReadAt(name, receipt);
    const std::vector<ReplicaReport> reports = here.site->Replicas();
    ASSERT_EQ(reports.size(), 3U);
    for (std::uint32_t shard = 0; shard < 3; ++shard) {
      const ReplicaReport& report = reports[shard];
      EXPECT_EQ(report.shard, shard);
      EXPECT_TRUE(report.failure.ok());
      EXPECT_LE(report.applied, report.committed);
      EXPECT_LE(report.committed, report.last);
    }
  }
  here_.at("a").database.reset();
  EXPECT_TRUE(here_.at("a").site->Replicas().empty());
}

TEST_F(SiteTest, ADirectoryWithAnotherDatabaseIsRefused) {
  StartAll();
  Append("1");
  here_.at("c").database.reset();
  here_.at("c").site.reset();
  EXPECT_TRUE(Database::Open(directory_ / "other", {}).ok());
  std::filesystem::copy_file(directory_ / "other/TOPICDB", directory_ / "c/TOPICDB",
                             std::filesystem::copy_options::overwrite_existing);
  Start("c");
  const Status opened = here_.at("c").site->OpenDatabase(open_, kLong).status();
  EXPECT_EQ(opened.code(), Code::kInvalidArgument) << opened.message();
}

TEST_F(SiteTest, WithoutAMajorityNothingIsFounded) {
  Start("a");
  const auto opened = here_.at("a").site->OpenDatabase(open_, milliseconds(100));
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::kNotLeader);
  EXPECT_NE(opened.status().message().find("a majority of the sites must be up"), std::string::npos)
      << opened.status().message();
  EXPECT_FALSE(std::filesystem::exists(directory_ / "a/TOPICDB"));
}

// Sites that were given others than these never come together with them.
TEST_F(SiteTest, ASiteOfAnotherClusterTakesNoPart) {
  StartAll();
  const ClusterId id = here_.at("a").site->state().id;
  SiteOptions options = OptionsOf("d");
  options.sites = {{"a", ""}, {"d", ""}};
  const auto stranger = Site::Start(options).value();
  const std::string address = "127.0.0.1:" + std::to_string(here_.at("a").site->port());
  EXPECT_TRUE(stranger->SetAddress("a", address).ok());
  EXPECT_FALSE(stranger->OpenDatabase(open_, milliseconds(1'500)).ok());
  EXPECT_EQ(here_.at("a").site->state().id, id);
  EXPECT_EQ(ReadAt("b", Append("1")), (std::vector<std::string>{"1"}));
}

TEST_F(SiteTest, AnotherSchemaIsRefused) {
  StartAll();
  here_.at("c").database.reset();
  here_.at("c").site.reset();
  Start("c");
  OpenOptions other;
  other.schema.shards = 7;
  const auto opened = here_.at("c").site->OpenDatabase(other, kLong);
  EXPECT_EQ(opened.status().code(), Code::kSchema);
  OpenAt({"c"});
  EXPECT_EQ(ReadAt("c", Append("1")), (std::vector<std::string>{"1"}));
}

TEST_F(SiteTest, OptionsThatCannotBeAreRefused) {
  const auto refused = [](const SiteOptions& options, const std::string& what) {
    const auto started = Site::Start(options);
    ASSERT_FALSE(started.ok());
    EXPECT_EQ(started.status().code(), Code::kInvalidArgument);
    EXPECT_NE(started.status().message().find(what), std::string::npos)
        << started.status().message();
    EXPECT_FALSE(std::filesystem::exists(options.path + "/site/identity"));
  };
  SiteOptions options = OptionsOf("d");
  refused(options, "site 'd' is not among the sites");
  options = OptionsOf("a");
  options.sites["no name"] = "";
  refused(options, "site 'no name'");
  options = OptionsOf("a");
  options.sites["a"] = options.sites["b"] = "10.0.0.1:8825";
  refused(options, "have the address 10.0.0.1:8825");
  options = OptionsOf("a");
  EXPECT_TRUE(Database::Open(options.path, {}).ok());
  refused(options, "is a local database");
}

TEST_F(SiteTest, TheDirectoryOfAnotherSiteIsRefused) {
  sites_ = {{"a", ""}, {"b", ""}};
  Start("a");
  here_.clear();
  SiteOptions options = OptionsOf("b");
  options.path = directory_ / "a";
  EXPECT_EQ(Site::Start(options).status().code(), Code::kInvalidArgument);
}

TEST_F(SiteTest, ADamagedStateIsNamed) {
  sites_ = {{"a", ""}};
  Start("a");
  OpenAt({"a"});
  here_.clear();
  const std::string path = directory_ / "a/site/cluster";
  std::fstream(path) << "damaged";
  const Status started = Site::Start(OptionsOf("a")).status();
  EXPECT_EQ(started.code(), Code::kCorruption);
  EXPECT_TRUE(started.message().starts_with(path)) << started.message();
}

TEST_F(SiteTest, ASiteOpensItsDatabaseOnce) {
  sites_ = {{"a", ""}};
  Start("a");
  OpenAt({"a"});
  Append("1");
  here_.at("a").database.reset();
  const Status again = here_.at("a").site->OpenDatabase(open_, kLong).status();
  EXPECT_EQ(again.code(), Code::kClosed);
  EXPECT_NE(again.message().find("start the site anew"), std::string::npos) << again.message();
}

TEST_F(SiteTest, ASiteOpensAllShardsForWriting) {
  sites_ = {{"a", ""}};
  Start("a");
  OpenOptions options;
  options.read_only = true;
  EXPECT_EQ(here_.at("a").site->OpenDatabase(options, kLong).status().code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace topicdb::replication
