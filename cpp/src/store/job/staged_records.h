// The records of what jobs have staged in a shard that has replicas; docs/internals/format.md draws
// them. They are in the default column family, so that the log and the snapshots of the shard carry
// them as everything else. A local database has none: there, what is staged is in files.
//
// The keys of a job begin with JobStagedPrefix. What follows is the *rest* of a key, which a call
// to another replica has instead of the whole key.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/job/staged_file.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// Tells attempts to commit a job apart. Random.
using CommitId = std::array<std::uint8_t, 16>;

// Returns the prefix of all keys, and the first key behind them.
std::string StagedPrefix();
std::string StagedEnd();
// Returns the prefix of the keys of a job, and the first key behind them.
std::string JobStagedPrefix(std::string_view job);
std::string JobStagedEnd(std::string_view job);
// Returns the job of a key, or "" for other keys.
std::string_view JobOfStagedKey(std::string_view key);

// What is staged in one file for one class of the shard. The rests of its keys name it.
struct StagedPlaceName {
  std::string_view file;
  RetentionClassId retention_class;
};
// Returns the rest of the key of a page. Without `page`, that is the prefix of all pages.
std::string StagedPageRest(const StagedPlaceName& name, std::string_view page = {});
// Returns the rest of the key of bytes of StagedPart::blocks, which are cut into pieces.
std::string StagedBlocksRest(const StagedPlaceName& name, std::uint32_t piece);
// Returns the rest of the key of the record that says what is staged. It is written last. Without a
// class, that is the prefix of the records of all classes.
std::string StagedPartRest(const StagedPlaceName& name);
std::string StagedPartsRest(std::string_view file);

// The record of StagedPartRest: a part without its blocks, and their length.
struct StagedPartRecord {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint32_t block_count = 0;
  std::uint64_t blocks_bytes = 0;
};
std::string Encode(const StagedPartRecord& record);
bool Decode(std::string_view bytes, StagedPartRecord* record);
// Sets the class from the rest of a key that begins with StagedPartsRest(file).
bool DecodeStagedPartRest(std::string_view rest, std::string_view file, RetentionClassId* found);

// Shard 0 has two records for each file: when it was begun, and once all shards have their parts,
// what they are. `at` is in µs since 1970.
std::string StagedBeginRest(std::string_view file);
std::string EncodeStagedBegin(std::int64_t at);
bool DecodeStagedBegin(std::string_view bytes, std::int64_t* at);
// Returns whether the rest of a key is that of StagedBeginRest.
bool IsStagedBeginRest(std::string_view rest);

struct StagedFileRecord {
  struct Part {
    std::uint32_t shard = 0;
    RetentionClassId retention_class;
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Part> parts;
};
std::string StagedFileRest(std::string_view file);
std::string Encode(const StagedFileRecord& record);
bool Decode(std::string_view bytes, StagedFileRecord* record);

// Which files an attempt to commit the job has chosen that have parts in this shard. `epoch` is
// that of the jobs of the cluster when the attempt began.
struct StagedChoice {
  std::uint64_t epoch = 0;
  std::vector<std::string> files;
};
std::string StagedChoiceRest(const CommitId& commit);
// Returns the prefix of the rests of all choices.
std::string StagedChoicesRest();
std::string Encode(const StagedChoice& choice);
bool Decode(std::string_view bytes, StagedChoice* choice);

}  // namespace topicdb
