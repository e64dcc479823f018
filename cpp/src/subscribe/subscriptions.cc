#include "topicdb/database/subscriptions.h"

#include <string>
#include <utility>

#include "store/database/database_impl.h"
#include "store/read/drop_summary.h"
#include "store/read/log_gaps.h"
#include "subscribe/hub.h"
#include "subscribe/subscription_impl.h"

namespace topicdb {

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
  if (from.timestamp_min < 0) return InvalidArgument("start: it cannot be negative");
  if (!from.places.has_value()) return Status::Ok();
  std::map<std::uint32_t, Serial> serials;
  for (const auto& [shard, place] : *from.places) serials[shard] = place.serial;
  return CheckShards("start", serials, schema.shards);
}

// Returns whether no message can stand before this place.
bool IsTheFirst(const CommitPlace& place) { return place <= CommitPlace{Serial{1}, 0}; }

// Returns where the lanes of a subscription begin, for every open shard.
LaneStarts StartsOf(const SubscribeFrom& from, const GivenByShard& given,
                    const std::vector<ShardMoment>& moments) {
  LaneStarts starts;
  for (const ShardMoment& moment : moments) {
    const std::uint32_t shard = moment.shard->index();
    LaneStart& start = starts[shard];
    start.counted = moment.view->serial();
    if (!from.places.has_value()) {
      start.place = BehindCommit(moment.view->serial());
    } else if (const auto found = from.places->find(shard); found != from.places->end()) {
      start.place = found->second;
      if (!IsTheFirst(start.place)) start.counted = kNoSerial;
    }
    const auto reads = given.find(shard);
    if (reads != given.end() && start.place.serial <= reads->second->seen()) {
      start.given = reads->second;
      start.counted = start.given->counted();
    }
    if (const auto known = from.counted.find(shard); known != from.counted.end()) {
      start.counted = known->second;
    }
  }
  return starts;
}

}  // namespace

Subscriptions::Subscriptions(std::shared_ptr<DatabaseImpl> impl, bool partial)
    : impl_(std::move(impl)), partial_(partial) {}
Subscriptions::~Subscriptions() = default;

Result<std::unique_ptr<Subscription>> Subscriptions::Subscribe(
    const std::vector<Filter>& filters, const SubscribeFrom& from,
    const SubscribeWindow& window) const {
  // Declared first: they end after the lock of TOPICDB_ENTER.
  std::shared_ptr<SubscriptionHub> earlier;
  std::shared_ptr<SubscriptionHub> hub;
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(CheckSubscribe(impl_->environment().schema, filters, from, window));
  TOPICDB_ASSIGN_OR_RETURN(MissingReasons left_out, impl_->shards().LeftOut(filters, partial_));
  TOPICDB_ASSIGN_OR_RETURN(const GivenByShard given, GivenOf(*impl_, from.given));
  const Wanted wanted{filters, from.timestamp_min, from.part, from.parts};
  const auto make = [&] { return std::make_shared<SubscriptionHub>(impl_); };
  hub = impl_->Hub(make);
  if (!hub->ServesAllShards()) {  // it is from before a missing shard came back
    earlier = hub;
    hub = impl_->Hub(make, earlier.get());
  }
  return std::make_unique<Subscription>(std::make_unique<SubscriptionImpl>(
      hub, wanted, StartsOf(from, given, impl_->shards().WholeMoments()), window,
      std::move(left_out)));
}

Status Subscriptions::CheckLog(const std::vector<Filter>& filters,
                               const SubscribeFrom& from) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(CheckSubscribe(impl_->environment().schema, filters, from, {}));
  TOPICDB_RETURN_IF_ERROR(impl_->shards().LeftOut(filters, partial_).status());
  TOPICDB_ASSIGN_OR_RETURN(const GivenByShard given, GivenOf(*impl_, from.given));
  const std::vector<LogWant> wants =
      Wanted{filters, from.timestamp_min, from.part, from.parts}.LogWants();
  const std::vector<ShardMoment> moments = impl_->shards().WholeMoments();
  const LaneStarts starts = StartsOf(from, given, moments);
  const auto rules = impl_->environment().rules();
  for (const ShardMoment& moment : moments) {
    const LaneStart& start = starts.at(moment.shard->index());
    TOPICDB_RETURN_IF_ERROR(CheckLogBehind(*moment.view, *rules, wants, start.place.serial,
                                           kLastSerial, start.given.get()));
  }
  return Status::Ok();
}

Result<std::map<std::uint32_t, CommitPlace>> Subscriptions::PlacesAt(
    const std::vector<Filter>& filters, std::int64_t timestamp_min,
    const InterruptCheck& interrupted) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(impl_->shards().LeftOut(filters, partial_).status());
  std::map<std::uint32_t, CommitPlace> places;
  for (const ShardMoment& moment : impl_->shards().WholeMoments()) {
    if (timestamp_min == kBehindAll) {  // known without reading
      places[moment.shard->index()] = BehindCommit(moment.view->serial());
      continue;
    }
    LogQuery query;
    query.filters = filters;
    query.range.start = timestamp_min;
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

Result<std::uint64_t> Subscriptions::CountDropped(std::uint32_t shard,
                                                  const std::vector<Filter>& filters,
                                                  std::int64_t timestamp_min,
                                                  const CommitPlace& from, Serial counted) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_ASSIGN_OR_RETURN(const auto found, impl_->shards().Find(shard));
  TOPICDB_ASSIGN_OR_RETURN(const auto drops, found->DropsBehind(counted));
  std::uint64_t messages = 0;
  for (const meta::DropRecord& drop : drops) {
    messages += CountLost(drop, filters, timestamp_min, from.serial);
  }
  return messages;
}

Result<SubscriptionStats> Subscriptions::GetStats() const {
  std::shared_ptr<SubscriptionHub> hub;  // declared first: it ends after the lock of TOPICDB_ENTER
  TOPICDB_ENTER(impl_);
  hub = impl_->Hub([] { return nullptr; });
  return hub == nullptr ? SubscriptionStats{} : hub->Stats();
}

}  // namespace topicdb
