// Checks a database on disk.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "topicdb/interrupt.h"
#include "topicdb/status.h"
#include "topicdb/types/iterator.h"

namespace topicdb {

// Something that cannot be right, and what it has cost as far as that is known.
struct Problem {
  std::string what;  // a sentence that names the file, block or record
  std::optional<std::uint32_t> shard = {};
  std::optional<SlabId> slab = {};
  std::string retention_class = {};          // the topic filter of the slab's class
  std::vector<std::string> structures = {};  // of the streams that may have the messages
  std::uint64_t messages = 0;                // that cannot be read
  // The first and last timestamp of these messages.
  std::optional<std::pair<std::int64_t, std::int64_t>> times = {};
};

// What VerifyDatabase has found, and how much it has checked.
struct Verification {
  std::vector<Problem> problems;  // by shard
  std::uint64_t shards = 0;       // that were checked
  std::uint64_t slabs = 0;
  std::uint64_t blocks = 0;
  std::uint64_t pages = 0;
  std::uint64_t messages = 0;  // that are stored; deleted ones may be among them
};

// How VerifyDatabase checks.
struct VerifyOptions {
  // True: checks every byte and message. False: checks only what describes them: files, entries and
  // directories.
  bool deep = true;
  // Called by the calling thread some times a second with numbers of messages, which are estimates.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = nullptr;
};

// Checks what is on disk of the database at `path`, with as many threads as there are processors.
// May run while another handle or process writes the database; it then checks the database as it
// was at some moment. Any thread may call it. Damage is no error: the result reports it. Returns
// kNotFound, kInterrupted, kStorage, or kSchema for a newer format.
Result<Verification> VerifyDatabase(const std::string& path, const VerifyOptions& options,
                                    const InterruptCheck& interrupted = nullptr);

}  // namespace topicdb
