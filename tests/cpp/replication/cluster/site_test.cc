// Tests of sites in one process. tests/cluster has those of processes, which are killed.
#include "replication/cluster/site.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "subscribe/subscribing.h"
#include "test_directory.h"

namespace topicdb::replication {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong(60'000);

// Sites of one cluster, with a directory each.
class SiteTest : public testing::Test {
 protected:
  struct Here {
    std::unique_ptr<Site> site;
    std::unique_ptr<Database> database;
  };

  ~SiteTest() override {
    for (auto& [name, here] : here_) here.database.reset();  // the others still hear each other
  }
  SiteOptions OptionsOf(const std::string& name) const {
    SiteOptions options;
    options.path = directory_ / name;
    options.name = name;
    options.sites = sites_;
    options.listen = "127.0.0.1:0";
    options.election_timeout = milliseconds(300);
    return options;
  }
  // Starts a site, and has all that run find each other.
  void Start(const std::string& name) {
    auto started = Site::Start(OptionsOf(name));
    ASSERT_TRUE(started.ok()) << started.status().message();
    here_[name].site = std::move(*started);
    for (const auto& [from, one] : here_) {
      for (const auto& [to, other] : here_) {
        if (from == to || one.site == nullptr || other.site == nullptr) continue;
        const std::string address = "127.0.0.1:" + std::to_string(other.site->port());
        EXPECT_TRUE(one.site->SetAddress(to, address).ok());
      }
    }
  }
  // Opens the database at these sites at the same time.
  void OpenAt(const std::vector<std::string>& names) {
    std::vector<std::thread> threads;
    for (const std::string& name : names) {
      threads.emplace_back([this, &here = here_[name]] {
        auto opened = here.site->OpenDatabase(open_, kLong);
        EXPECT_TRUE(opened.ok()) << opened.status().message();
        if (opened.ok()) here.database = std::move(*opened);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  void StartAll() {
    for (const auto& [name, address] : sites_) Start(name);
    OpenAt({"a", "b", "c"});
  }
  Database& At(const std::string& name) { return *here_.at(name).database; }
  // Appends at whichever site takes it.
  Receipt Append(const std::string& value) {
    for (;;) {
      for (auto& [name, here] : here_) {
        if (here.database == nullptr) continue;
        const std::vector<MessageView> messages{{"t", 1, value}};
        const auto receipt = here.database->Append(messages);
        if (receipt.ok()) return *receipt;
        EXPECT_TRUE(receipt.status().code() == Code::kNotLeader) << receipt.status().message();
      }
      std::this_thread::yield();
    }
  }
  std::vector<std::string> ReadAt(const std::string& name, const Receipt& receipt) {
    const std::map<std::uint32_t, Serial> seen(receipt.serials.begin(), receipt.serials.end());
    EXPECT_TRUE(At(name).AwaitCommits(seen, kLong).ok());
    return TakeAll(At(name), "#");
  }

  const TestDirectory directory_;
  std::map<std::string, std::string> sites_{{"a", ""}, {"b", ""}, {"c", ""}};
  OpenOptions open_;
  std::map<std::string, Here> here_;
};

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
