// The file in which a task of a job says what it has staged; docs/format.md draws it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/staged_block.h"
#include "topicdb/types/iterator.h"
#include "topicdb/status.h"

namespace topicdb {

// What is for one retention class of one shard.
struct StagedPart {
  std::uint32_t shard = 0;
  std::uint32_t retention_class = 0;
  std::string pages_file;  // beside the staged file
  std::uint64_t pages_file_bytes = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;  // of topics and values
  std::uint32_t block_count = 0;
  std::string blocks;  // encoded: together they may have more topics than memory should
};

struct StagedFile {
  DatabaseId database{};
  std::vector<StagedPart> parts;
};

// Adds a block to those of a part.
void AppendStagedBlock(const StagedBlock& block, StagedPart* part);
// Calls visit(block) for each block of a part until that fails. kCorruption.
Status ForEachStagedBlock(const StagedPart& part,
                          const std::function<Status(const StagedBlock&)>& visit);

// kCorruption unless the pages file of a part is in the job's directory, as long as it was written.
Status CheckPagesFile(const std::string& directory, const StagedPart& part);

// The file of this name in a job's directory; that, and its pages files. kNotFound, kCorruption.
Result<StagedFile> LoadStagedFile(const std::string& directory, const std::string& name);
Status CheckStagedFile(const std::string& directory, const std::string& name);

std::string EncodeStagedFile(const StagedFile& file);
// `path` is for messages. kCorruption.
Result<StagedFile> DecodeStagedFile(std::string_view bytes, const std::string& path);

}  // namespace topicdb
