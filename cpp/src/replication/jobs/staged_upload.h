// Brings what a task has staged into the shards.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "replication/replica/site_shards.h"
#include "store/job/staged_file.h"
#include "store/job/staged_job.h"

namespace topicdb::replication {

// Does a step at the replica that leads a shard. A step may be done twice, so it is done again
// while its outcome is unknown, until the deadline. Returns what Shard::Stage returns, and kClosed
// if the site closes its shards.
Status StageAt(const SiteShards& shards, std::uint32_t shard, const StagingStep& step,
               std::chrono::steady_clock::time_point deadline);

// Puts the parts of a staged file, which is in `directory`, into their shards, and notes in shard 0
// that they are there as a whole. Does several shards side by side. May be repeated. Returns
// kCorruption if a file of pages is damaged, and what StageAt returns. A step that no majority
// takes within `patience` ends it.
Status UploadStaged(const SiteShards& shards, const std::string& job, const std::string& directory,
                    const std::string& name, const StagedFile& file,
                    std::chrono::milliseconds patience);

}  // namespace topicdb::replication
