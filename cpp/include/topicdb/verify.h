// Checking a database on disk.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "topicdb/interrupt.h"
#include "topicdb/types/iterator.h"
#include "topicdb/status.h"

namespace topicdb {

// Something that cannot be right, and what is lost by it as far as that is known.
struct Problem {
  std::string what;  // a sentence that names the file, block or record
  std::optional<std::uint32_t> shard = {};
  std::optional<SlabId> slab = {};
  std::string retention_class = {};          // of the slab: its topic filter
  std::vector<std::string> structures = {};  // of streams that the messages may be of
  std::uint64_t messages = 0;                // that cannot be read
  std::optional<std::pair<std::int64_t, std::int64_t>> times = {};  // their first and last one
};

struct Verification {
  std::vector<Problem> problems;  // by shard
  std::uint64_t shards = 0;       // that were checked
  std::uint64_t slabs = 0;
  std::uint64_t blocks = 0;
  std::uint64_t pages = 0;
  std::uint64_t messages = 0;  // stored ones; deleted ones may be among them
};

struct VerifyOptions {
  // Every byte and message. Else only what tells of them: files, entries, directories.
  bool deep = true;
  // Of messages, about; from the calling thread, some times a second.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = nullptr;
};

// Checks what is on disk of the database at `path`, with as many threads as there are processors,
// also while another handle or process writes it: then as it was at some moment. Damage is no error
// but in the report. kNotFound, kInterrupted, kStorage; kSchema for a newer format.
Result<Verification> VerifyDatabase(const std::string& path, const VerifyOptions& options,
                                    const InterruptCheck& interrupted = nullptr);

}  // namespace topicdb
