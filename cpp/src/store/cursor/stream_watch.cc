#include <utility>

#include "store/cursor/stream_watch_impl.h"
#include "store/database/commit_wait.h"
#include "store/read/stream_plan.h"

namespace topicdb {

StreamWatchImpl::StreamWatchImpl(std::shared_ptr<DatabaseImpl> database, const Filter& filter,
                                 bool existing)
    : database_(std::move(database)), filter_(filter) {
  if (existing) return;
  for (const ShardMoment& moment : database_->shards().Moments()) {
    for (const SlabView& view : moment.view->slabs()) {
      seen_[view.slab->id()] = view.slab->LastStreamMax();
    }
  }
}

Result<std::vector<Stream>> StreamWatchImpl::Next(std::optional<std::chrono::microseconds> timeout,
                                                  const InterruptCheck& interrupted) {
  std::vector<Stream> found;
  const auto look = [&]() -> Result<bool> {
    TOPICDB_RETURN_IF_ERROR(Look(&found));
    return !found.empty();
  };
  TOPICDB_RETURN_IF_ERROR(LookUntil(database_, timeout, interrupted, look));
  return found;
}

Status StreamWatchImpl::Look(std::vector<Stream>* found) {
  TOPICDB_ENTER(database_);
  const MutexLock lock(mutex_);
  if (closed_) return Closed("this watch of streams is closed");
  std::map<SlabId, StreamId> seen;
  for (const ShardMoment& moment : database_->shards().Moments()) {
    const std::size_t before = found->size();
    for (const SlabView& view : moment.view->in_reading_order()) {
      const Slab& slab = *view.slab;
      const StreamId last = slab.LastStreamMax();
      const auto known = seen_.find(slab.id());
      const StreamId first = known == seen_.end() ? kNoStream : known->second;
      seen[slab.id()] = last;
      if (last > first) AddStreams(database_->environment(), slab, filter_, {first, last}, found);
    }
    // A slab knows new structures a moment before their messages can be read, so this waits until
    // they can.
    if (found->size() > before) moment.shard->AwaitCommit();
  }
  seen_ = std::move(seen);
  return Status::Ok();
}

void StreamWatchImpl::Close() {
  const MutexLock lock(mutex_);
  closed_ = true;
}

StreamWatch::StreamWatch(std::shared_ptr<StreamWatchImpl> impl) : impl_(std::move(impl)) {}

StreamWatch::~StreamWatch() {
  // In a forked child the locks may be in any state: leave it.
  if (impl_->Forked()) new std::shared_ptr<StreamWatchImpl>(std::move(impl_));
}

Result<std::vector<Stream>> StreamWatch::Next(std::optional<std::chrono::microseconds> timeout,
                                              const InterruptCheck& interrupted) {
  return impl_->Next(timeout, interrupted);
}

void StreamWatch::Close() {
  if (!impl_->Forked()) impl_->Close();
}

}  // namespace topicdb
