#include "store/log_cursor.h"

#include <algorithm>

#include "store/stream_plan.h"

namespace topicdb {

void LogCursor::Release() {
  readers_.clear();
  view_.reset();
  shard_.reset();
}

void LogCursor::OpenReaders() {
  for (const SlabView& slab_view : view_->slabs()) {
    const Slab& slab = *slab_view.slab;
    if (!slab.layout().has_log()) continue;
    std::vector<RowMask> masks = MasksOf(*view_, slab.id());
    for (const Filter& filter : filters_) {
      for (StreamSet& set : SelectStreams(slab, filter, std::nullopt)) {
        ReadRequest request;
        request.streams = std::move(set.streams);
        request.filter = filter;
        request.masks = masks;
        request.serial_max = until_;
        readers_.push_back(slab.layout().NewLogReader(view_->Source(slab), request, serial_ + 1));
      }
      masks.push_back(Except(filter));  // it gives them
    }
  }
}

Status LogCursor::Read(const std::shared_ptr<Shard>& shard, const PageLimits& limits,
                       const InterruptCheck& interrupted, Batch* batch) {
  if (readers_.empty()) {
    shard_ = shard;
    view_ = shard_->view();
    if (view_->serial() > serial_ && until_ > serial_) OpenReaders();
  }
  const std::uint64_t before = serial_;
  const Status status = ReadOn(limits, interrupted, batch);
  if (!status.ok()) {  // the readers have left behind what nobody gets
    Release();
    serial_ = before;
  }
  return status;
}

Status LogCursor::ReadOn(const PageLimits& limits, const InterruptCheck& interrupted,
                         Batch* batch) {
  const std::string name = shard_->Name();
  std::uint64_t current = 0;  // commit that is being read
  while (true) {
    LogReader* first = nullptr;
    CommitPlace head;
    CommitPlace until{~std::uint64_t{0}, 0};
    for (const auto& reader : readers_) {
      auto place = reader->Head(interrupted);
      TOPICDB_RETURN_IF_ERROR(place.status().WithContext(name));
      if (!place->has_value()) continue;
      if (first == nullptr || **place < head) {
        if (first != nullptr) until = std::min(until, head);
        first = reader.get();
        head = **place;
      } else {
        until = std::min(until, **place);
      }
    }
    if (first == nullptr) {
      serial_ = std::max(serial_, std::min(view_->serial(), until_));
      Release();
      return Status::Ok();
    }
    const bool is_full = batch->size() >= limits.rows_max || batch->bytes() >= limits.bytes_max;
    if (head.serial != current) {
      serial_ = head.serial - 1;
      if (is_full) return Status::Ok();
      current = head.serial;
    }
    first->Read(std::min(until, CommitPlace{head.serial + 1, 0}), batch);
  }
}

}  // namespace topicdb
