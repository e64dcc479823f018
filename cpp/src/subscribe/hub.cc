#include "subscribe/hub.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace topicdb {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kKeptBytes = std::size_t{64} << 20;  // of kept pages
constexpr std::size_t kCatchUpThreads = 2;
// The limits of a page, which is read once for all that want something of it. Each subscriber gets
// as much of it as its window takes.
constexpr PageLimits kPageLimits{8'192, std::size_t{4} << 20, true};
// How long the live thread waits if nothing wakes it. Commits, lanes that join and the end of the
// hub wake it.
constexpr std::chrono::hours kLongWait(24);
// How often a read-only handle looks for new commits.
constexpr std::chrono::milliseconds kRefreshWait(250);
// When no lane was behind for this long, the hub gives back pages and cursors that it has kept.
constexpr std::chrono::seconds kRest(1);

// Returns the drops that the view of a page knows and a track does not. The track knows those up to
// the commit `known_until`, and all that a view with the removals version `known_version` knows.
Result<Track::Drops> DropsFor(const LogPage& page, const Shard& shard, Serial known_until,
                              std::uint64_t known_version) {
  Track::Drops drops;
  drops.removals_version = page.span().removals_version;
  if (drops.removals_version == known_version) return drops;
  TOPICDB_ASSIGN_OR_RETURN(drops.more, shard.DropsBehind(known_until));
  return drops;
}

std::vector<std::unique_ptr<Track>> TracksOf(const DatabaseImpl& database) {
  std::vector<std::unique_ptr<Track>> tracks;
  for (const auto& shard : database.shards().All()) {
    tracks.push_back(std::make_unique<Track>(shard->index()));
  }
  return tracks;
}

}  // namespace

SubscriptionHub::SubscriptionHub(std::shared_ptr<DatabaseImpl> database)
    : database_(std::move(database)), tracks_(TracksOf(*database_)), cache_(kKeptBytes) {
  database_->Register(this);
  threads_.emplace_back([this] { RunLive(); });
  for (std::size_t i = 0; i < std::min(kCatchUpThreads, tracks_.size()); ++i) {
    threads_.emplace_back([this] { RunCatchUp(); });
  }
}

SubscriptionHub::~SubscriptionHub() {
  {
    const ReaderLock in_use(database_->lifecycle());
    Release();
    database_->Unregister(this);
  }
  for (std::thread& thread : threads_) thread.join();
}

void SubscriptionHub::Release() {
  stopping_ = true;
  FailAll(Closed(database_->environment().database_path + " is closed"));
  WakeLive();
  for (const auto& track : tracks_) {
    track->reader.Clear();
    track->live_reader.Clear();
  }
}

void SubscriptionHub::FailAll(const Status& status) {
  const MutexLock lock(mutex_);
  for (const auto& [number, client] : clients_) {
    client->subscriber->Fail(status);
    for (Lane& lane : client->lanes) lane.track->Remove(&lane);
  }
  clients_.clear();
  cache_.Clear();
  work_.NotifyAll();
}

Track* SubscriptionHub::FindTrack(std::uint32_t shard) const {
  const auto found = std::find_if(tracks_.begin(), tracks_.end(),
                                  [&](const auto& track) { return track->shard() == shard; });
  return found == tracks_.end() ? nullptr : found->get();
}

bool SubscriptionHub::ServesAllShards() const {
  const auto shards = database_->shards().All();
  return std::all_of(shards.begin(), shards.end(),
                     [this](const auto& shard) { return FindTrack(shard->index()) != nullptr; });
}

SharedInterest SubscriptionHub::InterestOf(const Wanted& wanted) {
  std::weak_ptr<const Interest>& known = interests_[wanted.Key()];
  SharedInterest interest = known.lock();
  if (interest == nullptr) {
    interest = std::make_shared<const Interest>(++last_interest_, wanted);
    known = interest;
  }
  return interest;
}

std::uint64_t SubscriptionHub::Add(std::shared_ptr<Subscriber> subscriber, const Wanted& wanted,
                                   const LaneStarts& starts) {
  auto client = std::make_unique<Client>();
  const MutexLock lock(mutex_);
  client->number = ++last_client_;
  client->subscriber = std::move(subscriber);
  client->interest = InterestOf(wanted);
  for (const auto& track : tracks_) {
    const LaneStart& start = starts.at(track->shard());
    client->lanes.push_back(
        {client.get(), track.get(), start.place, false, start.counted, start.given});
  }
  for (Lane& lane : client->lanes) lane.track->Add(&lane);
  work_.NotifyAll();
  const std::uint64_t number = client->number;
  clients_.emplace(number, std::move(client));
  return number;
}

void SubscriptionHub::Remove(std::uint64_t client) {
  const MutexLock lock(mutex_);
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  for (Lane& lane : found->second->lanes) lane.track->Remove(&lane);
  const std::string key = found->second->interest->Key();
  clients_.erase(found);
  if (const auto known = interests_.find(key); known->second.expired()) interests_.erase(known);
}

void SubscriptionHub::Reopen(std::uint64_t client) {
  const MutexLock lock(mutex_);
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  found->second->SetOpen(true);
  work_.NotifyAll();
}

void SubscriptionHub::Complete(std::uint64_t client, SubscriptionInfo* info) const {
  const MutexLock lock(mutex_);
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  // Asks the subscriber now, when nothing can be offered: what waits and which lanes are live must
  // be of one moment.
  std::set<std::uint32_t> waiting;
  *info = found->second->subscriber->Info(&waiting);
  bool is_live = true;
  for (const Lane& lane : found->second->lanes) {
    is_live &= lane.is_live;
    const std::uint32_t shard = lane.track->shard();
    // The lane may be further, past messages that the subscriber does not want.
    if (!waiting.contains(shard)) info->places[shard] = lane.track->PlaceOf(lane);
  }
  if (info->state == SubscriptionState::kLive && !is_live) {
    info->state = SubscriptionState::kCatchingUp;
  }
}

Result<PlacedMessages> SubscriptionHub::Find(std::uint32_t shard,
                                             const std::vector<Filter>& filters,
                                             const std::vector<CommitPlace>& places,
                                             const InterruptCheck& interrupted) const {
  TOPICDB_ENTER(database_);
  TOPICDB_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> found, database_->shards().Find(shard));
  auto batch = std::make_shared<Batch>(/*keeps_serials=*/true);
  std::vector<std::uint32_t> rows;
  LogQuery query;
  query.filters = filters;
  if (!places.empty()) {
    query.from = places.front();
    query.until = places.back().serial;
  }
  LogCursor cursor(std::move(query));
  // Messages at these places were given out of the log, so no generation without one matters.
  cursor.LookWith(std::make_shared<LogGaps>(std::vector<LogWant>{}));
  while (!places.empty() && cursor.place() <= places.back()) {
    Batch part(/*keeps_serials=*/true);
    std::vector<std::uint32_t> indexes;
    TOPICDB_RETURN_IF_ERROR(cursor.ReadMessages(found, kPageLimits, interrupted, &part, &indexes));
    for (std::size_t i = 0; i < part.size(); ++i) {
      const CommitPlace place{part.serial(i), indexes[i]};
      if (!std::binary_search(places.begin(), places.end(), place)) continue;
      batch->Append(part.message(i), place.serial);
      rows.push_back(place.index);
    }
    if (cursor.at_end()) break;
  }
  return PlacedMessages{std::move(batch), std::move(rows)};
}

SubscriptionStats SubscriptionHub::Stats() const {
  const MutexLock lock(mutex_);
  SubscriptionStats stats = stats_;
  stats.subscriptions = clients_.size();
  stats.page_bytes = cache_.bytes();
  return stats;
}

void SubscriptionHub::RunLive() {
  const bool read_only = database_->environment().read_only;
  while (true) {
    const std::uint64_t seen = database_->environment().commits->count();
    if (IsStopping()) return;
    if (const Status status = LivePass(); !status.ok()) {
      if (status.code() == Code::kClosed) return;
      FailAll(status);  // later subscribers may succeed
    }
    const auto now = Clock::now();
    database_->environment().commits->WaitUntil(seen,
                                                read_only ? now + kRefreshWait : now + kLongWait);
  }
}

Status SubscriptionHub::LivePass() {
  TOPICDB_ENTER(database_);
  if (database_->environment().read_only) TOPICDB_RETURN_IF_ERROR(database_->Refresh());
  for (const auto& shard : database_->shards().All()) {
    while (!IsStopping() && LiveStep(shard)) {
    }
  }
  return Status::Ok();
}

bool SubscriptionHub::LiveStep(const std::shared_ptr<Shard>& shard) {
  Track* track = FindTrack(shard->index());
  if (track == nullptr) return false;  // the shard was missing when the hub was made
  std::shared_ptr<const InterestSet> interests;
  CommitPlace from;
  Serial drops_until;
  std::uint64_t drops_version = 0;
  {
    const MutexLock lock(mutex_);
    interests = track->BeginLiveRead();
    from = track->live_place();
    drops_until = track->drops_until();
    drops_version = track->drops_version();
  }
  if (interests == nullptr) return false;
  const auto read = [&]() -> Result<Read> {
    TOPICDB_ASSIGN_OR_RETURN(auto page, track->live_reader.Read(shard, interests, from, kPageLimits,
                                                                [this] { return IsStopping(); }));
    TOPICDB_ASSIGN_OR_RETURN(auto drops, DropsFor(*page, *shard, drops_until, drops_version));
    return Read{std::move(page), std::move(drops)};
  };
  Result<Read> found = read();
  const MutexLock lock(mutex_);
  if (!found.ok()) {
    track->AbandonLive();
    work_.NotifyAll();
    return false;
  }
  const std::shared_ptr<LogPage>& page = found->page;
  track->Learn(std::move(found->drops));
  const std::size_t taken = track->ServeLive(page.get());
  const bool has_more = !page->span().at_end || track->TakeJoined();
  if (page->span().rows->size() > 0) {  // else no live lane wants these commits
    ++stats_.live_reads;
    stats_.shared_reads += taken > 0 ? taken - 1 : 0;
    if (IsCurrent(*page)) cache_.Add(page);
  }
  if (track->NextReady() != nullptr) work_.NotifyAll();
  return has_more;
}

void SubscriptionHub::RunCatchUp() {
  while (!IsStopping()) {
    const Result<bool> worked = CatchUpStep();
    if (!worked.ok()) return;
    if (*worked) continue;
    RestReaders();
  }
}

Result<bool> SubscriptionHub::CatchUpStep() {
  TOPICDB_ENTER(database_);
  Errand errand;
  {
    const MutexLock lock(mutex_);
    Track* track = NextTrack();
    if (track == nullptr) return false;
    const Lane& lane = *track->NextReady();
    if (ServeKept(track, lane)) return true;
    track->is_being_read = true;
    errand = {
        track,        lane.place,           lane.client->interest,  track->InterestsNear(lane),
        last_client_, track->drops_until(), track->drops_version(), lane.given};
  }
  Finish(errand, ReadFor(errand));
  return true;
}

Track* SubscriptionHub::NextTrack() {
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    next_track_ = (next_track_ + 1) % tracks_.size();
    Track* track = tracks_[next_track_].get();
    if (!track->is_being_read && track->NextReady() != nullptr) return track;
  }
  return nullptr;
}

std::uint64_t SubscriptionHub::RemovalsVersionOf(std::uint32_t shard) const {
  const auto found = database_->shards().Find(shard);
  return found.ok() ? (*found)->view()->removals_version() : 0;
}

bool SubscriptionHub::IsCurrent(const LogPage& page) {
  const std::uint64_t now = RemovalsVersionOf(page.span().shard);
  cache_.KeepOnly(page.span().shard, now);
  return page.span().removals_version == now;
}

bool SubscriptionHub::ServeKept(Track* track, const Lane& lane) {
  cache_.KeepOnly(track->shard(), RemovalsVersionOf(track->shard()));
  if (lane.given != nullptr) return false;
  const auto page = cache_.Find(track->shard(), lane.place, *lane.client->interest);
  if (page == nullptr) return false;
  stats_.shared_reads += track->ServeReady(page.get(), last_client_);
  if (track->TakeJoined()) WakeLive();
  return true;
}

Result<SubscriptionHub::Read> SubscriptionHub::ReadFor(const Errand& errand) {
  TOPICDB_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> shard,
                           database_->shards().Find(errand.track->shard()));
  const auto read = [&](std::vector<SharedInterest> interests) -> Result<Read> {
    TOPICDB_ASSIGN_OR_RETURN(
        auto page, errand.track->reader.Read(
                       shard, std::make_shared<const InterestSet>(std::move(interests)),
                       errand.from, kPageLimits, [this] { return IsStopping(); }, errand.given));
    TOPICDB_ASSIGN_OR_RETURN(auto drops,
                             DropsFor(*page, *shard, errand.drops_until, errand.drops_version));
    return Read{std::move(page), std::move(drops)};
  };
  auto found = read(errand.interests);
  if (found.ok() || errand.interests.size() == 1) return found;
  return read({errand.first});  // the damage may be in what other lanes want
}

void SubscriptionHub::Finish(const Errand& errand, Result<Read> read) {
  const MutexLock lock(mutex_);
  errand.track->is_being_read = false;
  if (IsStopping()) return;
  if (!read.ok()) {
    for (Lane* lane : errand.track->ReadyAt(errand.from, *errand.first, errand.given)) {
      lane->client->subscriber->Fail(read.status());
      lane->client->SetOpen(false);
    }
    return;
  }
  const std::shared_ptr<LogPage>& page = read->page;
  errand.track->Learn(std::move(read->drops));
  const bool is_current = IsCurrent(*page);
  // If something was removed since the page was read, a subscriber that came after the errand began
  // gets nothing of the page.
  const std::size_t taken =
      errand.track->ServeReady(page.get(), is_current ? last_client_ : errand.last_client);
  ++stats_.catch_up_reads;
  stats_.shared_reads += taken > 0 ? taken - 1 : 0;
  const bool is_whole = page->span().given == nullptr;
  if (is_current && is_whole && page->span().from < page->span().to) cache_.Add(page);
  if (errand.track->TakeJoined()) WakeLive();
}

void SubscriptionHub::RestReaders() {
  const MutexLock lock(mutex_);
  const auto has_work = [&] {
    return std::any_of(tracks_.begin(), tracks_.end(), [](const auto& track) {
      return !track->is_being_read && track->NextReady() != nullptr;
    });
  };
  bool rested = false;
  while (!IsStopping() && !has_work()) {
    const auto now = Clock::now();
    const auto end = rested ? now + std::chrono::hours(kLongWait) : now + kRest;
    work_.WaitUntil(mutex_, end);
    if (rested || has_work() || Clock::now() < end) continue;
    rested = true;
    for (const auto& track : tracks_) {
      if (!track->is_being_read) track->reader.Clear();
    }
    cache_.Clear();
    // Pages and readers hold interests for longer than their subscribers.
    std::erase_if(interests_, [](const auto& known) { return known.second.expired(); });
  }
}

}  // namespace topicdb
