// The files of a queue of TopicDB's own format, beside its segments: QUEUE and one for each cursor.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <random>

#include "base/bytes/coding.h"
#include "base/clock.h"
#include "base/file/files.h"
#include "queue/queue_files.h"
#include "segment/slot_file.h"

namespace topicdb {

namespace {

constexpr SlotMagic kRecordMagic = "TDBQUEU\n";
constexpr SlotMagic kCursorMagic = "TDBCURS\n";
constexpr std::string_view kRecordFile = "QUEUE";
constexpr std::string_view kLockFile = "QUEUE.lock";
constexpr std::uint8_t kOpen = 1;
constexpr std::uint8_t kClosed = 2;
constexpr std::uint8_t kOpenWeighed = 3;
constexpr std::uint8_t kClosedWeighed = 4;

std::uint8_t KindOf(const QueueRecord& record) {
  if (record.weighed) return record.closed_end.has_value() ? kClosedWeighed : kOpenWeighed;
  return record.closed_end.has_value() ? kClosed : kOpen;
}

QueueId NewQueueId() {
  std::random_device random;
  QueueId id;
  std::generate(id.begin(), id.end(), [&] { return static_cast<char>(random()); });
  return id;
}

std::string EncodeRecord(const QueueRecord& record) {
  std::string out(record.id.data(), record.id.size());
  AppendVarint(&out, static_cast<std::uint64_t>(MicrosecondsOf(record.created_at)));
  AppendVarint(&out, record.sequence_ceiling);
  out.push_back(static_cast<char>(KindOf(record)));
  const LogEnd end = record.closed_end.value_or(LogEnd{});
  AppendVarint(&out, end.segment);
  AppendVarint(&out, end.end.offset);
  AppendVarint(&out, end.end.sequence);
  AppendVarint(&out, end.end.payload_bytes);
  if (record.weighed) AppendVarint(&out, end.end.weight);
  return out;
}

Result<QueueRecord> DecodeRecord(std::string_view content) {
  Decoder in(content);
  QueueRecord record;
  in.Array(&record.id);
  record.created_at = TimeAt<WallTime>(static_cast<std::int64_t>(in.Varint()));
  record.sequence_ceiling = in.Varint();
  const auto kind = in.Little<std::uint8_t>();
  LogEnd end;
  end.segment = in.Varint();
  end.end.offset = in.Varint();
  end.end.sequence = in.Varint();
  end.end.payload_bytes = in.Varint();
  record.weighed = kind == kOpenWeighed || kind == kClosedWeighed;
  if (record.weighed) end.end.weight = in.Varint();
  const bool closed = kind == kClosed || kind == kClosedWeighed;
  const bool known = closed || kind == kOpen || kind == kOpenWeighed;
  if (!in.Finished() || record.sequence_ceiling == 0 || !known) {
    return Corruption("what it says of the queue is malformed");
  }
  if (closed) record.closed_end = end;
  return record;
}

// The QueueFiles of TopicDB's own format: a SlotFile for the record, and one for each cursor.
class NativeFiles : public QueueFiles {
 public:
  explicit NativeFiles(std::string directory) : directory_(std::move(directory)) {}

  Status Open();

  QueueFormat format() const override { return QueueFormat::kTopicdb; }
  const SegmentFormat& segment_format() const override { return NativeSegmentFormat(); }
  const FileLock& lock() const override { return *lock_; }
  const QueueRecord& record() const override { return record_; }
  bool record_damaged() const override { return slots_->damaged(); }
  Status WriteRecord(const QueueRecord& record) override {
    TOPICDB_RETURN_IF_ERROR(slots_->Write(EncodeRecord(record), /*sync=*/true));
    record_ = record;
    return Status::Ok();
  }
  Result<std::vector<std::unique_ptr<Consumer>>> LoadConsumers(
      std::vector<LogDamage>* damage) override;
  Status WriteConsumer(const Consumer& consumer, bool sync) override;
  Status RemoveConsumer(const std::string& name) override;

 private:
  // Returns kCorruption if the directory has files, but not those of a queue.
  Status CheckDirectory() const;
  // Makes the record of a new queue, which counts as closed.
  Status Create();
  std::string PathOf(std::string_view file) const { return directory_ + "/" + std::string(file); }
  std::string CursorPath(const std::string& name) const { return PathOf(name + ".cursor"); }

  const std::string directory_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<SlotFile> slots_;
  QueueRecord record_;
  std::map<std::string, std::unique_ptr<SlotFile>> cursors_;
};

Status NativeFiles::CheckDirectory() const {
  TOPICDB_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory_));
  if (std::find(names.begin(), names.end(), kRecordFile) != names.end()) return Status::Ok();
  const bool unused = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return name == kLockFile || name == std::string(kRecordFile) + ".tmp";
  });
  if (unused) return Status::Ok();
  return Corruption(directory_ +
                    " is no queue: it has no file QUEUE, but other files; if it was one, "
                    "`topicdb queue repair` finds out what is left");
}

Status NativeFiles::Open() {
  TOPICDB_RETURN_IF_ERROR(CheckDirectory());
  TOPICDB_ASSIGN_OR_RETURN(lock_, FileLock::Acquire(PathOf(kLockFile)));
  auto slots = SlotFile::Open(PathOf(kRecordFile), kRecordMagic);
  if (!slots.ok() && slots.status().code() == Code::kNotFound) return Create();
  if (!slots.ok()) return slots.status();
  slots_ = std::move(slots).value();
  auto record = DecodeRecord(slots_->content());
  if (!record.ok()) return record.status().WithContext(PathOf(kRecordFile));
  record_ = std::move(record).value();
  return Status::Ok();
}

Status NativeFiles::Create() {
  record_.id = NewQueueId();
  record_.created_at = ReadWallClock();
  record_.closed_end = LogEnd{0, {0, 1, 0}};
  TOPICDB_ASSIGN_OR_RETURN(
      slots_, SlotFile::Create(PathOf(kRecordFile), kRecordMagic, EncodeRecord(record_)));
  return Status::Ok();
}

Result<std::vector<std::unique_ptr<Consumer>>> NativeFiles::LoadConsumers(
    std::vector<LogDamage>* damage) {
  std::vector<std::unique_ptr<Consumer>> consumers;
  TOPICDB_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory_));
  for (const std::string& file : names) {
    const auto name = CursorOfFile(file);
    if (!name.has_value()) continue;
    const std::string path = PathOf(file);
    auto slots = SlotFile::Open(path, kCursorMagic);
    Status status = slots.status();
    if (slots.ok()) {
      auto consumer = Consumer::Decode((*slots)->content());
      status = consumer.status();
      if (status.ok()) consumers.push_back(std::move(consumer).value());
    }
    if (status.ok()) {
      if ((*slots)->damaged()) {
        damage->push_back({path,
                           "one of its copies is damaged; what was acknowledged last may be "
                           "delivered again",
                           0, 0});
      }
      cursors_[*name] = std::move(slots).value();
      continue;
    }
    if (status.code() != Code::kCorruption) return status;
    damage->push_back({path,
                       "is damaged: its cursor begins with the oldest item again; renamed "
                       "to " +
                           path + ".damaged",
                       0, 0});
    if (std::rename(path.c_str(), (path + ".damaged").c_str()) != 0) {
      return ErrnoFault("renaming", path, errno);
    }
    consumers.push_back(std::make_unique<Consumer>(*name, 0));
  }
  return consumers;
}

Status NativeFiles::WriteConsumer(const Consumer& consumer, bool sync) {
  const std::string content = consumer.Encode();
  const auto found = cursors_.find(consumer.name());
  if (found != cursors_.end()) return found->second->Write(content, sync);
  TOPICDB_ASSIGN_OR_RETURN(auto slots,
                           SlotFile::Create(CursorPath(consumer.name()), kCursorMagic, content));
  cursors_[consumer.name()] = std::move(slots);
  return Status::Ok();
}

Status NativeFiles::RemoveConsumer(const std::string& name) {
  cursors_.erase(name);
  const std::string path = CursorPath(name);
  return Exists(path) ? RemoveFile(path) : Status::Ok();
}

}  // namespace

Result<std::unique_ptr<QueueFiles>> OpenNativeFiles(const std::string& directory) {
  auto files = std::make_unique<NativeFiles>(directory);
  TOPICDB_RETURN_IF_ERROR(files->Open());
  return std::unique_ptr<QueueFiles>(std::move(files));
}

Status ReadNativeFiles(const std::string& directory, QueueFilesInfo* info) {
  const std::string path = directory + "/" + std::string(kRecordFile);
  const auto slots = SlotFile::Read(path, kRecordMagic);
  if (slots.ok()) {
    const auto record = DecodeRecord(slots->content);
    if (record.ok()) info->record = *record;
    if (slots->damaged) info->damage.push_back({path, "one of its copies is damaged", 0, 0});
  }
  if (!info->record.has_value()) {
    info->damage.push_back({path, "is missing or damaged; repair the queue", 0, 0});
  }
  TOPICDB_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory));
  for (const std::string& file : names) {
    if (!CursorOfFile(file).has_value()) continue;
    const auto content = SlotFile::Read(directory + "/" + file, kCursorMagic);
    auto consumer = content.ok() ? Consumer::Decode(content->content) : content.status();
    if (!consumer.ok() || content->damaged) {
      info->damage.push_back({directory + "/" + file, "is damaged", 0, 0});
    }
    if (consumer.ok()) info->consumers.push_back(std::move(consumer).value());
  }
  return Status::Ok();
}

Status WriteNativeRecord(const std::string& directory, const QueueRecord& record) {
  TOPICDB_ASSIGN_OR_RETURN(const auto lock,
                           FileLock::Acquire(directory + "/" + std::string(kLockFile)));
  return SlotFile::Create(directory + "/" + std::string(kRecordFile), kRecordMagic,
                          EncodeRecord(record))
      .status();
}

}  // namespace topicdb
