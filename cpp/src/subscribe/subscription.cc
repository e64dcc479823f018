#include "topicdb/subscription.h"

#include <algorithm>

#include "subscribe/subscription_impl.h"

namespace topicdb {

Subscription::Subscription(std::unique_ptr<SubscriptionImpl> impl) : impl_(std::move(impl)) {}

Subscription::~Subscription() {
  // A forked child has none of the hub's threads, and locks may be in any state. So it leaves the
  // subscription as it is.
  if (impl_->hub().Forked()) {
    new std::unique_ptr<SubscriptionImpl>(std::move(impl_));
  } else {
    Close();
  }
}

Result<std::optional<Delivered>> Subscription::Next(
    std::optional<std::chrono::microseconds> timeout, const InterruptCheck& interrupted,
    std::size_t rows_max) {
  TOPICDB_RETURN_IF_ERROR(impl_->hub().CheckNotForked());
  return impl_->subscriber().Next(timeout, interrupted, std::max<std::size_t>(rows_max, 1));
}

Status Subscription::Acknowledge(std::uint64_t seqno) {
  TOPICDB_RETURN_IF_ERROR(impl_->hub().CheckNotForked());
  TOPICDB_ASSIGN_OR_RETURN(const bool reopen, impl_->subscriber().Acknowledge(seqno));
  if (reopen) impl_->hub().Reopen(impl_->number());
  return Status::Ok();
}

void Subscription::Pause() { impl_->subscriber().Pause(); }

void Subscription::Resume() {
  if (impl_->subscriber().Resume()) impl_->hub().Reopen(impl_->number());
}

SubscriptionInfo Subscription::Info() const {
  SubscriptionInfo info = impl_->subscriber().Info();
  impl_->hub().Complete(impl_->number(), &info);
  return info;
}

const MissingReasons& Subscription::missing_shards() const { return impl_->left_out(); }

Result<PlacedMessages> Subscription::Find(std::uint32_t shard,
                                          const std::vector<CommitPlace>& places,
                                          const InterruptCheck& interrupted) const {
  return impl_->hub().Find(shard, impl_->filters(), places, interrupted);
}

void Subscription::OnReady(std::function<void()> ready) {
  impl_->subscriber().OnReady(std::move(ready));
}

void Subscription::Close() {
  if (impl_->hub().Forked()) return;
  impl_->subscriber().Close();
  impl_->hub().Remove(impl_->number());
}

bool Subscription::closed() const { return impl_->subscriber().closed(); }

}  // namespace topicdb
