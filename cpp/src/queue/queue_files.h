// The files that a queue keeps beside its segments. docs/internals/format.md draws them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file/files.h"
#include "queue/consumer.h"
#include "segment/segment_log.h"
#include "topicdb/queue.h"
#include "topicdb/types/times.h"

namespace topicdb {

// What a queue must know before it reads its segments.
struct QueueRecord {
  QueueId id{};
  WallTime created_at;
  // Numbers below this may have been given to items, whether or not those are stored.
  std::uint64_t sequence_ceiling = 1;
  // Where the log ended when the queue was closed. Absent while it is open, and after a crash.
  std::optional<LogEnd> closed_end;
  // Whether items with weights were ever appended. Earlier versions, which cannot read these, then
  // refuse the record.
  bool weighed = false;
};

// Returns the name of the cursor that is stored in a file of that name. Returns nothing if the file
// is not a cursor's.
std::optional<std::string> CursorOfFile(const std::string& file_name);
// Returns kInvalidArgument if a cursor may not have that name.
Status CheckCursorName(const std::string& name);

// Reads and writes the record and the cursors of one queue. The queue owns it, and it holds the
// directory's lock as long as it lives. Not thread-safe: the queue's files_mutex_ guards it.
class QueueFiles {
 public:
  // Locks the directory and reads its files, or makes it if there is nothing. Recognizes a
  // directory of replayq's format. Returns kCorruption if there are other things in the directory,
  // or if its record is damaged. Returns kInvalidArgument if it is not of the `format` that is
  // asked for, or if `mode` is not kDisk for replayq's format.
  static Result<std::unique_ptr<QueueFiles>> Open(const std::string& directory,
                                                  std::optional<QueueFormat> format,
                                                  QueueMode mode);
  QueueFiles() = default;
  virtual ~QueueFiles() = default;
  QueueFiles(const QueueFiles&) = delete;
  QueueFiles& operator=(const QueueFiles&) = delete;

  virtual QueueFormat format() const = 0;
  virtual const SegmentFormat& segment_format() const = 0;
  // Returns the lock of the directory.
  virtual const FileLock& lock() const = 0;
  // Returns the record as it was read or written last.
  virtual const QueueRecord& record() const = 0;
  // Returns whether one copy of the record is damaged. record() may then be an old one.
  virtual bool record_damaged() const = 0;
  // Replaces the record, durably.
  virtual Status WriteRecord(const QueueRecord& record) = 0;

  // Returns the stored cursors. Renames a damaged file and adds it to `damage`. The cursor of such
  // a file has the low-water mark 0, which stands for the oldest item.
  virtual Result<std::vector<std::unique_ptr<Consumer>>> LoadConsumers(
      std::vector<LogDamage>* damage) = 0;
  // Stores the state of a cursor. With `sync`, it is safe from loss of power when this returns.
  virtual Status WriteConsumer(const Consumer& consumer, bool sync) = 0;
  // Removes the stored state of a cursor. It is no error if there is none.
  virtual Status RemoveConsumer(const std::string& name) = 0;
};

// What the files of a directory say.
struct QueueFilesInfo {
  QueueFormat format = QueueFormat::kTopicdb;
  std::optional<QueueRecord> record;  // absent if it is damaged, and for kReplayq
  std::vector<std::unique_ptr<Consumer>> consumers;
  std::vector<LogDamage> damage;
};
// Reads the files without a lock and without changing anything. Returns kNotFound if there is no
// such directory, and kCorruption if it is not a queue.
Result<QueueFilesInfo> ReadQueueFiles(const std::string& directory);
// Rewrites the file QUEUE. REQUIRES: nobody has the queue open
Status WriteNativeRecord(const std::string& directory, const QueueRecord& record);

// Opens the files of TopicDB's own format: QUEUE, and a file for each cursor.
Result<std::unique_ptr<QueueFiles>> OpenNativeFiles(const std::string& directory);
// Read the files of one format for ReadQueueFiles, and add what they find to `info`.
Status ReadNativeFiles(const std::string& directory, QueueFilesInfo* info);
Status ReadReplayqFiles(const std::string& directory, QueueFilesInfo* info);
// Returns whether a directory with these names in it is a queue of replayq's format, although none
// of them is a segment: it has a COMMIT, or TopicDB has opened it as such before.
bool IsReplayqWithoutSegments(const std::string& directory, const std::vector<std::string>& names);
// Opens the files of replayq's format: COMMIT, for the default cursor.
Result<std::unique_ptr<QueueFiles>> OpenReplayqFiles(const std::string& directory);

}  // namespace topicdb
