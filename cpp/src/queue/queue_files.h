// What a queue keeps on disk beside its segments. Drawn in docs/format.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "queue/consumer.h"
#include "segment/segment_log.h"
#include "topicdb/queue.h"

namespace topicdb {

// What must be known before the segments are read.
struct QueueRecord {
  QueueId id{};
  std::int64_t created_at_us = 0;
  // Numbers below this may have been given to items, whether those are stored or not.
  std::uint64_t sequence_ceiling = 1;
  // Where the log ended when the queue was closed; absent while it is open, and after a crash.
  std::optional<LogEnd> closed_end;
};

// The name of the cursor in a file of that name; none if it is no cursor's.
std::optional<std::string> CursorOfFile(const std::string& file_name);
// kInvalidArgument if a cursor may not have that name.
Status CheckCursorName(const std::string& name);

// Not thread-safe.
class QueueFiles {
 public:
  // Locks the directory and reads what it has; makes it if there is nothing. A directory of
  // replayq's is taken as such. kCorruption for a directory with other things in it, or whose
  // record is damaged; kInvalidArgument if it is not of the `format` that is asked for.
  static Result<std::unique_ptr<QueueFiles>> Open(const std::string& directory,
                                                  std::optional<QueueFormat> format,
                                                  QueueMode mode);
  QueueFiles() = default;
  virtual ~QueueFiles() = default;
  QueueFiles(const QueueFiles&) = delete;
  QueueFiles& operator=(const QueueFiles&) = delete;

  virtual QueueFormat format() const = 0;
  virtual const SegmentFormat& segment_format() const = 0;
  virtual const QueueRecord& record() const = 0;
  // Whether one copy of the record is damaged, so that it may be an old one.
  virtual bool record_damaged() const = 0;
  virtual Status WriteRecord(const QueueRecord& record) = 0;

  // The cursors that are stored. What is damaged is renamed and told in `damage`; such a cursor
  // comes with the number 0.
  virtual Result<std::vector<std::unique_ptr<Consumer>>> LoadConsumers(
      std::vector<LogDamage>* damage) = 0;
  virtual Status WriteConsumer(const Consumer& consumer, bool sync) = 0;
  virtual Status RemoveConsumer(const std::string& name) = 0;
};

// What the files of a directory say, without a lock and without changing anything.
struct QueueFilesInfo {
  QueueFormat format = QueueFormat::kTopicdb;
  std::optional<QueueRecord> record;  // absent if it is damaged, and for kReplayq
  std::vector<std::unique_ptr<Consumer>> consumers;
  std::vector<LogDamage> damage;
};
// kNotFound; kCorruption for a directory that is no queue.
Result<QueueFilesInfo> ReadQueueFiles(const std::string& directory);
// Writes QUEUE anew. REQUIRES: nobody has the queue open
Status WriteNativeRecord(const std::string& directory, const QueueRecord& record);

// TopicDB's own: QUEUE, and a file for each cursor.
Result<std::unique_ptr<QueueFiles>> OpenNativeFiles(const std::string& directory);
Status ReadNativeFiles(const std::string& directory, QueueFilesInfo* info);
Status ReadReplayqFiles(const std::string& directory, QueueFilesInfo* info);
// Whether a directory with these names in it, none of them a segment, is a queue of replayq's
// format all the same: it has a COMMIT, or was opened as such here before.
bool IsReplayqWithoutSegments(const std::string& directory, const std::vector<std::string>& names);
// replayq's: COMMIT, for the default cursor.
Result<std::unique_ptr<QueueFiles>> OpenReplayqFiles(const std::string& directory);

}  // namespace topicdb
