#include "queue/queue_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <random>

#include "base/clock.h"
#include "base/coding.h"
#include "topicdb/queue.h"

namespace topicdb {

namespace {
constexpr SlotMagic kRecordMagic = "TDBQUEU\n";
constexpr SlotMagic kCursorMagic = "TDBCURS\n";
constexpr std::string_view kRecordFile = "QUEUE";
constexpr std::string_view kLockFile = "QUEUE.lock";
constexpr std::string_view kCursorExtension = ".cursor";
constexpr std::size_t kCursorNameMax = 64;

QueueId NewQueueId() {
  std::random_device random;
  QueueId id;
  std::generate(id.begin(), id.end(), [&] { return static_cast<char>(random()); });
  return id;
}
}  // namespace

std::string EncodeQueueRecord(const QueueRecord& record) {
  std::string out(record.id.data(), record.id.size());
  AppendVarint(&out, static_cast<std::uint64_t>(record.created_at_us));
  AppendVarint(&out, record.sequence_ceiling);
  out.push_back(record.closed_end.has_value() ? 2 : 1);
  const LogEnd end = record.closed_end.value_or(LogEnd{});
  AppendVarint(&out, end.segment);
  AppendVarint(&out, end.end.offset);
  AppendVarint(&out, end.end.sequence);
  AppendVarint(&out, end.end.payload_bytes);
  return out;
}

Result<QueueRecord> DecodeQueueRecord(std::string_view content) {
  Decoder in(content);
  QueueRecord record;
  const std::string_view id = in.Bytes(record.id.size());
  std::copy(id.begin(), id.end(), record.id.begin());
  record.created_at_us = static_cast<std::int64_t>(in.Varint());
  record.sequence_ceiling = in.Varint();
  const auto kind = in.Little<std::uint8_t>();
  LogEnd end;
  end.segment = in.Varint();
  end.end.offset = in.Varint();
  end.end.sequence = in.Varint();
  end.end.payload_bytes = in.Varint();
  if (!in.Finished() || record.sequence_ceiling == 0 || (kind != 1 && kind != 2)) {
    return Corruption("what it says of the queue is malformed");
  }
  if (kind == 2) record.closed_end = end;
  return record;
}

Status CheckCursorName(const std::string& name) {
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  };
  if (!name.empty() && name.size() <= kCursorNameMax && name[0] != '.' &&
      std::all_of(name.begin(), name.end(), allowed)) {
    return Status::Ok();
  }
  return InvalidArgument("a cursor's name has 1 to 64 letters, digits, '_', '-' and '.', and does "
                         "not begin with '.'; got '" + name + "'");
}

std::string FileOfCursor(const std::string& name) { return name + std::string(kCursorExtension); }

std::optional<std::string> CursorOfFile(const std::string& file_name) {
  if (!file_name.ends_with(kCursorExtension)) return std::nullopt;
  std::string name = file_name.substr(0, file_name.size() - kCursorExtension.size());
  return CheckCursorName(name).ok() ? std::optional(std::move(name)) : std::nullopt;
}

Result<std::unique_ptr<QueueFiles>> QueueFiles::Open(const std::string& directory) {
  std::unique_ptr<QueueFiles> files(new QueueFiles(directory));
  TOPICDB_RETURN_IF_ERROR(MakeDirectory(directory));
  TOPICDB_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory));
  const auto has = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const bool ours = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return name == kLockFile || name == std::string(kRecordFile) + ".tmp";
  });
  if (!has(kRecordFile) && !ours) {
    return Corruption(directory + " is no queue: it has no file QUEUE, but other files");
  }
  auto lock = FileLock::Acquire(directory + "/" + std::string(kLockFile));
  if (!lock.ok()) {
    return lock.status().code() == Code::kLocked
               ? Locked("queue " + lock.status().message() + "; it can be opened once at a time")
               : lock.status();
  }
  files->lock_ = std::move(lock).value();
  const std::string path = directory + "/" + std::string(kRecordFile);
  auto slots = SlotFile::Open(path, kRecordMagic);
  if (!slots.ok() && slots.status().code() == Code::kNotFound) {
    TOPICDB_RETURN_IF_ERROR(files->Create());
    return files;
  }
  if (!slots.ok()) return slots.status();
  files->slots_ = std::move(slots).value();
  auto record = DecodeQueueRecord(files->slots_->content());
  if (!record.ok()) return record.status().WithContext(path);
  files->record_ = std::move(record).value();
  return files;
}

Status QueueFiles::Create() {
  record_.id = NewQueueId();
  record_.created_at_us = SystemClockUs();
  record_.closed_end = LogEnd{0, {0, 1, 0}};
  TOPICDB_ASSIGN_OR_RETURN(slots_, SlotFile::Create(directory_ + "/" + std::string(kRecordFile),
                                                    kRecordMagic, EncodeQueueRecord(record_)));
  return Status::Ok();
}

Status QueueFiles::WriteRecord(const QueueRecord& record) {
  TOPICDB_RETURN_IF_ERROR(slots_->Write(EncodeQueueRecord(record), /*sync=*/true));
  record_ = record;
  return Status::Ok();
}

Result<std::map<std::string, std::string>> QueueFiles::LoadCursors(
    std::vector<LogDamage>* damage) {
  std::map<std::string, std::string> contents;
  TOPICDB_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory_));
  for (const std::string& file_name : names) {
    const auto name = CursorOfFile(file_name);
    if (!name.has_value()) continue;
    const std::string path = directory_ + "/" + file_name;
    auto slots = SlotFile::Open(path, kCursorMagic);
    if (slots.ok()) {
      if ((*slots)->damaged()) {
        damage->push_back({path, "one of its copies is damaged; what was acknowledged last may "
                                 "be delivered again", 0, 0});
      }
      contents[*name] = (*slots)->content();
      cursors_[*name] = std::move(slots).value();
      continue;
    }
    if (slots.status().code() != Code::kCorruption) return slots.status();
    damage->push_back({path, "is damaged: its cursor begins with the oldest item again; renamed to "
                             + path + ".damaged", 0, 0});
    if (std::rename(path.c_str(), (path + ".damaged").c_str()) != 0) {
      return ErrnoFault("renaming", path, errno);
    }
  }
  return contents;
}

Status QueueFiles::WriteCursor(const std::string& name, const std::string& content, bool sync) {
  const auto found = cursors_.find(name);
  if (found != cursors_.end()) return found->second->Write(content, sync);
  TOPICDB_ASSIGN_OR_RETURN(
      auto slots, SlotFile::Create(directory_ + "/" + FileOfCursor(name), kCursorMagic, content));
  cursors_[name] = std::move(slots);
  return Status::Ok();
}

Status QueueFiles::RemoveCursor(const std::string& name) {
  cursors_.erase(name);
  struct stat info{};
  const std::string path = directory_ + "/" + FileOfCursor(name);
  return stat(path.c_str(), &info) == 0 ? RemoveFile(path) : Status::Ok();
}

}  // namespace topicdb
