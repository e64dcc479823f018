// The implementation of a Subscription.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "subscribe/hub.h"
#include "topicdb/subscription.h"

namespace topicdb {

// A subscriber, and its share of the hub that serves it. A Subscription owns it, and removes the
// subscriber from the hub when it closes. Immutable, so thread-safe; the subscriber and the hub
// have locks of their own.
class SubscriptionImpl {
 public:
  SubscriptionImpl(std::shared_ptr<SubscriptionHub> hub, const Wanted& wanted,
                   const LaneStarts& starts, const SubscribeWindow& window, MissingReasons left_out)
      : hub_(std::move(hub)),
        filters_(wanted.filters),
        left_out_(std::move(left_out)),
        subscriber_(std::make_shared<Subscriber>(window, PlacesOf(starts))),
        number_(hub_->Add(subscriber_, wanted, starts)) {}

  Subscriber& subscriber() { return *subscriber_; }
  SubscriptionHub& hub() { return *hub_; }
  const std::vector<Filter>& filters() const { return filters_; }
  const MissingReasons& left_out() const { return left_out_; }
  std::uint64_t number() const { return number_; }

 private:
  static SubscribeFrom::Places PlacesOf(const LaneStarts& starts) {
    SubscribeFrom::Places places;
    for (const auto& [shard, start] : starts) places[shard] = start.place;
    return places;
  }

  const std::shared_ptr<SubscriptionHub> hub_;
  const std::vector<Filter> filters_;
  const MissingReasons left_out_;
  const std::shared_ptr<Subscriber> subscriber_;
  const std::uint64_t number_;
};

}  // namespace topicdb
