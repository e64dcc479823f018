// Keys and records of a shard's default column family: everything about the shard but its messages.
//
//   1                                        identity: which shard of which database this is
//   2                                        commit state: last serial and clock
//   3 | class u32 BE | generation u32 BE     a slab
//   4 | class u32 BE | generation u32 BE     its counters
//   5 | class | generation | node u32 BE     a node of its structure trie
//   6 | serial u64 BE | index u32 BE         a delete that is not finished
//   7 | class | generation                   how large a part of its topics the sample is
//   7 | class | generation | serial u64 BE   topics that a commit added to it
//   8 | sequence of jobs                     the last job of it that was applied
//   9                                        which retention rules the shard follows
//   10                                       the clocks, and how far they have leapt
//   11 | serial u64 BE                       the id of the append that was this commit
//   12 | serial u64 BE                       a slab that this commit has dropped
//
// Records begin with a version byte; numbers are little-endian. RocksDB checksums all of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/leap_clock.h"
#include "commit/append_ids.h"
#include "structure/structure_trie.h"
#include "topicdb/types/iterator.h"
#include "topicdb/options.h"
#include "topicdb/types/ranges.h"

namespace topicdb::meta {

// DO NOT CHANGE THESE VALUES: they are on disk. Zero is no key.
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
};

std::string IdentityKey();
std::string CommitStateKey();
std::string RulesKey();
std::string ClockKey();
std::string SlabKey(const SlabId& slab);
std::string CountersKey(const SlabId& slab);
// All nodes of a slab begin with this.
std::string NodePrefix(const SlabId& slab);
std::string NodeKey(const SlabId& slab, NodeId node);
// Every slab key begins with this.
std::string SlabPrefix();
// Class and generation of a key made by SlabKey; false if it is none.
bool DecodeSlabKey(std::string_view key, SlabId* slab);

// The sample of a slab's topics: its level, and the topics by the commits that added them.
std::string SampleLevelKey(const SlabId& slab);
std::string SampleKey(const SlabId& slab, std::uint64_t serial);
// Behind every key of the sample.
std::string SampleEnd(const SlabId& slab);
// Topics one after the other, each as AppendSampleTopic does.
std::string EncodeSample(std::string_view topics);
void AppendSampleTopic(std::string* topics, std::string_view topic);
bool DecodeSample(std::string_view bytes, std::vector<std::string_view>* topics);
std::string EncodeSampleLevel(unsigned level);
bool DecodeSampleLevel(std::string_view bytes, unsigned* level);

std::string JobKey(std::string_view sequence);
// Every job key begins with this.
std::string JobPrefix();

// By the serial of the commit that was the append in this shard.
std::string AppendIdKey(std::uint64_t serial);
// Every such key begins with this.
std::string AppendIdPrefix();
std::string Encode(const std::string& id, const KnownAppend& known);
// `key` is the whole key, made by AppendIdKey.
bool Decode(std::string_view key, std::string_view bytes, std::string* id, KnownAppend* known);
// Of the commit that dropped it.
std::string DropKey(std::uint64_t serial);
// Every such key begins with this.
std::string DropPrefix();

// Deletes of one commit are counted from 0.
std::string DeleteKey(std::uint64_t serial, std::uint32_t index);
// Every delete key begins with this.
std::string DeletePrefix();

// The column families that hold a slab's messages: the one of skipstream, and the two of columnar.
std::string FamilyName(const SlabId& slab);
std::string BlocksFamilyName(const SlabId& slab);
std::string PagesFamilyName(const SlabId& slab);
// Those that a slab of this layout has, the main one first.
std::vector<std::string> FamilyNames(LayoutKind layout, const SlabId& slab);
// Class and generation of a name made by one of these; false if it is none.
bool DecodeFamilyName(std::string_view name, SlabId* slab);
// What a name made by one of these is.
bool IsBlocksFamily(std::string_view name);
bool IsPagesFamily(std::string_view name);

struct Identity {
  DatabaseId database{};
  std::uint32_t shard = 0;
  bool operator==(const Identity&) const = default;
};
std::string Encode(const Identity& identity);
bool Decode(std::string_view bytes, Identity* identity);

struct CommitState {
  std::uint64_t serial = 0;    // of the last commit
  std::int64_t clock_us = -1;  // last timestamp assigned
  // Serials up to this one may have been used by commits that the log does not have
  // (Durability::kNone); after a crash numbering goes on behind it.
  std::uint64_t serial_limit = 0;
};
std::string Encode(const CommitState& state);
bool Decode(std::string_view bytes, CommitState* state);

std::string Encode(const LeapRecord& record);
bool Decode(std::string_view bytes, LeapRecord* record);

// DO NOT CHANGE THESE VALUES: they are on disk.
enum class SlabState : std::uint8_t {
  kCurrent = 1,
  kReadOnly = 2,
  kDropping = 3,  // its column family goes at the next open, if it is still there
};
struct SlabRecord {
  SlabState state = SlabState::kCurrent;
  LayoutKind layout = LayoutKind::kSkipstream;
  std::uint8_t timestamp_bytes = 8;
  std::int64_t created_at_us = 0;  // as LeapClock notes times
  std::int64_t sealed_at_us = 0;   // the same; 0 while current
  std::uint32_t keep_last = 0;     // as in SlabInfo
  // The shard's last commit when it began; 0 also for those that were made before this was noted.
  // Slabs of all classes are read in this order.
  std::uint64_t begun_at = 0;
};
std::string Encode(const SlabRecord& record);
bool Decode(std::string_view bytes, SlabRecord* record);

// The version of the rules (RetentionRules::version) whose classes have begun their generations.
std::string EncodeRules(std::uint64_t version);
bool DecodeRules(std::string_view bytes, std::uint64_t* version);

struct SlabCounters {
  // More messages, from `first` to `last`, with so many bytes of topics and values.
  void Count(std::uint64_t more, std::int64_t first, std::int64_t last, std::uint64_t more_bytes);

  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::int64_t first_timestamp = 0;  // of no meaning while messages is 0
  std::int64_t last_timestamp = 0;
};
std::string Encode(const SlabCounters& counters);
bool Decode(std::string_view bytes, SlabCounters* counters);

// What a job that was applied has in a shard, and which shards have messages of it.
struct JobSpan {
  std::uint64_t number = 0;
  std::uint64_t first_serial = 0;
  std::uint64_t last_serial = 0;
  std::int64_t committed_at_us = 0;   // the same in all shards
  std::vector<std::uint32_t> shards;  // sorted
  bool operator==(const JobSpan&) const = default;
};

// How long a job without a sequence is known.
inline constexpr std::int64_t kJobMemoryUs = std::int64_t{7} * 24 * 3'600 * 1'000'000;
// How long it may be hidden. Less, so that no shard has forgotten it by then.
inline constexpr std::int64_t kJobHiddenMaxUs = std::int64_t{6} * 24 * 3'600 * 1'000'000;

// Of jobs that follow each other, the last one that was applied.
struct JobRecord {
  JobSpan last;
  std::int64_t applied_at_us = 0;
  std::uint64_t messages = 0;   // in this shard
  std::uint64_t malformed = 0;  // that the whole job has left out
  // Those before, the oldest first, since another shard may be behind: the last kJobSpansMin, and
  // up to kJobSpansMax while some shard has yet to apply them.
  std::vector<JobSpan> earlier;
  bool operator==(const JobRecord&) const = default;
};
inline constexpr std::size_t kJobSpansMin = 16;
inline constexpr std::size_t kJobSpansMax = 1'024;
// By sequence, or job without one.
using JobRecords = std::map<std::string, JobRecord, std::less<>>;
std::string Encode(const JobRecord& record);
bool Decode(std::string_view bytes, JobRecord* record);

// A slab that was dropped, and what it had: who had not read it is told. Of each shard the last
// kDropsMax are kept; the oldest stands for all before it, too.
struct DropRecord {
  struct Count {
    std::uint64_t serial = 0;    // of the last commit of these
    std::uint64_t messages = 0;  // at least one
    bool operator==(const Count&) const = default;
  };
  // Messages of the topics that this filter matches.
  struct Part {
    std::string filter;
    std::vector<Count> counts;  // at least one; ascending
    bool operator==(const Part&) const = default;
  };

  std::uint64_t serial = 0;  // of the commit that dropped it
  std::string retention_class;
  std::uint32_t generation = 0;
  std::int64_t dropped_at_us = 0;
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

// A delete that was committed, though not all of its messages are gone: those that match and were
// written by the commit `serial` or an earlier one are hidden from readers.
struct DeleteRecord {
  std::uint64_t serial = 0;
  std::uint32_t index = 0;
  KeyRange keys;
  std::uint32_t generation = 0;  // only this one; 0: any

  // Whether it is about messages of this slab.
  bool Covers(const SlabId& slab) const { return generation == 0 || generation == slab.generation; }
};
std::string Encode(const DeleteRecord& record);
// `key` is the whole key, made by DeleteKey.
bool Decode(std::string_view key, std::string_view bytes, DeleteRecord* record);

}  // namespace topicdb::meta
