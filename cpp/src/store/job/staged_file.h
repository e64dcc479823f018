// The file in which a task of a job lists what it has staged; docs/internals/format.md draws it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/staged_block.h"
#include "topicdb/status.h"
#include "topicdb/types/iterator.h"

namespace topicdb {

// What a task has staged for one retention class of one shard.
struct StagedPart {
  std::uint32_t shard = 0;
  RetentionClassId retention_class;
  std::string pages_file;  // in the directory of the staged file
  std::uint64_t pages_file_bytes = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;  // of topics and values
  std::uint32_t block_count = 0;
  // The blocks (AppendStagedBlock). They stay encoded, because the topics of all blocks together
  // may need too much memory.
  std::string blocks;
};

// What a staged file says.
struct StagedFile {
  DatabaseId database{};
  std::vector<StagedPart> parts;
};

// Adds a block to the blocks of a part.
void AppendStagedBlock(const StagedBlock& block, StagedPart* part);
// Calls visit(block) for each block of a part. Stops when a call fails, and returns its error.
// Returns kCorruption if a block is malformed.
Status ForEachStagedBlock(const StagedPart& part,
                          const std::function<Status(const StagedBlock&)>& visit);

// Returns kCorruption unless the pages file of a part is in the job's directory with its full
// length.
Status CheckPagesFile(const std::string& directory, const StagedPart& part);

// Returns what the staged file with this name in a job's directory says. Returns kNotFound if there
// is no such file, and kCorruption if it is damaged.
Result<StagedFile> LoadStagedFile(const std::string& directory, const std::string& name);
// Checks the staged file with this name and its pages files. Returns kNotFound if there is no such
// staged file, and kCorruption if it is damaged or a pages file is missing or cut off.
Status CheckStagedFile(const std::string& directory, const std::string& name);

std::string EncodeStagedFile(const StagedFile& file);
// Returns the staged file that these bytes encode. Errors name `path`. Returns kCorruption for
// damaged bytes.
Result<StagedFile> DecodeStagedFile(std::string_view bytes, const std::string& path);

}  // namespace topicdb
