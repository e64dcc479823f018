#include "subscribe/track.h"

#include <algorithm>

#include "store/read/drop_summary.h"

namespace topicdb {

void Client::SetOpen(bool open) {
  is_open = open;
  for (Lane& lane : lanes) lane.track->SetOpen(&lane, open);
}

void Track::Add(Lane* lane) { LinkBehind(lane); }

void Track::Remove(Lane* lane) {
  Unlink(lane);
  joined_.erase(lane);
}

void Track::SetOpen(Lane* lane, bool open) {
  if (lane->is_live) return;
  if (open) {
    ready_.insert(lane);
  } else {
    ready_.erase(lane);
  }
}

CommitPlace Track::PlaceOf(const Lane& lane) const {
  return lane.is_live ? std::max(lane.place, live_place_) : lane.place;
}

void Track::LinkBehind(Lane* lane) {
  lane->is_live = false;
  behind_.insert(lane);
  if (lane->client->is_open) ready_.insert(lane);
}

void Track::LinkLive(Lane* lane) {
  lane->is_live = true;
  std::set<Lane*>& lanes = live_[lane->client->interest->number];
  if (lanes.empty()) live_interests_ = nullptr;
  lanes.insert(lane);
  ++live_lanes_;
}

void Track::Unlink(Lane* lane) {
  if (!lane->is_live) {
    behind_.erase(lane);
    ready_.erase(lane);
    return;
  }
  const auto lanes = live_.find(lane->client->interest->number);
  lanes->second.erase(lane);
  --live_lanes_;
  if (!lanes->second.empty()) return;
  live_.erase(lanes);
  live_interests_ = nullptr;
}

void Track::MoveTo(const CommitPlace& place, Lane* lane) {
  lane->place = place;
  if (lane->given != nullptr && place.serial > lane->given->seen()) lane->given = nullptr;
}

void Track::FallBehind(Lane* lane, const CommitPlace& place) {
  Unlink(lane);
  MoveTo(place, lane);
  LinkBehind(lane);
}

Track::LaneSet::const_iterator Track::FirstFrom(const LaneSet& lanes, const CommitPlace& place) {
  Client none;
  Lane first;
  first.client = &none;  // its number, 0, is less than any other
  first.place = place;
  return lanes.lower_bound(&first);
}

Lane* Track::NextReady() const {
  if (ready_.empty()) return nullptr;
  const auto found = FirstFrom(ready_, sweep_);
  return found == ready_.end() ? *ready_.begin() : *found;
}

std::vector<SharedInterest> Track::InterestsNear(const Lane& lane) const {
  const CommitPlace end{lane.place.serial.Next(near_), lane.place.index};
  std::map<std::uint64_t, SharedInterest> interests;
  if (lane.given != nullptr) return {lane.client->interest};
  for (auto it = FirstFrom(behind_, lane.place); it != behind_.end() && (*it)->place < end; ++it) {
    if ((*it)->given != nullptr) continue;
    const SharedInterest& interest = (*it)->client->interest;
    interests.emplace(interest->number, interest);
  }
  std::vector<SharedInterest> found;
  for (auto& [number, interest] : interests) found.push_back(std::move(interest));
  return found;
}

std::vector<Lane*> Track::ReadyAt(const CommitPlace& place, const Interest& interest,
                                  const std::shared_ptr<const GivenReads>& given) const {
  std::vector<Lane*> lanes;
  for (auto it = FirstFrom(ready_, place); it != ready_.end() && (*it)->place == place; ++it) {
    if ((*it)->given != given) continue;
    if ((*it)->client->interest->number == interest.number) lanes.push_back(*it);
  }
  return lanes;
}

void Track::Learn(Drops drops) {
  if (drops_.empty()) first_drop_is_many_ = drops.more.size() >= meta::kDropsMax;
  for (meta::DropRecord& drop : drops.more) {
    if (drop.serial > drops_until()) drops_.push_back(std::move(drop));
  }
  drops_version_ = drops.removals_version;
}

std::uint64_t Track::CountLostBy(const Lane& lane, const meta::DropRecord& drop) const {
  const Interest& interest = *lane.client->interest;
  const Serial from = PlaceOf(lane).serial;
  if (lane.given == nullptr) {
    return CountLost(drop, interest.filters, interest.timestamp_min, from);
  }
  const bool may_be_many = first_drop_is_many_ && &drop == &drops_.front();
  return lane.given->CountLost(drop, interest.filters, interest.timestamp_min, from, may_be_many);
}

void Track::CountLosses(Lane* lane, Serial view_serial) {
  const auto first = std::partition_point(
      drops_.begin(), drops_.end(), [&](const auto& drop) { return drop.serial <= lane->counted; });
  for (auto drop = first; drop != drops_.end() && drop->serial <= view_serial; ++drop) {
    const std::uint64_t messages = CountLostBy(*lane, *drop);
    if (messages == 0) continue;
    lane->client->subscriber->Lose(
        {shard_, drop->retention_class, drop->generation, drop->serial, messages});
  }
  lane->counted = std::max(lane->counted, view_serial);
}

void Track::CountLiveLosses(Serial view_serial) {
  const bool has_new = drops_until() > live_counted_;
  live_counted_ = std::max(live_counted_, view_serial);
  if (!has_new) return;
  for (const auto& [interest, lanes] : live_) {
    for (Lane* lane : lanes) CountLosses(lane, view_serial);
  }
}

bool Track::Advance(Lane* lane, LogPage* page) {
  const LogSpan& span = page->span();
  CountLosses(lane, span.view_serial);
  CommitPlace place = std::max(PlaceOf(*lane), span.to);
  bool has_taken = false;
  const SharedLogRows rows = page->RowsOf(*lane->client->interest);
  const std::size_t begin = rows == nullptr ? 0 : rows->RowAt(lane->place);
  if (rows != nullptr && begin < rows->size()) {
    const std::size_t taken =
        lane->client->subscriber->Offer({shard_, rows, begin, span.to, lane->is_live});
    has_taken = taken > 0;
    if (begin + taken < rows->size()) {
      place = rows->place(begin + taken);
      FallBehind(lane, place);
      lane->client->SetOpen(false);
      return has_taken;
    }
  }
  if (lane->is_live) {
    lane->place = place;
    return has_taken;
  }
  FallBehind(lane, place);
  if (span.at_end) Join(lane);
  return has_taken;
}

void Track::Join(Lane* lane) {
  if (live_lanes_ == 0) {
    live_place_ = lane->place;
  } else if (lane->place < live_place_) {
    return;  // the page in between is likely to be kept
  }
  Unlink(lane);
  LinkLive(lane);
  CountLosses(lane, live_counted_);
  if (is_live_read_) joined_.insert(lane);
  has_joined_ = true;
}

std::size_t Track::ServeReady(LogPage* page, std::uint64_t client_max) {
  const LogSpan& span = page->span();
  near_ = std::max<std::uint64_t>(span.to.serial.StepsFrom(span.from.serial), 1);
  std::vector<Lane*> lanes;
  for (auto it = FirstFrom(ready_, span.from); it != ready_.end(); ++it) {
    const Lane& lane = **it;
    if (lane.place >= span.to && lane.place != span.from) break;  // an empty page serves its place
    if (lane.client->number > client_max || lane.given != span.given) continue;
    if (page->Covers(*lane.client->interest)) lanes.push_back(*it);
  }
  std::size_t taken = 0;
  for (Lane* lane : lanes) {
    if (Advance(lane, page)) ++taken;
  }
  sweep_ = {span.to.serial, span.to.index + 1};  // other lanes come before these again
  return taken;
}

std::shared_ptr<const InterestSet> Track::BeginLiveRead() {
  is_live_read_ = live_lanes_ > 0;
  if (live_lanes_ == 0) return nullptr;
  if (live_interests_ == nullptr) {
    std::vector<SharedInterest> interests;
    for (const auto& [number, lanes] : live_) {
      interests.push_back((*lanes.begin())->client->interest);
    }
    live_interests_ = std::make_shared<const InterestSet>(std::move(interests));
  }
  return live_interests_;
}

std::size_t Track::ServeLive(LogPage* page) {
  is_live_read_ = false;
  CountLiveLosses(page->span().view_serial);
  std::size_t taken = 0;
  for (Lane* lane : joined_) {
    if (!lane->is_live) continue;
    if (lane->place < page->span().from || !page->Covers(*lane->client->interest)) {
      FallBehind(lane, lane->place);
    } else if (Advance(lane, page)) {
      ++taken;
    }
  }
  joined_.clear();
  for (const auto& [interest, rows] : page->rows()) {
    const auto found = live_.find(interest);
    if (found == live_.end()) continue;
    const std::vector<Lane*> lanes(found->second.begin(), found->second.end());
    for (Lane* lane : lanes) {
      if (Advance(lane, page)) ++taken;
    }
  }
  live_place_ = std::max(live_place_, page->span().to);
  return taken;
}

void Track::AbandonLive() {
  is_live_read_ = false;
  joined_.clear();
  while (!live_.empty()) {
    Lane* lane = *live_.begin()->second.begin();
    FallBehind(lane, PlaceOf(*lane));
  }
}

}  // namespace topicdb
