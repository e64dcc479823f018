#include "topicdb/subscription.h"

#include <algorithm>

#include "store/database/database_impl.h"
#include "store/read/drop_summary.h"
#include "subscribe/hub.h"
#include "topicdb/database.h"

namespace topicdb {

// A subscriber and the hub that serves it.
class SubscriptionImpl {
 public:
  SubscriptionImpl(std::shared_ptr<SubscriptionHub> hub, const Wanted& wanted,
                   const LaneStarts& starts, const SubscribeWindow& window)
      : hub_(std::move(hub)),
        filters_(wanted.filters),
        subscriber_(std::make_shared<Subscriber>(window, PlacesOf(starts))),
        number_(hub_->Add(subscriber_, wanted, starts)) {}

  Subscriber& subscriber() { return *subscriber_; }
  SubscriptionHub& hub() { return *hub_; }
  const std::vector<Filter>& filters() const { return filters_; }
  std::uint64_t number() const { return number_; }

 private:
  static SubscribeFrom::Places PlacesOf(const LaneStarts& starts) {
    SubscribeFrom::Places places;
    for (const auto& [shard, start] : starts) places[shard] = start.place;
    return places;
  }

  const std::shared_ptr<SubscriptionHub> hub_;
  const std::vector<Filter> filters_;
  const std::shared_ptr<Subscriber> subscriber_;
  const std::uint64_t number_;
};

Subscription::Subscription(std::unique_ptr<SubscriptionImpl> impl) : impl_(std::move(impl)) {}

Subscription::~Subscription() {
  // In a forked child there are no threads, and locks may be in any state: leave it.
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

namespace {

Status CheckSubscribe(const Schema& schema, const std::vector<Filter>& filters,
                      const SubscribeFrom& from, const SubscribeWindow& window) {
  if (filters.empty()) return InvalidArgument("filter: at least one is needed");
  if (window.messages == 0) return InvalidArgument("window: at least 1 is needed, got 0");
  if (window.bytes == 0) return InvalidArgument("window_bytes: at least 1 is needed, got 0");
  if (from.part >= from.parts) {
    return InvalidArgument("part: it must be less than parts, got " + std::to_string(from.part) +
                           " of " + std::to_string(from.parts));
  }
  if (from.start_us < 0) return InvalidArgument("start: it cannot be negative");
  if (!from.places.has_value()) return Status::Ok();
  std::map<std::uint32_t, std::uint64_t> serials;
  for (const auto& [shard, place] : *from.places) serials[shard] = place.serial;
  return CheckShards("start", serials, schema.shards);
}

bool IsTheFirst(const CommitPlace& place) { return place <= CommitPlace{1, 0}; }

// Of every open shard.
LaneStarts StartsOf(const SubscribeFrom& from, const std::vector<ShardMoment>& moments) {
  LaneStarts starts;
  for (const ShardMoment& moment : moments) {
    const std::uint32_t shard = moment.shard->index();
    LaneStart& start = starts[shard];
    start.counted = moment.view->serial();
    if (!from.places.has_value()) {
      start.place = BehindCommit(moment.view->serial());
    } else if (const auto given = from.places->find(shard); given != from.places->end()) {
      start.place = given->second;
      if (!IsTheFirst(start.place)) start.counted = 0;
    }
    if (const auto known = from.counted.find(shard); known != from.counted.end()) {
      start.counted = known->second;
    }
  }
  return starts;
}

}  // namespace

Result<std::unique_ptr<Subscription>> Database::Subscribe(const std::vector<Filter>& filters,
                                                          const SubscribeFrom& from,
                                                          const SubscribeWindow& window) const {
  std::shared_ptr<SubscriptionHub> hub;  // its end must come after that of this call
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(impl_->CheckKeepsLog());
  TOPICDB_RETURN_IF_ERROR(CheckSubscribe(schema(), filters, from, window));
  hub = impl_->Hub([&] { return std::make_shared<SubscriptionHub>(impl_); });
  return std::make_unique<Subscription>(
      std::make_unique<SubscriptionImpl>(hub, Wanted{filters, from.start_us, from.part, from.parts},
                                         StartsOf(from, impl_->WholeMoments()), window));
}

Result<std::map<std::uint32_t, CommitPlace>> Database::PlacesAt(
    const std::vector<Filter>& filters, std::int64_t start_us,
    const InterruptCheck& interrupted) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(impl_->CheckKeepsLog());
  std::map<std::uint32_t, CommitPlace> places;
  for (const ShardMoment& moment : impl_->WholeMoments()) {
    if (start_us == kBehindAll) {  // nothing needs to be read to know that
      places[moment.shard->index()] = BehindCommit(moment.view->serial());
      continue;
    }
    LogQuery query;
    query.filters = filters;
    query.range.start = start_us;
    LogCursor cursor(query);
    Batch batch(/*keeps_serials=*/true);
    std::vector<std::uint32_t> indexes;
    TOPICDB_RETURN_IF_ERROR(
        cursor.ReadMessages(moment.shard, {1, 1, true}, interrupted, &batch, &indexes));
    places[moment.shard->index()] =
        batch.empty() ? cursor.place() : CommitPlace{batch.serial(0), indexes[0]};
  }
  return places;
}

Result<std::uint64_t> Database::CountDropped(std::uint32_t shard,
                                             const std::vector<Filter>& filters,
                                             std::int64_t start_us, const CommitPlace& from,
                                             std::uint64_t counted) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_ASSIGN_OR_RETURN(const auto found, impl_->FindShard(shard));
  TOPICDB_ASSIGN_OR_RETURN(const auto drops, found->DropsBehind(counted));
  std::uint64_t messages = 0;
  for (const meta::DropRecord& drop : drops) {
    messages += CountLost(drop, filters, start_us, from.serial);
  }
  return messages;
}

Result<SubscriptionStats> Database::GetSubscriptionStats() const {
  std::shared_ptr<SubscriptionHub> hub;  // its end must come after that of this call
  TOPICDB_ENTER(impl_);
  hub = impl_->Hub([] { return nullptr; });
  return hub == nullptr ? SubscriptionStats{} : hub->Stats();
}

}  // namespace topicdb
