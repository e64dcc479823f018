// One bit of a file of a site flips while the site is down. That must be found, or do no harm: no
// site ever gives wrong answers, and what was acknowledged stays.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/file/files.h"
#include "replication/cluster/sites.h"
#include "replication/replica/site_shards.h"

namespace topicdb::replication {
namespace {

// How many bits of each kind of file are flipped: TOPICDB_FLIPPED_BITS for a longer run.
int Rounds() {
  const char* const set = std::getenv("TOPICDB_FLIPPED_BITS");
  return set == nullptr ? 3 : std::atoi(set);
}

// A part of the path of a file, and a number from which its bit is drawn.
class FlippedBitsTest : public SiteTest,
                        public testing::WithParamInterface<std::tuple<const char*, int>> {
 protected:
  FlippedBitsTest() : random_(static_cast<unsigned>(std::get<1>(GetParam()))) {}

  Receipt AppendNext() {
    values_.push_back(std::to_string(values_.size()));
    return AppendAt("a", values_.back());
  }
  // Flips a bit in one of the files of a site.
  void Flip(const std::string& name) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_ / name)) {
      const bool is_one = entry.path().string().find(std::get<0>(GetParam())) != std::string::npos;
      if (is_one && entry.is_regular_file() && entry.file_size() > 0) files.push_back(entry.path());
    }
    ASSERT_FALSE(files.empty()) << std::get<0>(GetParam());
    const std::filesystem::path& path = files[random_() % files.size()];
    // Logs have room behind what is written, in which a bit does not matter.
    const std::string content = ReadFile(path, std::size_t{1} << 30).value();
    const std::size_t written = content.find_last_not_of('\0') + 1;
    const std::size_t at = random_() % std::max<std::size_t>(written, 1);
    const int bit = static_cast<int>(random_() % 8);
    SCOPED_TRACE(path.string() + ", byte " + std::to_string(at));
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(content[at] ^ (1 << bit)));
    ASSERT_TRUE(file.good());
    flipped_ = path.string() + ", byte " + std::to_string(at) + ", bit " + std::to_string(bit);
  }
  // Returns the values that a site has, or why it cannot read them.
  Result<std::vector<std::string>> TryRead(const std::string& name, const Receipt& receipt) {
    const std::map<std::uint32_t, Serial> seen(receipt.serials.begin(), receipt.serials.end());
    TOPICDB_RETURN_IF_ERROR(At(name).AwaitCommits(seen, kLong));
    TOPICDB_ASSIGN_OR_RETURN(const auto scan,
                             At(name).NewScan(Filter::Parse("#").value(), ScanOptions()));
    std::vector<std::string> values;
    for (;;) {
      TOPICDB_ASSIGN_OR_RETURN(const auto batch, scan->Next(PageLimits()));
      if (batch == nullptr) return values;
      for (std::size_t row = 0; row < batch->size(); ++row) values.emplace_back(batch->value(row));
    }
  }
  // Starts the site, or has it join anew if its log is damaged, as the error says.
  void StartOrJoin(const std::string& name) {
    auto started = Site::Start(OptionsOf(name));
    if (started.ok()) {
      started->reset();
      Start(name);
      return OpenAt({name});
    }
    EXPECT_EQ(started.status().code(), Code::kCorruption) << started.status().message();
    const std::string& text = started.status().message();
    EXPECT_NE(text.find("topicdb cluster forget"), std::string::npos) << text;
    EXPECT_NE(text.find("in an empty directory with --join"), std::string::npos) << text;
    here_.erase(name);
    const Status forgotten = here_.at("a").site->Forget(name, kLong);
    EXPECT_TRUE(forgotten.ok()) << forgotten.message();
    std::filesystem::remove_all(directory_ / name);
    JoinAs(name);
    AwaitState("a", [&](const ClusterState& state) {  // it votes
      const ClusterSite* const site = state.FindSite(name);
      return site != nullptr && site->state == SiteState::kMember;
    });
  }
  // Compares the replicas until none is damaged any more. One that a comparison cannot read is
  // healed then.
  void ExpectAllTheSameSoon() {
    std::string last;
    for (int round = 0; round < 3; ++round) {
      const auto verified = here_.at("a").site->Verify(kLong);
      ASSERT_TRUE(verified.ok()) << verified.status().message();
      last.clear();
      for (const ReplicaVerification& one : *verified) {
        if (one.outcome != ReplicaOutcome::kSame) last += one.site + ": " + one.why + " ";
      }
      if (last.empty()) return;
      EXPECT_TRUE(here_.at("c").site->AwaitShards(kLong).ok());
    }
    ADD_FAILURE() << last;
  }

  std::mt19937 random_;
  std::vector<std::string> values_;
  std::string flipped_;
};

TEST_P(FlippedBitsTest, IsFoundOrDoesNoHarm) {
  StartAll();
  for (int i = 0; i < 30; ++i) AppendNext();
  Receipt receipt = AppendNext();
  for (const auto& [name, here] : here_) EXPECT_EQ(ReadAt(name, receipt), values_);
  EXPECT_TRUE(At("c").Flush().ok());
  for (int i = 0; i < 5; ++i) receipt = AppendNext();
  ReadAt("c", receipt);
  here_.at("c").database.reset();
  here_.at("c").site.reset();
  Flip("c");
  SCOPED_TRACE(flipped_);
  receipt = AppendNext();
  StartOrJoin("c");
  const auto read = TryRead("c", receipt);
  EXPECT_TRUE(read.ok() ? *read == values_ : read.status().code() == Code::kCorruption)
      << read.status().message();
  ExpectAllTheSameSoon();
  // The site is needed for a majority now, with what it has promised.
  Stop("b");
  receipt = AppendNext();
  EXPECT_EQ(ReadAt("a", receipt), values_);
  EXPECT_EQ(ReadAt("c", receipt), values_);
}

std::string NameOf(const testing::TestParamInfo<std::tuple<const char*, int>>& info) {
  std::string name;
  for (const char letter : std::string(std::get<0>(info.param))) {
    if (std::isalpha(static_cast<unsigned char>(letter)) != 0) name += letter;
  }
  return name + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, FlippedBitsTest,
                         testing::Combine(testing::Values("/site/log/log/", "/site/log/fence",
                                                          ".sst", "/MANIFEST-", "/CURRENT"),
                                          testing::Range(0, Rounds())),
                         &NameOf);

}  // namespace
}  // namespace topicdb::replication
