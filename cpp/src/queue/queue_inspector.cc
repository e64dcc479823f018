#include "topicdb/queue_inspector.h"

#include <algorithm>

#include "queue/queue_files.h"
#include "segment/segment_recovery.h"

namespace topicdb {

namespace {

// When QUEUE was lost, new items get numbers this far beyond all that are known.
constexpr std::uint64_t kSequencesSkipped = std::uint64_t{1} << 32;

QueueDamage ToQueueDamage(const LogDamage& damage) {
  return {damage.path, damage.what, {damage.first_sequence, damage.items()}};
}

// The QueueInspector of both formats. It reads the segments one after the other.
class Inspector : public QueueInspector {
 public:
  Status Load(const std::string& path) {
    TOPICDB_ASSIGN_OR_RETURN(const QueueFilesInfo files, ReadQueueFiles(path));
    info_.format = files.format;
    format_ =
        files.format == QueueFormat::kReplayq ? &ReplayqSegmentFormat() : &NativeSegmentFormat();
    std::optional<LogEnd> end;
    QueueId id{};
    if (files.record.has_value()) {
      end = files.record->closed_end;
      id = files.record->id;
      info_.closed = end.has_value();
    }
    TOPICDB_ASSIGN_OR_RETURN(found_, FindSegments({path, format_, id, 0}, end, /*look_only=*/true));
    for (const LogDamage& damage : files.damage) info_.damage.push_back(ToQueueDamage(damage));
    for (const LogDamage& damage : found_.damage) info_.damage.push_back(ToQueueDamage(damage));
    for (const SegmentState& segment : found_.segments) {
      const std::uint64_t first = segment.identity.first_sequence;
      info_.segments.push_back({segment.path,
                                segment.identity.number,
                                {first, segment.end.sequence - first},
                                segment.end.offset,
                                segment.sealed});
    }
    for (const auto& consumer : files.consumers) {
      const CursorStats stats = consumer->stored_stats();
      info_.cursors.push_back({stats.name, stats.low_water, stats.next_sequence, stats.waiting});
    }
    return Status::Ok();
  }

  const QueueInfo& info() const override { return info_; }

  Result<std::vector<std::pair<std::uint64_t, std::string_view>>> Next() override {
    std::vector<std::pair<std::uint64_t, std::string_view>> items;
    while (items.empty() && next_ < found_.segments.size()) {
      const SegmentState& segment = found_.segments[next_];
      if (reader_ == nullptr) {
        TOPICDB_ASSIGN_OR_RETURN(auto file, File::OpenForReading(segment.path));
        reader_ = std::make_unique<SegmentReader>(std::move(file), *format_, segment.identity);
      }
      TOPICDB_ASSIGN_OR_RETURN(const ReadEvent event,
                               reader_->Next({segment.end.offset, segment.end.sequence}));
      if (event == ReadEvent::kEnd) {
        reader_.reset();
        ++next_;
      } else if (event == ReadEvent::kLost) {
        const LostItems& lost = reader_->lost();
        const std::string where = std::to_string(lost.bytes) + " bytes at offset " +
                                  std::to_string(lost.offset) + " are damaged";
        info_.damage.push_back(
            {segment.path, where, {lost.first_sequence, lost.end_sequence - lost.first_sequence}});
      } else {
        std::uint64_t sequence = reader_->block().first_sequence;
        for (const std::string_view item : reader_->block().items) {
          items.emplace_back(sequence++, item);
        }
      }
    }
    return items;
  }

 private:
  const SegmentFormat* format_ = nullptr;
  FoundSegments found_;
  QueueInfo info_;
  std::size_t next_ = 0;  // the index of the segment that is read
  std::unique_ptr<SegmentReader> reader_;
};

// Makes a record for segments and cursors whose QUEUE is lost.
QueueRecord RecordFor(const FoundSegments& found, const QueueFilesInfo& files) {
  QueueRecord record;
  record.sequence_ceiling = found.previous_end;
  if (!found.segments.empty()) record.id = found.segments.front().identity.queue_id;
  for (const SegmentState& segment : found.segments) record.weighed |= segment.identity.weighed;
  for (const auto& consumer : files.consumers) {
    record.sequence_ceiling =
        std::max(record.sequence_ceiling, consumer->stored_stats().next_sequence);
  }
  record.sequence_ceiling += kSequencesSkipped;
  return record;
}

}  // namespace

Result<std::unique_ptr<QueueInspector>> QueueInspector::Open(const std::string& path) {
  auto inspector = std::make_unique<Inspector>();
  TOPICDB_RETURN_IF_ERROR(inspector->Load(path));
  return std::unique_ptr<QueueInspector>(std::move(inspector));
}

Result<std::vector<QueueDamage>> RepairQueue(const std::string& path) {
  std::vector<QueueDamage> damage;
  TOPICDB_ASSIGN_OR_RETURN(const QueueFilesInfo files, ReadQueueFiles(path));
  if (files.format == QueueFormat::kTopicdb && !files.record.has_value()) {
    for (const LogDamage& found : files.damage) damage.push_back(ToQueueDamage(found));
    TOPICDB_ASSIGN_OR_RETURN(
        const FoundSegments found,
        FindSegments({path, &NativeSegmentFormat(), {}, 0}, std::nullopt, /*look_only=*/true));
    TOPICDB_RETURN_IF_ERROR(WriteNativeRecord(path, RecordFor(found, files)));
  }
  TOPICDB_ASSIGN_OR_RETURN(const auto queue, Queue::Open(path, QueueOptions{}));
  TOPICDB_ASSIGN_OR_RETURN(const QueueStats stats, queue->GetStats());
  damage.insert(damage.end(), stats.damage.begin(), stats.damage.end());
  TOPICDB_RETURN_IF_ERROR(queue->Close());
  return damage;
}

}  // namespace topicdb
