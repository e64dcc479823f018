// Opening and closing a queue.
#include <unistd.h>

#include <algorithm>

#include "base/file/files.h"
#include "queue/queue_impl.h"

namespace topicdb {

namespace {
// If one copy of the record is damaged, the other may be too old to know all numbers that were
// given away. New items then get numbers this far beyond it.
constexpr std::uint64_t kSequencesSkipped = std::uint64_t{1} << 32;
}  // namespace

Status QueueImpl::Open() {
  ReadReport report;
  Status status;
  {
    const MutexLock lock(append_mutex_);
    if (options_.mode == QueueMode::kMemory) {
      memory_ = std::make_shared<MemoryLog>(1);
      auto consumer = std::make_shared<Consumer>(std::string(kDefaultCursor), 1);
      status = consumer->Attach(memory_, /*moved=*/true, &report);
      const MutexLock consumers(consumers_mutex_);
      consumers_.emplace(kDefaultCursor, std::move(consumer));
    } else {
      status = OpenFiles(&report);
    }
    if (status.ok()) UpdateBudget();
  }
  if (!status.ok()) return status;
  Tell(report);
  if (options_.mode != QueueMode::kMemory) StartKeeper();
  return Status::Ok();
}

Status QueueImpl::DeleteVolatile() {
  TOPICDB_RETURN_IF_ERROR(CheckInPlace());
  const MutexLock lock(files_mutex_);
  TOPICDB_ASSIGN_OR_RETURN(const auto names, ListDirectory(path_));
  for (const std::string& name : names) {
    const bool segment = NativeSegmentFormat().NumberOf(name).has_value();
    if (!segment && !CursorOfFile(name).has_value()) continue;
    if (unlink((path_ + "/" + name).c_str()) != 0) {
      return ErrnoFault("removing", path_ + "/" + name, errno);
    }
  }
  return Status::Ok();
}

Status QueueImpl::OpenFiles(ReadReport* report) {
  // Weights need TopicDB's own format.
  const auto wanted = options_.weighed ? QueueFormat::kTopicdb : options_.format;
  auto opened = QueueFiles::Open(path_, wanted, options_.mode);
  if (!opened.ok()) {
    const bool weighs = options_.weighed && opened.status().code() == Code::kInvalidArgument;
    return weighs ? ReplayqWeighs().WithContext(path_) : opened.status();
  }
  auto files = std::move(opened).value();
  const SegmentFormat& format = files->segment_format();
  const bool native = files->format() == QueueFormat::kTopicdb;
  reserves_sequences_ = native && options_.mode != QueueMode::kVolatile;
  has_cursors_ = native;
  QueueRecord record = files->record();
  const bool record_damaged = files->record_damaged();
  if (options_.weighed && !record.weighed) {
    record.weighed = true;
    TOPICDB_RETURN_IF_ERROR(files->WriteRecord(record));
  }
  place_ = files->lock().file();
  {
    const MutexLock lock(files_mutex_);
    files_ = std::move(files);
  }
  if (options_.mode == QueueMode::kVolatile) {
    TOPICDB_RETURN_IF_ERROR(DeleteVolatile());
    record.closed_end = LogEnd{0, {0, record.sequence_ceiling, 0}};
  }
  std::uint64_t next = record.sequence_ceiling;
  if (record_damaged) {
    report->damage.push_back({path_ + "/QUEUE", "one of its copies is damaged", 0, 0});
    record.closed_end.reset();
    next += kSequencesSkipped;
  }
  const SegmentLogOptions options{path_,
                                  &format,
                                  record.id,
                                  options_.segment_bytes,
                                  /*durable=*/options_.mode != QueueMode::kVolatile,
                                  options_.weighed,
                                  place_};
  TOPICDB_ASSIGN_OR_RETURN(auto segments,
                           SegmentLog::Open(options, record.closed_end, next, &report->damage));
  disk_ = std::make_shared<DiskLog>(std::move(segments));
  sequence_ceiling_ = record.closed_end.has_value() ? 0 : record.sequence_ceiling;
  TOPICDB_RETURN_IF_ERROR(OpenConsumers(&disk_->segments(), report));
  free_at_.store(disk_->free_at(), std::memory_order_release);
  spilled_ = true;
  const bool spills = options_.mode == QueueMode::kOffload || options_.mode == QueueMode::kVolatile;
  return spills && !HasItems() ? MoveToMemory(report) : Status::Ok();
}

Status QueueImpl::OpenConsumers(SegmentLog* segments, ReadReport* report) {
  std::vector<std::unique_ptr<Consumer>> stored;
  std::uint64_t begin_expected = 0;
  {
    const MutexLock lock(files_mutex_);
    TOPICDB_ASSIGN_OR_RETURN(stored, files_->LoadConsumers(&report->damage));
    const auto& closed_end = files_->record().closed_end;
    if (closed_end.has_value()) begin_expected = closed_end->end.sequence;
  }
  const std::vector<SegmentState> states = segments->Segments();
  if (!states.empty()) begin_expected = states.front().identity.previous_end;
  const std::uint64_t begin = segments->begin_sequence();
  const MutexLock lock(consumers_mutex_);
  for (auto& consumer : stored) {
    if (consumer->low_water() == 0) consumer = std::make_unique<Consumer>(consumer->name(), begin);
    const std::string name = consumer->name();
    consumers_[name] = std::move(consumer);
  }
  auto& main = consumers_[std::string(kDefaultCursor)];
  if (main == nullptr) main = std::make_shared<Consumer>(std::string(kDefaultCursor), begin);
  for (const auto& [name, consumer] : consumers_) {
    consumer->LoseBefore(begin_expected, path_, report);
    // A loss of power may have taken segments that a cursor has acknowledged. Their numbers are not
    // used again.
    const std::uint64_t next = std::max(consumer->low_water(), segments->end_sequence());
    TOPICDB_RETURN_IF_ERROR(segments->SkipTo(next));
    TOPICDB_RETURN_IF_ERROR(consumer->Attach(disk_, /*moved=*/false, report));
  }
  return Status::Ok();
}

Status QueueImpl::CloseFiles(ReadReport* report) {
  if (disk_ == nullptr) return Status::Ok();
  if (options_.mode == QueueMode::kVolatile) {
    TOPICDB_RETURN_IF_ERROR(disk_->segments().Clear());
    return DeleteVolatile();
  }
  if (memory_ != nullptr && HasItems()) TOPICDB_RETURN_IF_ERROR(MoveToDisk(report));
  const std::uint64_t next = log().end_sequence();
  TOPICDB_RETURN_IF_ERROR(disk_->segments().SkipTo(next));
  const Status synced = disk_->segments().Sync();
  TOPICDB_RETURN_IF_ERROR(CheckInPlace());  // this says more than that a file is gone
  TOPICDB_RETURN_IF_ERROR(synced);
  // Saves the cursors before it removes segments. Otherwise, if the process ends in between, a
  // stored cursor could ask for items that are gone.
  TOPICDB_RETURN_IF_ERROR(SaveCursors(/*sync=*/true));
  if (LowWater() >= next) TOPICDB_RETURN_IF_ERROR(disk_->segments().Clear());
  TOPICDB_ASSIGN_OR_RETURN(LogEnd end, disk_->segments().Close());
  end.end.sequence = next;
  TOPICDB_RETURN_IF_ERROR(disk_->FreeBefore(LowWater()));
  TOPICDB_RETURN_IF_ERROR(CheckInPlace());
  const MutexLock lock(files_mutex_);
  QueueRecord record = files_->record();
  record.sequence_ceiling = next;
  record.closed_end = end;
  return files_->WriteRecord(record);
}

Status QueueImpl::Close() {
  if (forked()) return Forked(Name() + " was opened by the parent process");
  if (!gate_.Close()) return Status::Ok();
  {
    const MutexLock lock(signal_mutex_);
    signal_.NotifyAll();
  }
  {
    const MutexLock lock(append_mutex_);
    room_.NotifyAll();
  }
  gate_.WaitForCalls();
  StopKeeper();
  ReadReport report;
  // After a failed fsync nobody knows what is on disk. The next Open finds out.
  Status status = CheckPoison();
  {
    const MutexLock lock(append_mutex_);
    if (status.ok()) status = CloseFiles(&report);
    if (options_.budget != nullptr) options_.budget->bytes_.fetch_sub(budget_bytes_);
    budget_bytes_ = 0;
  }
  Tell(report);
  const MutexLock lock(files_mutex_);
  files_.reset();
  return status;
}

void QueueImpl::Abandon() {
  gate_.Close();
  const MutexLock lock(files_mutex_);
  files_.reset();
}

QueueImpl::~QueueImpl() { Close().IgnoreError(); }

}  // namespace topicdb
