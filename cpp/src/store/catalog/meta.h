// Keys and records of a shard's default column family: everything about the shard but its messages.
//
//   1                                        identity: which shard of which database this is
//   2                                        commit state: last serial and clock
//   3 | class u32 BE | generation u32 BE     a slab
//   4 | class u32 BE | generation u32 BE     its counters
//   5 | class | generation | node u32 BE     a node of its structure trie
//   6 | serial u64 BE | index u32 BE         an unfinished delete
//   7 | class | generation                   how large a part of its topics the sample is
//   7 | class | generation | serial u64 BE   topics that a commit added to the sample
//   8 | sequence of jobs                     the last job of the sequence that was applied
//   9                                        which retention rules the shard follows
//   10                                       the clocks, and how far they have leapt
//   11 | serial u64 BE                       the id of the append that this commit stored
//   12 | serial u64 BE                       a slab that this commit dropped
//   13                                       the last entry of a replicated log that was applied
//   14                                       the retention rules that a replica follows, whole
//
// Every record begins with a version byte. Numbers in records are little-endian. RocksDB protects
// all of it with checksums.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/leap_clock.h"
#include "commit/append_ids.h"
#include "structure/structure_trie.h"
#include "topicdb/options.h"
#include "topicdb/types/iterator.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/ranges.h"
#include "topicdb/types/times.h"

namespace topicdb::meta {

// DO NOT CHANGE THESE VALUES: they are on disk. No key begins with zero.
enum class KeyKind : std::uint8_t {
  kIdentity = 1,
  kCommitState = 2,
  kSlab = 3,
  kCounters = 4,
  kNode = 5,
  kDelete = 6,
  kSample = 7,
  kJob = 8,
  kRules = 9,
  kClock = 10,
  kAppendId = 11,
  kDrop = 12,
  kApplied = 13,
  kReplicatedRules = 14,
  kStaged = 15,  // store/job/staged_records.h
};

std::string IdentityKey();
std::string CommitStateKey();
std::string RulesKey();
std::string ClockKey();
std::string AppliedKey();
// The record of this key has the bytes of EncodeRetention (retention_file.h).
std::string ReplicatedRulesKey();
std::string SlabKey(const SlabId& slab);
std::string CountersKey(const SlabId& slab);
// Returns the prefix of the keys of all nodes of a slab.
std::string NodePrefix(const SlabId& slab);
std::string NodeKey(const SlabId& slab, NodeId node);
// Returns the prefix of all slab keys.
std::string SlabPrefix();
// Sets class and generation of `slab` from a key made by SlabKey. Returns false for other keys.
bool DecodeSlabKey(std::string_view key, SlabId* slab);
// Does the same for any key that has a class and a generation behind its kind.
bool DecodeSlabOf(std::string_view key, SlabId* slab);

// Return the keys of the sample of a slab's topics: that of its level, and that of the topics that
// the commit `serial` added.
std::string SampleLevelKey(const SlabId& slab);
std::string SampleKey(const SlabId& slab, Serial serial);
// Returns a key that is greater than every key of the sample.
std::string SampleEnd(const SlabId& slab);
// Encodes topics that AppendSampleTopic has put one after the other.
std::string EncodeSample(std::string_view topics);
void AppendSampleTopic(std::string* topics, std::string_view topic);
bool DecodeSample(std::string_view bytes, std::vector<std::string_view>* topics);
std::string EncodeSampleLevel(unsigned level);
bool DecodeSampleLevel(std::string_view bytes, unsigned* level);

std::string JobKey(std::string_view sequence);
// Returns the prefix of all job keys.
std::string JobPrefix();

// Returns the key of an append id. `serial` is the commit that stored the append in this shard.
std::string AppendIdKey(Serial serial);
// Returns the prefix of all such keys.
std::string AppendIdPrefix();
std::string Encode(const std::string& id, const KnownAppend& known);
// `key` is the whole key, made by AppendIdKey.
bool Decode(std::string_view key, std::string_view bytes, std::string* id, KnownAppend* known);
// Returns the key of a dropped slab. `serial` is the commit that dropped it.
std::string DropKey(Serial serial);
// Returns the prefix of all such keys.
std::string DropPrefix();

// Returns the key of a delete. `index` counts the deletes of the commit `serial` from 0.
std::string DeleteKey(Serial serial, std::uint32_t index);
// Sets both numbers from a key that DeleteKey made. Returns false for keys of another length.
bool DecodeDeleteKey(std::string_view key, Serial* serial, std::uint32_t* index);
// Returns the prefix of all delete keys.
std::string DeletePrefix();

// Which shard of which database this is.
struct Identity {
  DatabaseId database{};
  std::uint32_t shard = 0;
  bool operator==(const Identity&) const = default;
};
std::string Encode(const Identity& identity);
bool Decode(std::string_view bytes, Identity* identity);

// The numbers with which the next commit continues.
struct CommitState {
  Serial serial;                         // of the last commit
  std::int64_t assigned_timestamp = -1;  // the last one that was assigned; -1: none was
  // Commits that the log does not have (Durability::kNone) may have used serials up to this one.
  // After a crash, the shard continues numbering behind it.
  Serial serial_limit;
};
// Returns how far the last assigned timestamp is ahead of a clock; 0 if it is behind.
std::chrono::microseconds AheadOf(WallTime clock, const CommitState& state);
std::string Encode(const CommitState& state);
bool Decode(std::string_view bytes, CommitState* state);

std::string Encode(const LeapRecord& record);
bool Decode(std::string_view bytes, LeapRecord* record);

// The last entry of a replicated log that a shard has applied. Only shards of replicated databases
// have this record. It is in the same batch as what the entry did.
struct Applied {
  std::uint64_t index = 0;   // of the entry in the log
  std::uint64_t term = 0;    // of the entry
  std::uint64_t epoch = 0;   // the term in which the leader began to lead whose entries count
  std::uint64_t number = 0;  // of the last entry of that epoch that counted
  bool operator==(const Applied&) const = default;
};
std::string Encode(const Applied& applied);
bool Decode(std::string_view bytes, Applied* applied);

// DO NOT CHANGE THESE VALUES: they are on disk.
enum class SlabState : std::uint8_t {
  kCurrent = 1,
  kReadOnly = 2,
  kDropping = 3,  // the next open drops its column family if that is still there
};
// What is known of a slab beside its counters and its structures.
struct SlabRecord {
  SlabState state = SlabState::kCurrent;
  LayoutKind layout = LayoutKind::kSkipstream;
  std::uint8_t timestamp_bytes = 8;
  NotedTime created_at;
  NotedTime sealed_at;          // zero while the slab is current
  std::uint32_t keep_last = 0;  // as in SlabInfo
  // The shard's last commit when the slab began. Also kNoSerial for slabs that were made before
  // this was noted. Readers read the slabs of all classes in this order.
  Serial begun_at = kNoSerial;
};
std::string Encode(const SlabRecord& record);
bool Decode(std::string_view bytes, SlabRecord* record);

// Encode and decode the version of the rules (RetentionRules::version) whose classes have begun
// their generations.
std::string EncodeRules(std::uint64_t version);
bool DecodeRules(std::string_view bytes, std::uint64_t* version);

// Counts the messages that were written to a slab. Deleted ones stay counted.
struct SlabCounters {
  // Adds `more` messages with timestamps from `first` to `last`. `more_bytes` are the bytes of
  // their topics and values.
  void Count(std::uint64_t more, std::int64_t first, std::int64_t last, std::uint64_t more_bytes);

  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::int64_t first_timestamp = 0;  // meaningless while messages is 0
  std::int64_t last_timestamp = 0;
};
std::string Encode(const SlabCounters& counters);
bool Decode(std::string_view bytes, SlabCounters* counters);

// The commits of an applied job in one shard, and the shards that have messages of the job.
struct JobSpan {
  std::uint64_t number = 0;
  Serial first_serial;
  Serial last_serial;
  WallTime committed_at;              // the same in all shards
  std::vector<std::uint32_t> shards;  // sorted
  bool operator==(const JobSpan&) const = default;
};

// A shard remembers a job without a sequence for this long.
inline constexpr std::chrono::microseconds kJobMemory = std::chrono::days(7);
// A job is hidden from readers for at most this long. This is less than kJobMemory, so that no
// shard has forgotten the job by then.
inline constexpr std::chrono::microseconds kJobHiddenMax = std::chrono::days(6);

// The last applied job of a sequence of jobs.
struct JobRecord {
  JobSpan last;
  WallTime applied_at;
  std::uint64_t messages = 0;   // in this shard
  std::uint64_t malformed = 0;  // messages that the whole job has left out
  // Earlier jobs of the sequence, the oldest first, because another shard may be behind. These are
  // the last kJobSpansMin, and up to kJobSpansMax while some shard has yet to apply them.
  std::vector<JobSpan> earlier;
  bool operator==(const JobRecord&) const = default;
};
inline constexpr std::size_t kJobSpansMin = 16;
inline constexpr std::size_t kJobSpansMax = 1'024;
// Keyed by the sequence, or by the job if it has no sequence.
using JobRecords = std::map<std::string, JobRecord, std::less<>>;
std::string Encode(const JobRecord& record);
bool Decode(std::string_view bytes, JobRecord* record);

// A dropped slab and what it had, so that readers that had not read it can be told. A shard keeps
// the last kDropsMax records. The oldest also stands for all drops before it.
struct DropRecord {
  // The messages of some commits that follow each other.
  struct Count {
    Serial serial;               // of the last commit that has any of them
    std::uint64_t messages = 0;  // at least one
    bool operator==(const Count&) const = default;
  };
  // The messages whose topics match `filter`.
  struct Part {
    std::string filter;
    std::vector<Count> counts;  // at least one, in ascending order
    bool operator==(const Part&) const = default;
  };

  Serial serial;  // of the commit that dropped it
  std::string retention_class;
  Generation generation;
  WallTime dropped_at;
  std::int64_t last_timestamp = 0;  // of its messages
  std::vector<Part> parts;
  bool operator==(const DropRecord&) const = default;
};
inline constexpr std::size_t kDropsMax = 1'024;
std::string Encode(const DropRecord& record);
// `key` is the whole key, made by DropKey.
bool Decode(std::string_view key, std::string_view bytes, DropRecord* record);

std::string Encode(const NodeRecord& node);
// `key` is the whole key, made by NodeKey.
bool Decode(std::string_view key, std::string_view bytes, NodeRecord* node);

// Stands for all generations in a DeleteRecord. DO NOT CHANGE THIS VALUE: it is on disk.
inline constexpr Generation kEveryGeneration;

// A committed delete that has not removed all of its messages yet. Readers do not see messages that
// match and that the commit `serial` or an earlier one wrote.
struct DeleteRecord {
  Serial serial;
  std::uint32_t index = 0;
  KeyRange keys;
  Generation generation;  // the only one that it affects, or kEveryGeneration

  // Returns whether the delete affects messages of this slab.
  bool Covers(const SlabId& slab) const {
    return generation == kEveryGeneration || generation == slab.generation;
  }
};
std::string Encode(const DeleteRecord& record);
// `key` is the whole key, made by DeleteKey.
bool Decode(std::string_view key, std::string_view bytes, DeleteRecord* record);

}  // namespace topicdb::meta
