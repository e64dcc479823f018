// Stages messages for jobs.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "store/job/job_files.h"
#include "store/job/staged_file.h"
#include "store/shard/commit/shard_commit.h"
#include "topicdb/job.h"

namespace topicdb {

// Stages messages for a job of the database at `path`. Returns the name of the staged file.
inline std::string Stage(const std::string& path, const std::string& job,
                         const std::vector<MessageView>& messages) {
  const auto writer = StagedWriter::Open(path, job, {});
  EXPECT_TRUE(writer.ok()) << writer.status().message();
  const Status appended = (*writer)->Append(messages);
  EXPECT_TRUE(appended.ok()) << appended.message();
  const auto task = (*writer)->Finish();
  EXPECT_TRUE(task.ok()) << task.status().message();
  return task->file;
}

// Returns what a job without a sequence has staged in a file for shard 0, as if it was committed
// now.
inline StagedMessages StagedIn(const std::string& path, const std::string& job,
                               const std::string& file) {
  StagedMessages staged;
  staged.directory = JobDirectory(path, job);
  staged.sequence = job;
  staged.committed_at = staged.pending_since = ReadWallClock();
  staged.shards = {0};
  StagedFile loaded = LoadStagedFile(staged.directory, file).value();
  for (StagedPart& part : loaded.parts) {
    if (part.shard == 0) staged.parts.push_back(std::move(part));
  }
  return staged;
}

}  // namespace topicdb
