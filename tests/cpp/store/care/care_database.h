// A database that tests damage, and what its readers see.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "layout/columnar/block/block_reader.h"
#include "store/database/database_parts.h"
#include "test_directory.h"
#include "topicdb/database.h"

namespace topicdb {

// A message as readers see it.
struct SeenMessage {
  std::string topic;
  std::int64_t time = 0;
  std::uint64_t serial = 0;
  std::string value;
  auto operator<=>(const SeenMessage&) const = default;
};

// A closed database of two shards. Each has kMessages messages of three topics, in three commits
// and one sealed block of several pages.
class CareDatabase {
 public:
  static constexpr std::uint32_t kShards = 2;
  static constexpr std::uint32_t kCommits = 3;
  static constexpr std::uint32_t kMessages = 300;

  CareDatabase() {
    OpenOptions options = WithShards(kShards);
    options.seal_bytes = std::size_t{64} << 10;  // makes small pages
    DatabaseParts database(path(), options);
    for (std::uint32_t shard = 0; shard < kShards; ++shard) {
      for (std::uint32_t commit = 0; commit < kCommits; ++commit) Fill(&database, shard, commit);
      const Status sealed = database.shard(shard)->SealAll();
      EXPECT_TRUE(sealed.ok()) << sealed.message();
    }
  }

  std::string path() const { return directory_ / "db"; }
  std::string shard_path(std::uint32_t shard) const { return ShardDirectory(path(), shard); }
  // Returns a path beside the database.
  std::string operator/(const std::string& name) const { return directory_ / name; }

  // Opens a shard, calls change(shard, slab) for its first slab, and closes it again. `change` may
  // write to the RocksDB of the shard.
  template <typename Change>
  void Open(std::uint32_t shard, Change change) const {
    OpenOptions options;
    options.only_shards = {shard};
    const DatabaseParts database(path(), options);
    const auto opened = database.shard(shard);
    const auto view = opened->view();
    change(*opened, *view->slabs().front().slab);
  }
  // Writes to the default family of a shard, past its log.
  void PutRecord(std::uint32_t shard, const std::string& key, const std::string& value) const {
    Open(shard, [&](const Shard& opened, const Slab&) {
      ASSERT_TRUE(opened.view()->db()->Put({}, key, value).ok());
    });
  }
  // Replaces a page of the sealed block of a shard by other bytes. Returns the rows that it had.
  std::uint32_t DamagePage(std::uint32_t shard, std::uint32_t page) const {
    std::uint32_t rows = 0;
    Open(shard, [&](const Shard& opened, const Slab& slab) {
      const RocksSource source = opened.view()->Source(slab);
      columnar::BlockReader reader(source);
      const BlockId block = reader.LastSealed().value();
      rows = reader.LoadDirectory(block).value().at(page).rows;
      const std::string key = columnar::SealedPageKey(block.value(), page);
      ASSERT_TRUE(source.db->Put({}, slab.families().sealed, key, "damaged").ok());
    });
    return rows;
  }
  // Flips a bit in a third of the way through a file.
  static void Flip(const std::string& file) {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto place = static_cast<std::streamoff>(std::filesystem::file_size(file) / 3);
    bytes.seekg(place);
    const int byte = bytes.get();
    bytes.seekp(place);
    bytes.put(static_cast<char>(byte ^ 1));
  }
  // Returns the table files of a shard, the largest first.
  std::vector<std::string> Tables(std::uint32_t shard) const {
    std::vector<std::string> tables;
    for (const auto& entry : std::filesystem::directory_iterator(shard_path(shard))) {
      if (entry.path().extension() == ".sst") tables.push_back(entry.path().string());
    }
    std::sort(tables.begin(), tables.end(), [](const std::string& a, const std::string& b) {
      return std::filesystem::file_size(a) > std::filesystem::file_size(b);
    });
    return tables;
  }
  // Opens the database and returns all of its messages, sorted.
  std::vector<SeenMessage> ReadAll() const {
    std::vector<SeenMessage> seen;
    const auto database = Database::Open(path(), {});
    EXPECT_TRUE(database.ok()) << database.status().message();
    if (!database.ok()) return seen;
    const auto scan = (*database)->NewScan(Filter::Everything(), {});
    EXPECT_TRUE(scan.ok()) << scan.status().message();
    while (true) {
      const auto batch = (*scan)->Next({1'000, 1 << 20, /*with_serials=*/true});
      EXPECT_TRUE(batch.ok()) << batch.status().message();
      if (!batch.ok() || *batch == nullptr) break;
      for (std::size_t row = 0; row < (*batch)->size(); ++row) {
        seen.push_back({std::string((*batch)->topic(row)), (*batch)->timestamp(row),
                        (*batch)->serial(row).value(), std::string((*batch)->value(row))});
      }
    }
    std::sort(seen.begin(), seen.end());
    return seen;
  }

 private:
  // Commits a part of the messages of a shard.
  static void Fill(DatabaseParts* database, std::uint32_t shard, std::uint32_t commit) {
    std::vector<std::string> topics;
    for (int i = 0; topics.size() < 3; ++i) {
      std::string topic = "t/" + std::to_string(i);
      if (ShardOfTopic(topic, kShards) == shard) topics.push_back(std::move(topic));
    }
    std::vector<MessageView> messages;
    for (std::uint32_t i = 0; i < kMessages / kCommits; ++i) {
      messages.push_back({topics[i % 3], 1'000 * commit + i, "some value"});
    }
    database->Append(messages);
  }

  const TestDirectory directory_;
};

}  // namespace topicdb
