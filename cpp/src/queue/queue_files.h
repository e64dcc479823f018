// What a queue keeps on disk beside its segments: the file QUEUE and one for each cursor. Drawn in
// docs/format.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "segment/segment_log.h"
#include "segment/slot_file.h"

namespace topicdb {

// The file QUEUE: what must be known before the segments are read.
struct QueueRecord {
  QueueId id{};
  std::int64_t created_at_us = 0;
  // Numbers below this may have been given to items, whether those are stored or not.
  std::uint64_t sequence_ceiling = 1;
  // Where the log ended when the queue was closed; absent while it is open, and after a crash.
  std::optional<LogEnd> closed_end;
};

std::string EncodeQueueRecord(const QueueRecord& record);
Result<QueueRecord> DecodeQueueRecord(std::string_view content);

// The name of the cursor in a file of that name; none if it is no cursor's.
std::optional<std::string> CursorOfFile(const std::string& file_name);
std::string FileOfCursor(const std::string& name);
// kInvalidArgument if a cursor may not have that name.
Status CheckCursorName(const std::string& name);

// Not thread-safe.
class QueueFiles {
 public:
  // Locks the directory and reads the record; makes both if there is nothing. kCorruption for a
  // directory with other things in it, or whose record is damaged.
  static Result<std::unique_ptr<QueueFiles>> Open(const std::string& directory);

  const std::string& directory() const { return directory_; }
  const QueueRecord& record() const { return record_; }
  // Whether one copy of the record is damaged, so that it may be an old one.
  bool record_damaged() const { return slots_->damaged(); }
  Status WriteRecord(const QueueRecord& record);

  // What the files of cursors say, by name. A damaged one is renamed and told in `damage`.
  Result<std::map<std::string, std::string>> LoadCursors(std::vector<LogDamage>* damage);
  Status WriteCursor(const std::string& name, const std::string& content, bool sync);
  Status RemoveCursor(const std::string& name);

 private:
  explicit QueueFiles(std::string directory) : directory_(std::move(directory)) {}
  Status Create();

  const std::string directory_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<SlotFile> slots_;
  QueueRecord record_;
  std::map<std::string, std::unique_ptr<SlotFile>> cursors_;
};

}  // namespace topicdb
