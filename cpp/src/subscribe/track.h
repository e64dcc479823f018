// Keeps track of where the subscribers are in the log of one shard.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "subscribe/log_page.h"
#include "subscribe/page_reader.h"
#include "subscribe/subscriber.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

class Track;
struct Client;

// The place of one subscriber in the log of one shard. The subscriber was given everything before
// it. A lane is either live or behind.
struct Lane {
  Client* client = nullptr;
  Track* track = nullptr;
  CommitPlace place;  // a live lane may be further: see Track::PlaceOf
  bool is_live = false;
  Serial counted;  // drops up to this serial were counted as losses
  // What iterators have given, while the lane may come to it. Such a lane is behind, and shares no
  // page with others. Null: nothing.
  std::shared_ptr<const GivenReads> given = {};
};

// A subscriber, as the hub knows it, with a lane for each shard. The hub owns it, and its mutex
// guards it.
struct Client {
  std::uint64_t number = 0;
  std::shared_ptr<Subscriber> subscriber;
  SharedInterest interest;
  bool is_open = true;  // takes messages: its lanes that are behind can be served
  std::vector<Lane> lanes;

  // Sets is_open, and tells the tracks of all lanes.
  void SetOpen(bool open);
};

// Keeps the lanes of a shard, and serves them from pages. The hub owns it. Not thread-safe: the
// hub's mutex guards it, except for the readers.
class Track {
 public:
  explicit Track(std::uint32_t shard) : shard_(shard) {}

  std::uint32_t shard() const { return shard_; }
  // Adds a lane, which is behind at first.
  void Add(Lane* lane);
  void Remove(Lane* lane);
  // Says whether the client of the lane takes messages.
  void SetOpen(Lane* lane, bool open);
  // Returns how far the lane is. The subscriber was given everything before this place.
  CommitPlace PlaceOf(const Lane& lane) const;

  // Returns whether a lane has become live since the last call. There may be new messages for it.
  bool TakeJoined() { return std::exchange(has_joined_, false); }

  // Returns the lane whose turn it is among those that are behind and can be served, or null if
  // there is none.
  Lane* NextReady() const;
  bool has_behind() const { return !behind_.empty(); }
  // Returns the interests of the lanes that are where `lane` is, or so near that one page may serve
  // them.
  std::vector<SharedInterest> InterestsNear(const Lane& lane) const;
  // Returns the lanes at this place that can be served and have this interest and this `given`.
  std::vector<Lane*> ReadyAt(const CommitPlace& place, const Interest& interest,
                             const std::shared_ptr<const GivenReads>& given = nullptr) const;
  // Offers a page to the lanes in it whose clients have at most the number `client_max`. Returns
  // how many of them took something.
  std::size_t ServeReady(LogPage* page, std::uint64_t client_max);
  // Returns the interests of the live lanes, for which the caller must read from live_place() on.
  // Returns null if there are no live lanes.
  std::shared_ptr<const InterestSet> BeginLiveRead();
  // Returns how far the live lanes are. It has no meaning if there are none.
  CommitPlace live_place() const { return live_place_; }
  // Offers the live lanes the page that was read. Returns how many of them took something.
  std::size_t ServeLive(LogPage* page);
  // Puts the live lanes behind, because their page could not be read. Each of them is then read for
  // again, and meets the error only if it wants what is damaged.
  void AbandonLive();

  // The drops that the pages know of which this track is offered.
  struct Drops {
    std::vector<meta::DropRecord> more;  // after drops_until()
    std::uint64_t removals_version = 0;  // of a view: all drops up to it are known
  };
  // Return the serial of the last drop that the track knows, and the removals version of the view
  // that it knows them from.
  Serial drops_until() const { return drops_.empty() ? kNoSerial : drops_.back().serial; }
  std::uint64_t drops_version() const { return drops_version_; }
  // Adds drops. The caller must do that before it offers the page that knows of them.
  void Learn(Drops drops);

  bool is_being_read = false;  // a thread reads for lanes that are behind
  PageReader live_reader{1};   // thread-safe
  PageReader reader{4};        // thread-safe

 private:
  // Orders lanes by place, and at one place by the age of their clients.
  struct Order {
    bool operator()(const Lane* a, const Lane* b) const {
      return std::tie(a->place, a->client->number) < std::tie(b->place, b->client->number);
    }
  };
  using LaneSet = std::set<Lane*, Order>;

  // Add a lane to those that are behind, or to the live ones. Unlink takes it out of where it is.
  void LinkBehind(Lane* lane);
  void LinkLive(Lane* lane);
  void Unlink(Lane* lane);
  // Offers a page to the lane, and moves it over the page. Returns whether it took something.
  bool Advance(Lane* lane, LogPage* page);
  // Makes a lane live that has come to the end of what there was. Leaves it behind if the live
  // lanes are further.
  void Join(Lane* lane);
  // Tells the subscriber which messages it lost by drops up to the commit `view_serial`. A lane
  // moves over a page only after that: what it was not given by then, it is never given.
  void CountLosses(Lane* lane, Serial view_serial);
  // Calls CountLosses for all live lanes, if there are new drops.
  void CountLiveLosses(Serial view_serial);
  // Puts a lane behind, at this place.
  void FallBehind(Lane* lane, const CommitPlace& place);
  // Moves a lane that is linked nowhere. Nothing was given of what comes later than a certain
  // place.
  static void MoveTo(const CommitPlace& place, Lane* lane);
  // Returns how many of the dropped messages the lane has lost, at most.
  std::uint64_t CountLostBy(const Lane& lane, const meta::DropRecord& drop) const;
  // Returns the first lane that is at this place or behind it in the order of places.
  static LaneSet::const_iterator FirstFrom(const LaneSet& lanes, const CommitPlace& place);

  const std::uint32_t shard_;
  LaneSet behind_;
  LaneSet ready_;                                  // those of them whose clients are open
  std::map<std::uint64_t, std::set<Lane*>> live_;  // by interest
  std::size_t live_lanes_ = 0;
  CommitPlace live_place_;  // the live lanes, if any, were given everything before it
  bool is_live_read_ = false;
  bool has_joined_ = false;
  std::set<Lane*> joined_;                             // that joined during a live read
  std::shared_ptr<const InterestSet> live_interests_;  // null: they have changed
  std::vector<meta::DropRecord> drops_;                // by serial
  bool first_drop_is_many_ = false;                    // the first of drops_ may stand for several
  std::uint64_t drops_version_ = 0;
  Serial live_counted_;     // as Lane::counted, for all live lanes
  CommitPlace sweep_;       // lanes from here on have their turn, in the order of places
  std::uint64_t near_ = 1;  // how many serials the last page spanned
};

}  // namespace topicdb
