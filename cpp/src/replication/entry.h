// An entry of the log of a replicated shard: what one write does, for every replica. Only this file
// and entry.cc know the bytes, which docs/internals/format.md draws.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/status.h"
#include "topicdb/types/iterator.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/replicas.h"

namespace topicdb::replication {

// What an entry does. DO NOT CHANGE THESE VALUES: they are in logs.
enum class EntryKind : std::uint8_t {
  kLead = 1,    // a replica begins to lead: entries of earlier leaders count no more
  kBatch = 2,   // writes a batch that continues the shard's commits
  kPages = 3,   // writes a batch that nobody sees until a kBatch names it
  kDrop = 4,    // drops column families
  kPart = 5,    // has a part of an entry that is too large for the log
  kDigest = 6,  // changes nothing: all replicas say what they have after this entry
};

// Returns the format of a cluster with which entries of this kind came: sites that know only
// earlier ones stop at them.
inline std::uint32_t FormatOf(EntryKind kind) {
  constexpr std::uint32_t kFormatOfLaterKinds = 2;
  return kind <= EntryKind::kPart ? kClusterFormatFirst : kFormatOfLaterKinds;
}

// Which column family of a slab. DO NOT CHANGE THESE VALUES: they are in logs.
enum class FamilyPart : std::uint8_t {
  kKeys = 1,
  kBlocks = 2,
  kPages = 3,
};

// A column family of a slab, the same one in every replica. Its number in RocksDB differs.
struct SlabFamily {
  RetentionClassId retention_class;
  Generation generation;
  FamilyPart part = FamilyPart::kKeys;
  auto operator<=>(const SlabFamily&) const = default;
};
// Returns the name that the family has in RocksDB.
std::string NameOf(const SlabFamily& family);
// Sets `family` from such a name. Returns false for other names.
bool DecodeName(std::string_view name, SlabFamily* family);

// A column family that a batch names, and its number in that batch.
struct NamedFamily {
  std::uint32_t id = 0;
  SlabFamily family;
  bool operator==(const NamedFamily&) const = default;
};

// An entry. `body` refers to the bytes that were decoded.
struct Entry {
  EntryKind kind = EntryKind::kBatch;
  std::uint64_t epoch = 0;   // the term in which the leader that made the entry began to lead
  std::uint64_t number = 0;  // counts the entries of the epoch from 1; kLead has 0
  // The last commit before the batch, and the last one in it. Both are kNoSerial if the batch makes
  // no commit.
  Serial previous_serial;
  Serial serial;
  // Of kBatch and kPages: those that the body names, and others that are new.
  std::vector<NamedFamily> families;
  std::vector<SlabFamily> dropped;  // of kDrop
  // Of kPart: which part it is, counted from 0, and how many there are. Parts have the epoch and
  // the number of the whole entry.
  std::uint32_t part = 0;
  std::uint32_t parts = 0;
  // Of kBatch and kPages: a batch, as RocksDB encodes it. Of kPart: bytes of the encoded entry.
  std::string_view body;
};

std::string Encode(const Entry& entry);
// Returns whether these are the bytes of a part of an entry, if they are not damaged.
bool IsPart(std::string_view bytes);
// Decodes an entry. `bytes` must outlive it. Returns kCorruption for bytes that Encode has not
// made, and kSchema for an entry of a later version of TopicDB.
Result<Entry> DecodeEntry(std::string_view bytes);

}  // namespace topicdb::replication
