#include <algorithm>
#include <optional>

#include "base/file/file.h"
#include "queue/queue_log.h"

namespace topicdb {

namespace {

// Reads the segments of a log one after the other. state_ is the segment that it reads, as it was
// when it looked last. Not thread-safe.
class DiskLogReader : public QueueLogReader {
 public:
  explicit DiskLogReader(SegmentLog* log) : log_(*log) {}

  Result<ReadEvent> Load(const LogPosition& position) override {
    const std::uint64_t wanted = position.sequence;
    if (valid_ && block().first_sequence <= wanted && wanted < block().end_sequence()) {
      return ReadEvent::kBlock;
    }
    valid_ = false;
    if (!reader_.has_value() || reader_->sequence() != wanted) {
      TOPICDB_ASSIGN_OR_RETURN(const auto event, Locate(position));
      if (event.has_value()) return *event;
    }
    while (true) {
      TOPICDB_ASSIGN_OR_RETURN(const ReadEvent event,
                               reader_->Next({state_.end.offset, state_.end.sequence}));
      if (event == ReadEvent::kEnd) {
        TOPICDB_ASSIGN_OR_RETURN(const auto over, Advance(wanted));
        if (over.has_value()) return *over;
        continue;
      }
      if (event == ReadEvent::kLost) {
        if (reader_->lost().end_sequence <= wanted) continue;
        return Lose(std::max(wanted, reader_->lost().first_sequence), reader_->lost().end_sequence,
                    "is damaged");
      }
      if (block().end_sequence() <= wanted) continue;
      valid_ = true;
      return ReadEvent::kBlock;
    }
  }

  const Block& block() const override { return reader_->block(); }
  const std::shared_ptr<const void>& owner() const override { return reader_->window_owner(); }
  std::uint64_t segment() const override { return state_.identity.number; }
  LogCount count_before() const override {
    const std::uint64_t in_segment = state_.identity.weighed
                                         ? block().weight_before
                                         : block().offset - log_.format().header_bytes();
    return {state_.weight_before + in_segment,
            state_.items_before + block().first_sequence - state_.identity.first_sequence};
  }
  const LogDamage& lost() const override { return lost_; }

 private:
  // Opens the segment of a position, at its frame if that is known. Returns kEnd or kLost if that
  // cannot be read, and nothing if it can.
  Result<std::optional<ReadEvent>> Locate(const LogPosition& position) {
    TOPICDB_ASSIGN_OR_RETURN(auto over, OpenSegmentOf(position.sequence));
    if (over.has_value() || position.segment != state_.identity.number) return over;
    reader_->Seek(position.offset, position.frame_sequence);
    TOPICDB_ASSIGN_OR_RETURN(const ReadEvent event,
                             reader_->Next({state_.end.offset, state_.end.sequence}));
    if (event == ReadEvent::kBlock && block().first_sequence <= position.sequence) {
      reader_->Seek(position.offset, position.frame_sequence);
    } else {  // the frame is not there: read from the beginning of the segment
      reader_->Seek(log_.format().header_bytes(), state_.identity.first_sequence);
    }
    return over;
  }

  // Called when the segment was read as far as it was known. Looks whether it has grown, or opens
  // the next one. Returns as Locate does.
  Result<std::optional<ReadEvent>> Advance(std::uint64_t wanted) {
    TOPICDB_ASSIGN_OR_RETURN(const auto found, log_.Find(std::max(wanted, reader_->sequence())));
    if (!found.has_value()) return std::optional(ReadEvent::kEnd);
    if (found->identity.number == state_.identity.number) {
      state_ = *found;
      return std::optional<ReadEvent>();
    }
    return OpenSegmentOf(std::max(wanted, reader_->sequence()));
  }

  // Opens the segment that has `sequence`, or else the next one. Returns as Locate does.
  Result<std::optional<ReadEvent>> OpenSegmentOf(std::uint64_t sequence) {
    TOPICDB_ASSIGN_OR_RETURN(const auto found, log_.Find(sequence));
    reader_.reset();
    if (!found.has_value()) return std::optional(ReadEvent::kEnd);
    state_ = *found;
    auto file = File::OpenForReading(state_.path);
    if (!file.ok()) {
      if (file.status().code() != Code::kNotFound) return file.status();
      return std::optional(Lose(std::max(sequence, state_.identity.first_sequence),
                                state_.end.sequence, "is missing"));
    }
    const std::uint64_t size = std::max(log_.segment_bytes(), state_.end.offset);
    reader_.emplace(std::move(file).value(), log_.format(), state_.identity,
                    std::min<std::uint64_t>(SegmentReader::kWindowBytes, size));
    return std::optional<ReadEvent>();
  }

  // Reports items of the segment as lost.
  ReadEvent Lose(std::uint64_t first, std::uint64_t end, const char* what) {
    lost_ = {state_.path, what, first, end};
    return ReadEvent::kLost;
  }

  SegmentLog& log_;
  SegmentState state_;
  std::optional<SegmentReader> reader_;
  bool valid_ = false;  // block() was loaded
  LogDamage lost_;
};

}  // namespace

std::unique_ptr<QueueLogReader> DiskLog::NewReader() {
  return std::make_unique<DiskLogReader>(segments_.get());
}

}  // namespace topicdb
