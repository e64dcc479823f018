#include "segment/segment_log.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/file/files.h"

namespace topicdb {

Result<std::unique_ptr<SegmentLog>> SegmentLog::Open(const SegmentLogOptions& options,
                                                     const std::optional<LogEnd>& known_end,
                                                     std::uint64_t next_sequence,
                                                     std::vector<LogDamage>* damage) {
  TOPICDB_ASSIGN_OR_RETURN(FoundSegments found, FindSegments(options, known_end, false));
  std::unique_ptr<SegmentLog> log(new SegmentLog(options));
  const MutexLock lock(log->mutex_);
  damage->insert(damage->end(), found.damage.begin(), found.damage.end());
  log->segments_.assign(std::make_move_iterator(found.segments.begin()),
                        std::make_move_iterator(found.segments.end()));
  log->next_number_ = found.next_number;
  log->previous_end_ = found.previous_end;
  log->next_sequence_ = std::max(next_sequence, found.previous_end);
  if (known_end.has_value()) {
    log->names_synced_before_ = log->next_number_;
  } else {
    for (const SegmentState& state : log->segments_)
      log->unsynced_[state.identity.number] = nullptr;
  }
  log->UpdateFreeAt();
  if (log->segments_.empty() || log->segments_.back().sealed) return log;
  const SegmentState& last = log->segments_.back();
  TOPICDB_ASSIGN_OR_RETURN(
      log->writer_, SegmentWriter::Continue(last.path, *options.format, last.identity, last.end,
                                            options.segment_bytes));
  // Numbers within a segment have no gaps, and either all of its items have weights or none.
  if (log->next_sequence_ != last.end.sequence || last.identity.weighed != options.weighed) {
    TOPICDB_RETURN_IF_ERROR(log->SealLast());
  }
  return log;
}

Status SegmentLog::StartSegment() {
  TOPICDB_RETURN_IF_ERROR(CheckInPlace());
  SegmentState state;
  while (format().FirstSequence(next_number_, next_sequence_) < next_sequence_) ++next_number_;
  const std::uint64_t first = format().FirstSequence(next_number_, next_sequence_);
  state.identity = {next_number_, first, previous_end_, options_.queue_id, options_.weighed};
  state.path = options_.directory + "/" + format().FileName(next_number_);
  state.weight_before = WeightAtEnd();
  state.items_before = ItemsAtEnd();
  TOPICDB_ASSIGN_OR_RETURN(
      writer_, SegmentWriter::Create(state.path, format(), state.identity, options_.segment_bytes));
  state.end = writer_->end();
  segments_.push_back(std::move(state));
  next_sequence_ = first;
  ++next_number_;
  return Status::Ok();
}

Status SegmentLog::SealLast() {
  TOPICDB_RETURN_IF_ERROR(writer_->Seal());
  segments_.back().sealed = true;
  UpdateFreeAt();
  if (options_.durable && unsynced_.emplace(writer_->identity().number, writer_->file()).second) {
    ++files_to_sync_;
  }
  writer_.reset();
  return Status::Ok();
}

SegmentLog::UnsyncedFiles::iterator SegmentLog::Forget(UnsyncedFiles::iterator file) {
  if (file->second != nullptr) --files_to_sync_;
  return unsynced_.erase(file);
}

Status SegmentLog::PrepareWriter() {
  if (writer_ != nullptr && writer_->end().offset >= options_.segment_bytes) {
    TOPICDB_RETURN_IF_ERROR(SealLast());
  }
  return writer_ == nullptr ? StartSegment() : Status::Ok();
}

Result<std::uint64_t> SegmentLog::Append(const WeighedItems& items, bool through) {
  const MutexLock lock(mutex_);
  TOPICDB_RETURN_IF_ERROR(PrepareWriter());
  TOPICDB_RETURN_IF_ERROR(writer_->Append(items, through));
  segments_.back().end = writer_->end();
  const std::uint64_t first = next_sequence_;
  next_sequence_ = previous_end_ = writer_->end().sequence;
  return first;
}

Status SegmentLog::WriteOut() {
  const MutexLock lock(mutex_);
  return writer_ == nullptr ? Status::Ok() : writer_->WriteOut();
}

Status SegmentLog::Sync() {
  UnsyncedFiles sealed;
  std::shared_ptr<File> growing;
  std::uint64_t growing_number = 0;
  std::uint64_t next_number = 0;
  bool directory = false;
  {
    const MutexLock lock(mutex_);
    if (writer_ != nullptr) {
      TOPICDB_RETURN_IF_ERROR(writer_->WriteOut());
      growing = writer_->file();
      growing_number = writer_->identity().number;
    }
    sealed = unsynced_;
    next_number = next_number_;
    directory = names_synced_before_ < next_number;
  }
  for (const auto& [number, file] : sealed) TOPICDB_RETURN_IF_ERROR(SyncSealed(number, file.get()));
  if (growing != nullptr) TOPICDB_RETURN_IF_ERROR(growing->Sync());
  if (directory) TOPICDB_RETURN_IF_ERROR(SyncDirectory(options_.directory));
  const Status in_place = growing == nullptr ? Status::Ok() : growing->CheckInPlace();
  const MutexLock lock(mutex_);
  // A segment that was sealed and freed meanwhile is removed, and nobody needs it any more.
  const bool is_kept = std::any_of(
      segments_.begin(), segments_.end(),
      [&](const SegmentState& state) { return state.identity.number == growing_number; });
  if (is_kept) TOPICDB_RETURN_IF_ERROR(in_place);
  names_synced_before_ = std::max(names_synced_before_, next_number);
  // The growing file stays. If its segment was sealed meanwhile, bytes may have been written there
  // after the fsync began.
  for (const auto& [number, file] : sealed) {
    // It may have been freed meanwhile.
    if (const auto found = unsynced_.find(number); found != unsynced_.end()) Forget(found);
  }
  return Status::Ok();
}

Status SegmentLog::SyncSealed(std::uint64_t number, const File* file) const {
  if (file != nullptr) return file->Sync();
  const auto opened = File::OpenForWriting(options_.directory + "/" + format().FileName(number));
  if (opened.status().code() == Code::kNotFound) return Status::Ok();  // it was freed meanwhile
  return opened.ok() ? (*opened)->Sync() : opened.status();
}

Result<LogEnd> SegmentLog::Close() {
  const MutexLock lock(mutex_);
  if (writer_ == nullptr) return LogEnd{};
  TOPICDB_RETURN_IF_ERROR(writer_->Finish());
  return LogEnd{writer_->identity().number, writer_->end()};
}

std::vector<std::string> SegmentLog::Detach(std::uint64_t sequence) {
  const MutexLock lock(mutex_);
  std::vector<std::string> paths;
  if (!CheckInPlace().ok()) return paths;  // somebody else's segments may have these paths now
  for (const SegmentState& state : segments_) {
    if (!state.sealed || state.end.sequence > sequence) break;
    paths.push_back(state.path);
    freed_weight_ = state.weight_before + state.end.weight;
    freed_items_ = state.items_before + state.end.sequence - state.identity.first_sequence;
  }
  segments_.erase(segments_.begin(), segments_.begin() + static_cast<std::ptrdiff_t>(paths.size()));
  // A file that stays open keeps its space when it is removed.
  const std::uint64_t kept = segments_.empty() ? next_number_ : segments_.front().identity.number;
  for (auto file = unsynced_.begin(); file != unsynced_.end() && file->first < kept;) {
    file = Forget(file);
  }
  UpdateFreeAt();
  return paths;
}

Status SegmentLog::RemoveSegments(const std::vector<std::string>& paths) {
  Status status;
  for (const std::string& path : paths) {
    // No fsync follows. A file that comes back after a loss of power has nothing that anybody would
    // read.
    if (unlink(path.c_str()) != 0 && errno != ENOENT) status = ErrnoFault("removing", path, errno);
  }
  return status;
}

Status SegmentLog::Clear() {
  {
    const MutexLock lock(mutex_);
    if (writer_ != nullptr) TOPICDB_RETURN_IF_ERROR(SealLast());
  }
  return FreeBefore(UINT64_MAX);
}

std::uint64_t SegmentLog::WeightAtEnd() const {
  if (segments_.empty()) return freed_weight_;
  const SegmentState& last = segments_.back();
  return last.weight_before + last.end.weight;
}

std::uint64_t SegmentLog::ItemsAtEnd() const {
  if (segments_.empty()) return freed_items_;
  const SegmentState& last = segments_.back();
  return last.items_before + last.end.sequence - last.identity.first_sequence;
}

void SegmentLog::UpdateFreeAt() {
  const bool some = !segments_.empty() && segments_.front().sealed;
  free_at_.store(some ? segments_.front().end.sequence : UINT64_MAX, std::memory_order_release);
}

Status SegmentLog::SkipTo(std::uint64_t sequence) {
  const MutexLock lock(mutex_);
  if (sequence == next_sequence_) return Status::Ok();
  if (sequence < next_sequence_) {
    return StorageFault("the segments in " + options_.directory + " go up to item " +
                        std::to_string(next_sequence_ - 1) + ", so the next cannot be item " +
                        std::to_string(sequence));
  }
  if (writer_ != nullptr) TOPICDB_RETURN_IF_ERROR(SealLast());
  next_sequence_ = sequence;
  return Status::Ok();
}

std::uint64_t SegmentLog::begin_sequence() const {
  const MutexLock lock(mutex_);
  return segments_.empty() ? next_sequence_ : segments_.front().identity.first_sequence;
}

std::uint64_t SegmentLog::end_sequence() const {
  const MutexLock lock(mutex_);
  return next_sequence_;
}

std::uint64_t SegmentLog::end_weight() const {
  const MutexLock lock(mutex_);
  return WeightAtEnd();
}

std::uint64_t SegmentLog::end_items() const {
  const MutexLock lock(mutex_);
  return ItemsAtEnd();
}

std::vector<SegmentState> SegmentLog::Segments() const {
  const MutexLock lock(mutex_);
  return {segments_.begin(), segments_.end()};
}

LogFiles SegmentLog::CountFiles() const {
  const MutexLock lock(mutex_);
  LogFiles files{segments_.size(), 0};
  for (const SegmentState& state : segments_) files.bytes += state.end.offset;
  return files;
}

Result<std::optional<SegmentState>> SegmentLog::Find(std::uint64_t sequence) {
  const MutexLock lock(mutex_);
  const auto found = std::upper_bound(
      segments_.begin(), segments_.end(), sequence,
      [](std::uint64_t wanted, const SegmentState& state) { return wanted < state.end.sequence; });
  if (found == segments_.end()) return std::optional<SegmentState>();
  if (!found->sealed) TOPICDB_RETURN_IF_ERROR(writer_->WriteOut());
  return std::optional(*found);
}

}  // namespace topicdb
