// Three sites in one process, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "free_port.h"
#include "replication/cluster/site_identity.h"
#include "replication/state/cluster_state.h"
#include "subscribe/subscribing.h"
#include "test_directory.h"
#include "topicdb/database.h"
#include "topicdb/database/site.h"

namespace topicdb::replication {

using std::chrono::milliseconds;

inline constexpr milliseconds kLong(60'000);

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
    options.commit_patience = patience_;
    options.newest_format = newest_format_;
    if (flush_bytes_ > 0) options.flush_bytes = flush_bytes_;
    options.heals = heals_;
    if (announces_) options.clients = "grpc://" + name;
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
  // Returns what a site needs to join those that run.
  SiteOptions JoiningOptionsOf(const std::string& name) const {
    SiteOptions options = OptionsOf(name);
    options.sites.clear();
    options.listen.clear();
    options.address = "127.0.0.1:" + std::to_string(FreePort());
    options.join_patience = kLong;
    for (const auto& [other, here] : here_) {
      if (here.site == nullptr) continue;
      options.join.push_back("127.0.0.1:" + std::to_string(here.site->port()));
    }
    return options;
  }
  // Has a new site join those that run, and opens the database there.
  void JoinAs(const std::string& name) {
    auto joined = Site::Start(JoiningOptionsOf(name));
    ASSERT_TRUE(joined.ok()) << joined.status().message();
    here_[name].site = std::move(*joined);
    OpenAt({name});
  }
  // Ends a site as a machine does that is lost.
  void Stop(const std::string& name) {
    here_.at(name).database.reset();
    here_.at(name).site.reset();
    here_.erase(name);
  }
  // Waits until a site has come to a state of the cluster of which `holds` is true.
  void AwaitState(const std::string& name, const std::function<bool(const ClusterState&)>& holds) {
    Await([&] { return holds(here_.at(name).site->state()); });
  }
  // Waits until something is true.
  static void Await(const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    while (!holds()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "it does not come";
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
  // Opens the database at these sites at the same time.
  void OpenAt(const std::vector<std::string>& names) {
    std::vector<std::thread> threads;
    for (const std::string& name : names) {
      threads.emplace_back([this, &here = here_[name]] {
        auto opened = here.site->OpenDatabase(open_, kLong);
        EXPECT_TRUE(opened.ok()) << here.site->identity().name << ": " << opened.status().message();
        if (!opened.ok()) return;
        here.database = std::move(*opened);
        EXPECT_TRUE(here.site->AwaitShards(kLong).ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  void StartAll() {
    for (const auto& [name, address] : sites_) Start(name);
    OpenAt({"a", "b", "c"});
  }
  Database& At(const std::string& name) { return *here_.at(name).database; }
  // Appends at one site, or at any.
  Receipt AppendAt(const std::string& name, const std::string& value) {
    const std::vector<MessageView> messages{{"t", 1, value}};
    const auto receipt = At(name).Append(messages);
    EXPECT_TRUE(receipt.ok()) << receipt.status().message();
    return receipt.ok() ? *receipt : Receipt();
  }
  Receipt Append(const std::string& value) {
    const auto open = std::find_if(here_.begin(), here_.end(),
                                   [](const auto& one) { return one.second.database != nullptr; });
    return AppendAt(open->first, value);
  }
  std::vector<std::string> ReadAt(const std::string& name, const Receipt& receipt) {
    const std::map<std::uint32_t, Serial> seen(receipt.serials.begin(), receipt.serials.end());
    EXPECT_TRUE(At(name).AwaitCommits(seen, kLong).ok());
    return TakeAll(At(name), "#");
  }

  const TestDirectory directory_;
  std::map<std::string, std::string> sites_{{"a", ""}, {"b", ""}, {"c", ""}};
  OpenOptions open_;
  milliseconds patience_{20'000};                       // of writes
  bool announces_ = false;                              // whether clients find the sites
  std::uint32_t newest_format_ = kClusterFormatNewest;  // of sites that are started
  std::uint64_t flush_bytes_ = 0;                       // of SiteOptions, unless 0
  bool heals_ = true;                                   // of SiteOptions
  std::map<std::string, Here> here_;
};

}  // namespace topicdb::replication
