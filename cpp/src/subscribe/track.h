// Who is where in the log of one shard.
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

namespace topicdb {

class Track;
struct Client;

// The place of one subscriber in the log of one shard: it was given everything before. A lane is
// live, or behind.
struct Lane {
  Client* client = nullptr;
  Track* track = nullptr;
  CommitPlace place;  // of a live lane: or that of its track, if that is later
  bool is_live = false;
  std::uint64_t counted = 0;  // what was dropped by later commits is not counted as lost yet
};

struct Client {
  std::uint64_t number = 0;
  std::shared_ptr<Subscriber> subscriber;
  SharedInterest interest;
  bool is_open = true;  // takes more; its lanes that are behind can be served
  std::vector<Lane> lanes;

  // Of all its lanes.
  void SetOpen(bool open);
};

// The lanes of a shard. Not thread-safe: the hub's mutex guards it, but for the readers.
class Track {
 public:
  explicit Track(std::uint32_t shard) : shard_(shard) {}

  std::uint32_t shard() const { return shard_; }
  // A new one is behind.
  void Add(Lane* lane);
  void Remove(Lane* lane);
  void SetOpen(Lane* lane, bool open);
  CommitPlace PlaceOf(const Lane& lane) const;

  // Whether a lane has become live since the last call: there may be something new for it.
  bool TakeJoined() { return std::exchange(has_joined_, false); }

  // Of the lanes that are behind and can be served: whose turn it is; null: there are none.
  Lane* NextReady() const;
  bool has_behind() const { return !behind_.empty(); }
  // What those want who are where it is, or so near that one page may serve them.
  std::vector<SharedInterest> InterestsNear(const Lane& lane) const;
  // Those that can be served, stand there, and want this.
  std::vector<Lane*> ReadyAt(const CommitPlace& place, const Interest& interest) const;
  // Offers a page to those who are in it and whose numbers are not greater; how many took
  // something.
  std::size_t ServeReady(LogPage* page, std::uint64_t client_max);
  // What has to be read for the live lanes, from live_place() on. Null: there are none.
  std::shared_ptr<const InterestSet> BeginLiveRead();
  CommitPlace live_place() const { return live_place_; }
  // Offers them what was read.
  std::size_t ServeLive(LogPage* page);
  // It could not be read: they find out by themselves, each for what it wants.
  void AbandonLive();

  // What was dropped, as far as the pages that it is offered know.
  struct Drops {
    std::vector<meta::DropRecord> more;  // behind drops_until()
    std::uint64_t removals_version = 0;  // of a view: all that were dropped by then are known
  };
  std::uint64_t drops_until() const { return drops_.empty() ? 0 : drops_.back().serial; }
  std::uint64_t drops_version() const { return drops_version_; }
  void Learn(Drops drops);

  bool is_being_read = false;  // for lanes that are behind
  PageReader live_reader{1};   // thread-safe
  PageReader reader{4};        // thread-safe

 private:
  struct Order {
    bool operator()(const Lane* a, const Lane* b) const {
      return std::tie(a->place, a->client->number) < std::tie(b->place, b->client->number);
    }
  };
  using LaneSet = std::set<Lane*, Order>;

  void LinkBehind(Lane* lane);
  void LinkLive(Lane* lane);
  void Unlink(Lane* lane);
  // Has the lane go on over a page. Whether it took something.
  bool Advance(Lane* lane, LogPage* page);
  // It has come to the end of what there was.
  void Join(Lane* lane);
  // Tells the subscriber what it lacks of what was dropped by commits up to this one. A lane goes
  // on over a page only then: what it was not given by now it is not given at all.
  void CountLosses(Lane* lane, std::uint64_t view_serial);
  void CountLiveLosses(std::uint64_t view_serial);
  void FallBehind(Lane* lane, const CommitPlace& place);
  static LaneSet::const_iterator FirstFrom(const LaneSet& lanes, const CommitPlace& place);

  const std::uint32_t shard_;
  LaneSet behind_;
  LaneSet ready_;                                  // of these, whose clients are open
  std::map<std::uint64_t, std::set<Lane*>> live_;  // by interest
  std::size_t live_lanes_ = 0;
  CommitPlace live_place_;  // before it live lanes were given everything; if there are any
  bool is_live_read_ = false;
  bool has_joined_ = false;
  std::set<Lane*> joined_;                             // while the live lanes were being read for
  std::shared_ptr<const InterestSet> live_interests_;  // null: they have changed
  std::vector<meta::DropRecord> drops_;                // by serial
  std::uint64_t drops_version_ = 0;
  std::uint64_t live_counted_ = 0;  // as Lane::counted, of all live lanes
  CommitPlace sweep_;               // lanes are served in the order of their places, in turns
  std::uint64_t near_ = 1;          // serials that the last page went over
};

}  // namespace topicdb
