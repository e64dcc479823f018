#include "store/cursor/log_cursor.h"

#include <algorithm>

namespace topicdb {

namespace {

// A commit has at most 1 GiB. So a batch that is not full yet can take one more commit: it then has
// less than the 2 GiB that its offsets reach.
constexpr std::size_t kBatchBytesMax = std::size_t{1} << 30;

// The decoded messages that one of many readers of a slab may keep at least.
constexpr std::size_t kReaderBytesMin = std::size_t{4} << 20;

PageLimits Bounded(PageLimits limits) {
  limits.bytes_max = std::min(limits.bytes_max, kBatchBytesMax);
  return limits;
}

}  // namespace

void LogCursor::Release() {
  readers_.clear();
  view_.reset();
  shard_.reset();
}

Status LogCursor::OpenReaders() {
  const GivenReads* const given = Given();
  if (given != nullptr) TOPICDB_RETURN_IF_ERROR(given->Check(*view_));
  for (const SlabView& slab_view : view_->slabs()) {
    if (slab_view.slab->log() != nullptr) OpenReadersOf(*slab_view.slab, given);
  }
  return Status::Ok();
}

void LogCursor::OpenReadersOf(const Slab& slab, const GivenReads* given) {
  std::vector<RowMask> masks = MasksOf(*view_, slab);
  for (const Filter& filter : query_.filters) {
    for (StreamSet& set : SelectStreams(slab, {filter}, std::nullopt)) {
      std::vector<GivenReads::Part> parts;
      if (given == nullptr) {
        parts.push_back({std::move(set.streams), {}});
      } else {
        parts = given->Divide(slab, filter, std::move(set.streams));
      }
      for (GivenReads::Part& part : parts) {
        ReadRequest request;
        request.streams = std::move(part.streams);
        request.filter = filter;
        request.range = query_.range;
        request.masks = masks;
        request.masks.insert(request.masks.end(), part.masks.begin(), part.masks.end());
        request.serial_max = Until();
        request.memory_bytes_max =
            std::max(query_.memory_bytes_max / parts.size(), kReaderBytesMin);
        readers_.push_back(slab.log()->NewLogReader(view_->Source(slab), request, place_.serial));
      }
    }
    masks.push_back(Except(filter));  // the readers of this filter return these messages
  }
}

void LogCursor::FindGap() {
  const GivenReads* const given = Given();
  const auto is_given = [&](const Slab& slab) {
    return given != nullptr && given->GaveAll(*view_, slab, query_.filters);
  };
  gap_ = gaps_->FindWanted(*view_, place_.serial, is_given);
  if (gap_.has_value() && gap_->first > query_.until) gap_.reset();
  const std::optional<LogGap> any = LogGaps::FindAny(*view_, place_.serial);
  unlogged_ = any.has_value() ? any->first : kLastSerial;
}

Status LogCursor::Open(const std::shared_ptr<Shard>& shard) {
  std::shared_ptr<const ShardView> now = shard->view();
  is_before_gap_ = false;
  // The open readers stay unless something was removed since, which they would still return.
  if (!readers_.empty() && now->removals_version() == removals_version_) {
    const std::optional<LogGap> before = gap_;
    FindGap();
    if (gap_ == before) return Status::Ok();
  }
  Release();
  shard_ = shard;
  view_ = std::move(now);
  removals_version_ = view_->removals_version();
  view_serial_ = view_->serial();
  FindGap();
  if (gap_.has_value() && gap_->first <= place_.serial) {
    const Status status = NoLog(*view_, gap_->slab);
    Release();
    return status;
  }
  if (view_->serial() < place_.serial || Until() < place_.serial) return Status::Ok();
  return OpenReaders();
}

template <typename ReadOn>
Status LogCursor::Read(const std::shared_ptr<Shard>& shard, const Batch& batch, ReadOn read_on) {
  const CommitPlace before = place_;
  passed_unlogged_ = false;
  do {
    TOPICDB_RETURN_IF_ERROR(Settle(before, Open(shard)));
    TOPICDB_RETURN_IF_ERROR(Settle(before, read_on()));
    passed_unlogged_ = passed_unlogged_ || CommitPlace{unlogged_, 0} < place_;
  } while (is_before_gap_ && batch.empty());
  return Status::Ok();
}

Status LogCursor::ReadCommits(const std::shared_ptr<Shard>& shard, const PageLimits& limits,
                              const InterruptCheck& interrupted, Batch* batch) {
  return Read(shard, *batch, [&] { return CommitsOn(Bounded(limits), interrupted, batch); });
}

Status LogCursor::ReadMessages(const std::shared_ptr<Shard>& shard, const PageLimits& limits,
                               const InterruptCheck& interrupted, Batch* batch,
                               std::vector<std::uint32_t>* indexes) {
  return Read(shard, *batch,
              [&] { return MessagesOn(Bounded(limits), interrupted, batch, indexes); });
}

Status LogCursor::Settle(const CommitPlace& before, Status status) {
  if (status.ok()) return status;
  Release();
  place_ = before;
  return status;
}

Result<LogCursor::Turn> LogCursor::NextTurn(const InterruptCheck& interrupted) {
  Turn turn;
  for (const auto& reader : readers_) {
    Result<std::optional<CommitPlace>> place = reader->Head(interrupted);
    while (place.ok() && place->has_value() && **place < place_) {
      reader->Skip(place_);
      place = reader->Head(interrupted);
    }
    TOPICDB_RETURN_IF_ERROR(place.status().WithContext(shard_->Name()));
    if (!place->has_value()) continue;
    if (turn.reader == nullptr || **place < turn.head) {
      if (turn.reader != nullptr) turn.until = std::min(turn.until, turn.head);
      turn.reader = reader.get();
      turn.head = **place;
    } else {
      turn.until = std::min(turn.until, **place);
    }
  }
  return turn;
}

void LogCursor::Finish() {
  place_ = std::max(place_, BehindCommit(std::min(view_->serial(), Until())));
  is_before_gap_ = gap_.has_value() && gap_->first <= place_.serial;
  Release();
}

Status LogCursor::CommitsOn(const PageLimits& limits, const InterruptCheck& interrupted,
                            Batch* batch) {
  Serial current;  // commit that is being read
  while (true) {
    TOPICDB_ASSIGN_OR_RETURN(const Turn turn, NextTurn(interrupted));
    if (turn.reader == nullptr) {
      Finish();
      return Status::Ok();
    }
    if (turn.head.serial != current) {
      place_ = {turn.head.serial, 0};
      if (batch->size() >= limits.rows_max || batch->bytes() >= limits.bytes_max) {
        return Status::Ok();
      }
      current = turn.head.serial;
    }
    turn.reader->Read(std::min(turn.until, BehindCommit(turn.head.serial)), {}, batch, nullptr);
  }
}

Status LogCursor::MessagesOn(const PageLimits& limits, const InterruptCheck& interrupted,
                             Batch* batch, std::vector<std::uint32_t>* indexes) {
  while (true) {
    TOPICDB_ASSIGN_OR_RETURN(const Turn turn, NextTurn(interrupted));
    if (turn.reader == nullptr) {
      Finish();
      return Status::Ok();
    }
    place_ = turn.head;
    if (batch->size() >= limits.rows_max || batch->bytes() >= limits.bytes_max) return Status::Ok();
    turn.reader->Read(turn.until, {limits.rows_max, limits.bytes_max}, batch, indexes);
  }
}

}  // namespace topicdb
