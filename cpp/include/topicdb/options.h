// Schema of a database (fixed when it is created) and settings of a handle.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace topicdb {

// Of everything on disk; docs/format.md describes it. A reader refuses a larger number.
inline constexpr std::uint16_t kFormatVersion = 1;

// What a commit survives. DO NOT CHANGE THESE VALUES: bindings and files use them.
enum class Durability : std::uint8_t {
  kNone = 1,  // closing the database
  kOs = 2,    // kill -9 of the process: handed to the operating system
  kDisk = 3,  // loss of power: fsynced
};

// How a slab encodes its messages. DO NOT CHANGE THESE VALUES: they are on disk.
enum class LayoutKind : std::uint8_t {
  kSkipstream = 1,  // a key a message; the same topic and timestamp overwrites. For state
  kColumnar = 2,    // blocks of columns; append-only. For messages
};

// "columnar" or "skipstream".
const char* NameOf(LayoutKind layout);

// Topics that share a retention. See Schema::retention, and Database::Maintain for what follows.
struct RetentionClass {
  std::string filter;
  std::int64_t age_us = 0;      // messages go when they were stored so long ago; 0: never
  std::uint64_t bytes_max = 0;  // of files, in all shards: beyond it the oldest go; 0: any number
  // A generation takes messages for so long; 0: an eighth of the age, a day if there is only
  // keep_last. Messages go by whole
  // generations, so none outlives its age by more than this.
  std::int64_t rotate_us = 0;
  // Of each topic so many messages are kept, whatever their age: the last ones of generations that
  // are too old, or, without an age and a size, of all that are not written to any more. 0: none.
  std::uint32_t keep_last = 0;

  bool operator==(const RetentionClass&) const = default;
};

// Fixed when the database is created.
struct Schema {
  // Each shard is a RocksDB of its own with one writer; a topic lives in crc32(topic) % shards.
  std::uint32_t shards = 1;
  LayoutKind layout = LayoutKind::kColumnar;
  // Width of a timestamp in keys: 8, or 0 for a pure map of topics (every timestamp is then 0).
  std::uint32_t timestamp_bytes = 8;
  // Hints: topic filters whose wildcards are levels known to vary.
  std::vector<std::string> structures;
  // Distinct words that a level may have before later ones share a wildcard, by depth; the last
  // one repeats. The defaults are those of EMQX Durable Storage, whose learning this is.
  std::vector<std::uint32_t> thresholds = {100, 10};
  // The first filter that matches a topic decides its class. What none matches is in an implicit
  // last class "#" that is kept for ever. May be changed later (Database::SetRetention).
  std::vector<RetentionClass> retention;

  bool operator==(const Schema&) const = default;
};

inline constexpr std::uint32_t kShardsMax = 1024;

// What the caller of Open wants of the schema. Absent: as stored, or the default at creation.
struct SchemaRequest {
  std::optional<std::uint32_t> shards;
  std::optional<LayoutKind> layout;
  std::optional<std::uint32_t> timestamp_bytes;
  std::optional<std::vector<std::string>> structures;
  std::optional<std::vector<std::uint32_t>> thresholds;
  std::optional<std::vector<RetentionClass>> retention;
};

// How commits of one shard are gathered.
struct CommitOptions {
  // An asynchronous commit waits at most so long for others to share its write, and less when none
  // came for the second of these.
  std::chrono::microseconds flush_interval{10'000};
  std::chrono::microseconds idle_flush_interval{1'000};
  // Commits, and bytes of their messages, that may wait; who brings more waits himself.
  std::size_t pending_max = 10'000;
  std::size_t pending_bytes_max = std::size_t{64} << 20;
  // What was committed is remembered so long for the transactions that are open, and at most so
  // many messages of it. A transaction that was open for longer fails.
  std::chrono::microseconds conflict_window{5'000'000};
  std::size_t conflict_entries_max = 1'000'000;
};

struct OpenOptions {
  SchemaRequest schema;
  bool read_only = false;
  // Shards to open; absent: all. Other handles may open the others for writing.
  std::optional<std::vector<std::uint32_t>> only_shards;
  // Of commits that do not say.
  Durability durability = Durability::kOs;
  // Blocks of files kept decompressed in memory, shared by all shards.
  std::size_t cache_bytes = std::size_t{32} << 20;
  // Written messages kept in memory before they go to files, shared by all shards. Also bounds the
  // log that opening (and every read-only open beside a writer) has to replay.
  std::size_t write_buffer_bytes = std::size_t{64} << 20;
  CommitOptions commit;
  // Layout columnar: so many bytes of messages are kept as they came, in each slab, before they are
  // sorted, compressed and indexed in the background. Reading is bounded by it.
  std::size_t seal_bytes = std::size_t{16} << 20;
  // How topic structures are learned: within a budget, and anew from the topics of a generation
  // when that is closed; or by thresholds alone, which is what EMQX Durable Storage does.
  bool adaptive_structures = true;
  // The budget: streams of a slab at most; topics beyond it share one. Adaptive only.
  std::uint32_t streams_max = 4'096;
  // Appends and writes fail with kQuota while the open shards have at least so many bytes on disk
  // (measured once a second, estimated in between); 0: no limit.
  std::uint64_t quota_bytes = 0;
  // From this part of the quota on, the oldest slabs that are read-only go; 0: never.
  double quota_trim = 0.9;
  // How often Database::Maintain is called in the background; 0: never.
  std::chrono::microseconds maintenance_interval{10'000'000};
};

}  // namespace topicdb
