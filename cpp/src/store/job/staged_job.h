// What is done with what jobs have staged in a shard that has replicas.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "store/job/staged_records.h"
#include "topicdb/types/times.h"

namespace topicdb {

// What is done to the staging area of a shard. Doing it again changes nothing.
struct StagingStep {
  enum class Kind : std::uint8_t {
    kPut = 1,     // stores records of a job
    kChoose = 2,  // an attempt to commit the job chooses files, which must be here as a whole
    kRemove = 3,  // removes everything of the job
  };
  Kind kind = Kind::kPut;
  std::string job;
  std::vector<std::pair<std::string, std::string>> records;  // of kPut: rests of keys, and values
  CommitId commit{};                                         // of kChoose
  StagedChoice choice;                                       // of kChoose
  std::uint64_t epoch = 0;                                   // of kRemove
};

// What a shard needs to know of a job that is committed.
struct StagedJob {
  std::string job;
  CommitId commit{};
  std::string sequence;
  std::uint64_t number = 0;
  std::uint64_t malformed = 0;
  WallTime committed_at;
  WallTime pending_since;             // of the oldest job that some shard has yet to apply
  std::vector<std::uint32_t> shards;  // that have messages of the job, sorted
};

}  // namespace topicdb
