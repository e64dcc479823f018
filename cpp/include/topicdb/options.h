// The schema of a database, which is fixed when the database is created, and the settings of a
// handle.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/status.h"

namespace topicdb {

// The newest version of the format on disk, which docs/internals/format.md describes. A reader
// refuses a larger number. A database has the smallest version that its schema needs.
inline constexpr std::uint16_t kFormatVersion = 2;

// What a commit survives. DO NOT CHANGE THESE VALUES: bindings and files use them.
enum class Durability : std::uint8_t {
  kNone = 1,  // closing the database
  kOs = 2,    // kill -9 of the process: the operating system has it
  kDisk = 3,  // loss of power: it is fsynced
  // Loss of machines: a majority of the sites has fsynced it. Nobody asks for it: in a database
  // that has replicas every commit gets it.
  kQuorum = 4,
};

// How a slab encodes its messages. DO NOT CHANGE THESE VALUES: they are on disk.
enum class LayoutKind : std::uint8_t {
  kSkipstream = 1,  // one key a message; the same topic and timestamp overwrites; for state
  kColumnar = 2,    // blocks of columns; append-only; for messages
};

// Returns "columnar" or "skipstream".
const char* NameOf(LayoutKind layout);
// Returns the layout with this name. Returns kSchema, which lists the names, if there is none.
Result<LayoutKind> LayoutNamed(std::string_view name);

// What decides in which shard a message is stored. DO NOT CHANGE THESE VALUES: they are on disk.
enum class ShardBy : std::uint8_t {
  kTopic = 1,  // the topic, so that all messages of a topic are in one shard
  kKey = 2,    // the key that comes with the message, or the topic if none does
};

// Returns "topic" or "key".
const char* NameOf(ShardBy shard_by);

// Topics that share a retention. See Schema::retention, and Database::Maintain for what is dropped.
struct RetentionClass {
  std::string filter;
  // Messages are dropped when they were stored this long ago; 0: never.
  std::chrono::microseconds age{};
  // Bytes of files, in all shards. Beyond that the oldest messages are dropped; 0: no limit.
  std::uint64_t bytes_max = 0;
  // A generation takes messages for this long. 0: an eighth of the age, or a day if there is only
  // keep_last. Only whole generations are dropped, so no message outlives its age by more than
  // this.
  std::chrono::microseconds rotation_period{};
  // Keeps this many messages of each topic, whatever their age: the last ones of the generations
  // that are too old. Without an age and a size, the last ones of all generations that are no
  // longer written to. 0: none.
  std::uint32_t keep_last = 0;
  // The layout of new generations. Absent: that of the generation before, or for the first one that
  // of the schema.
  std::optional<LayoutKind> layout = std::nullopt;

  bool operator==(const RetentionClass&) const = default;
};

// What is fixed when the database is created. Only the retention may change later, and with it the
// layout of new generations.
struct Schema {
  // Each shard is a RocksDB of its own with one writer. An append stores a message in shard
  // crc32(topic or key) % shards, as shard_by says.
  std::uint32_t shards = 1;
  ShardBy shard_by = ShardBy::kTopic;
  // The layout of the first generations. Later ones may have another: see RetentionClass::layout
  // and Upkeep::Rotate.
  LayoutKind layout = LayoutKind::kColumnar;
  // Width of a timestamp in keys: 8, or 0 for a pure map of topics. With 0, every timestamp is 0.
  std::uint32_t timestamp_bytes = 8;
  // Hints: topic filters whose wildcards are levels that are known to vary.
  std::vector<std::string> structures;
  // The number of distinct words that a level may have before later words share a wildcard, by
  // depth. The last number repeats. The defaults are those of EMQX Durable Storage, whose learning
  // this is.
  std::vector<std::uint32_t> thresholds = {100, 10};
  // The first filter that matches a topic decides its class. Topics that no filter matches are in
  // an implicit last class "#", which is kept forever. Database::SetRetention may change this
  // later.
  std::vector<RetentionClass> retention;

  bool operator==(const Schema&) const = default;
};

inline constexpr std::uint32_t kShardsMax = 1024;

// What the caller of Open asks of the schema. A member that is absent stands for what is stored, or
// for the default if the database is created.
struct SchemaRequest {
  std::optional<std::uint32_t> shards;
  std::optional<ShardBy> shard_by;
  std::optional<LayoutKind> layout;
  std::optional<std::uint32_t> timestamp_bytes;
  std::optional<std::vector<std::string>> structures;
  std::optional<std::vector<std::uint32_t>> thresholds;
  std::optional<std::vector<RetentionClass>> retention;
};

// How a shard gathers commits.
struct CommitOptions {
  // An asynchronous commit waits for at most flush_interval for others to share its write. It waits
  // less if no commit has come for idle_flush_interval.
  std::chrono::microseconds flush_interval{10'000};
  std::chrono::microseconds idle_flush_interval{1'000};
  // At most this many commits, with this many bytes of messages, may wait for their write. A caller
  // that brings more waits itself.
  std::size_t pending_max = 10'000;
  std::size_t pending_bytes_max = std::size_t{64} << 20;
  // For open transactions, the shard remembers what was committed for at most this long, and at
  // most this many messages of it. A transaction that was open for longer fails.
  std::chrono::microseconds conflict_window{5'000'000};
  std::size_t conflict_entries_max = 1'000'000;
};

// What Database::Open does about a shard that it cannot open because the shard is damaged or gone.
enum class OnDamage : std::uint8_t {
  kRaise = 1,  // fails
  kSkip = 2,   // leaves the shard out; see Database::MissingShards
};

// How Database::Open opens a database.
struct OpenOptions {
  SchemaRequest schema;
  bool read_only = false;
  // The shards to open; absent: all. Other handles may open the remaining shards for writing.
  std::optional<std::vector<std::uint32_t>> only_shards;
  OnDamage on_damage = OnDamage::kRaise;
  // The durability of commits that name none.
  Durability durability = Durability::kOs;
  // Bytes of decompressed file blocks that are kept in memory. All shards share them.
  std::size_t cache_bytes = std::size_t{32} << 20;
  // Bytes of written messages that are kept in memory before they go to files. All shards share
  // them. This also bounds the log that every opening has to replay, including read-only ones
  // beside a writer.
  std::size_t write_buffer_bytes = std::size_t{64} << 20;
  CommitOptions commit;
  // Layout columnar: each slab keeps this many bytes of messages as they came, before they are
  // sorted, compressed and indexed in the background. This bounds what a read has to look through.
  std::size_t seal_bytes = std::size_t{16} << 20;
  // How topic structures are learned. True: within a budget, and once more from the topics of a
  // generation when it ends. False: by thresholds alone, as EMQX Durable Storage does.
  bool adaptive_structures = true;
  // The budget: the most streams of a slab. Topics beyond it share one stream. Adaptive only.
  std::uint32_t streams_max = 4'096;
  // Appends and writes fail with kQuota while the open shards have at least this many bytes on
  // disk. The bytes are measured once a second and estimated in between. 0: no limit.
  std::uint64_t quota_bytes = 0;
  // Beyond this part of the quota, the oldest read-only slabs are dropped; 0: never.
  double quota_trim = 0.9;
  // How often the background thread calls Database::Maintain; 0: never.
  std::chrono::microseconds maintenance_interval{10'000'000};
};

}  // namespace topicdb
