#include "topicdb/database.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "rocks/rocks_compat.h"
#include "store/cursor/scan_impl.h"
#include "store/cursor/scan_steps.h"
#include "store/cursor/stream_watch_impl.h"
#include "store/cursor/tail_impl.h"
#include "store/database/commit_wait.h"
#include "store/database/create.h"
#include "store/database/database_impl.h"
#include "store/database/missing_shards.h"
#include "store/read/last_source.h"
#include "store/read/log_gaps.h"
#include "store/read/summary.h"
#include "store/shard/state/record_reader.h"

namespace topicdb {

namespace {

// The limits of one step of Explain.
constexpr std::size_t kExplainRows = 100'000;
constexpr std::size_t kExplainBytes = std::size_t{16} << 20;

// The memory that the reader of one stream may take in Next.
constexpr std::size_t kPageMemoryBytes = std::size_t{32} << 20;

// Notes which commits a read of a slab of the view has seen. Slabs without a log hide none
// (MasksOf).
void NoteSeen(const ShardView& view, const Slab& slab, Iterator* iterator) {
  iterator->seen = view.serial();
  iterator->hidden.clear();
  if (slab.log() != nullptr) iterator->hidden = view.hidden();
}

bool WasReadOnly(const ShardView& view, const SlabId& slab) {
  const SlabView* const found = view.Find(slab);
  return found != nullptr && found->read_only;
}

Result<ShardMoment> FindMoment(const DatabaseImpl& impl, std::uint32_t index) {
  for (ShardMoment& moment : impl.shards().Moments()) {
    if (moment.shard->index() == index) return std::move(moment);
  }
  return impl.shards().NotOpen(index);
}

// Returns the target of a read of one stream. Sets `read_only` to whether its slab is read-only.
Result<StreamTarget> FindTarget(const DatabaseImpl& impl, const ShardMoment& moment,
                                const SlabId& slab, StreamId stream, const Filter& filter,
                                bool* read_only) {
  const auto rules = impl.environment().rules();
  const SlabView* found = moment.view->Find(slab);
  if (found == nullptr) {
    const bool known = slab.retention_class < rules->ids_end();
    return NotFound(DescribeSlab(slab, known ? rules->FilterOf(slab.retention_class) : "?") +
                    " is gone: it was dropped");
  }
  *read_only = found->read_only;
  std::optional<Structure> structure = found->slab->StructureOf(stream);
  if (!structure.has_value()) {
    return NotFound("there is no stream " + std::to_string(stream.value()) + " in " +
                    DescribeSlab(slab, rules->FilterOf(slab.retention_class)));
  }
  if (!RowFilter::Make(*structure, filter).has_value()) {
    return InvalidArgument("filter '" + filter.text() + "' matches no topic of the structure '" +
                           structure->Text() + "'");
  }
  return StreamTarget{moment.view,
                      found->slab,
                      StreamSet{std::vector<StreamId>{stream}, std::move(*structure)},
                      {filter}};
}

// Returns kStale for files of a replica: what was acknowledged is in its log, and some of it in no
// file of a shard.
Status CheckFilesHaveAll(const std::vector<std::shared_ptr<Shard>>& shards) {
  for (const auto& shard : shards) {
    const auto view = shard->view();
    const RecordReader records(view->db(), shard->Name());
    TOPICDB_ASSIGN_OR_RETURN(const bool is_replica, records.Has(meta::AppliedKey()));
    if (!is_replica) continue;
    return Stale(shard->Name() +
                 " is one of several replicas, and this handle sees its files only: read what was "
                 "acknowledged by way of its site");
  }
  return Status::Ok();
}

}  // namespace

std::string RocksDbVersion() { return rocks::Version(); }

Database::Database(std::shared_ptr<DatabaseImpl> impl, Missing missing)
    : impl_(std::move(impl)),
      missing_(missing),
      subscriptions_(impl_, missing == Missing::kLeftOut),
      upkeep_(impl_) {}

Database::~Database() {
  if (impl_->fork_guard().Forked()) {
    new std::shared_ptr<DatabaseImpl>(std::move(impl_));  // leave it alone
  } else if (missing_ == Missing::kRefused) {             // the handle that Open has made
    impl_->Close().IgnoreError();
  }
}

std::unique_ptr<Database> Database::Partial() const {
  return std::unique_ptr<Database>(new Database(impl_, Missing::kLeftOut));
}

Result<MissingReasons> Database::LeftOut(const std::vector<Filter>& filters) const {
  return impl_->shards().LeftOut(filters, missing_ == Missing::kLeftOut);
}

Result<std::unique_ptr<Database>> Database::Open(const std::string& path,
                                                 const OpenOptions& options) {
  return Open(path, options, MakeShardSource());
}

Result<std::unique_ptr<Database>> Database::Open(const std::string& path,
                                                 const OpenOptions& options,
                                                 const MakeShardSource& make) {
  TOPICDB_ASSIGN_OR_RETURN(auto impl, DatabaseImpl::Open(path, options, make));
  return std::unique_ptr<Database>(new Database(std::move(impl), Missing::kRefused));
}

Result<std::unique_ptr<Database>> Database::OpenUpload(const Upload& upload,
                                                       const OpenOptions& options) {
  TOPICDB_ASSIGN_OR_RETURN(auto impl, DatabaseImpl::OpenUpload(upload, options));
  return std::unique_ptr<Database>(new Database(std::move(impl), Missing::kRefused));
}

Result<Schema> Database::ReadSchema(const std::string& path) {
  TOPICDB_ASSIGN_OR_RETURN(FoundDatabase found, FindDatabase(path));
  return std::move(found.descriptor.schema);
}

const std::string& Database::path() const { return impl_->environment().database_path; }
const Schema& Database::schema() const { return impl_->environment().schema; }
bool Database::closed() const { return impl_->closed(); }

Result<MissingReasons> Database::MissingShards(const std::vector<Filter>& filters) const {
  TOPICDB_ENTER(impl_);
  return impl_->shards().LeftOut(filters, /*partial=*/true);
}

std::chrono::microseconds Database::clock_ahead() const {
  std::chrono::microseconds ahead{};
  for (const auto& shard : impl_->shards().All()) {
    ahead = std::max(ahead, shard->clock_ahead());
  }
  return ahead;
}

Result<std::vector<Stream>> Database::Streams(const Filter& filter, const TimeRange& range,
                                              Generation generation_min) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(LeftOut({filter}).status());
  const ShardEnvironment& environment = impl_->environment();
  const std::vector<ShardMoment> moments = impl_->shards().Moments();
  std::vector<Stream> streams;
  for (const ShardMoment& moment : moments) {
    for (const SlabView& view : moment.view->in_reading_order()) {
      if (view.slab->id().generation < generation_min || !view.slab->MayHold(range)) continue;
      AddStreams(environment, *view.slab, filter, {}, &streams);
    }
  }
  return streams;
}

Result<Iterator> Database::NewIterator(const Stream& stream, const Filter& filter,
                                       const TimeRange& range) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(impl_->CheckIsHere(stream.database, "this stream"));
  TOPICDB_ASSIGN_OR_RETURN(const ShardMoment moment, FindMoment(*impl_, stream.slab.shard));
  bool read_only = false;
  TOPICDB_ASSIGN_OR_RETURN(const StreamTarget target,
                           FindTarget(*impl_, moment, stream.slab, stream.id, filter, &read_only));
  Iterator iterator;
  iterator.database = stream.database;
  iterator.slab = stream.slab;
  iterator.stream = stream.id;
  iterator.filter = filter.text();
  iterator.position.timestamp = range.start.value_or(0);
  iterator.end = range.end;
  iterator.structure = target.set.structure.Text();
  NoteSeen(*moment.view, *target.slab, &iterator);
  return iterator;
}

Result<Page> Database::Next(const Iterator& iterator, const PageLimits& limits,
                            const InterruptCheck& interrupted) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(impl_->CheckIsHere(iterator.database, "this iterator"));
  TOPICDB_ASSIGN_OR_RETURN(const Filter filter, Filter::Parse(iterator.filter));
  TOPICDB_ASSIGN_OR_RETURN(const ShardMoment moment, FindMoment(*impl_, iterator.slab.shard));
  bool read_only = false;
  TOPICDB_ASSIGN_OR_RETURN(
      const StreamTarget target,
      FindTarget(*impl_, moment, iterator.slab, iterator.stream, filter, &read_only));
  // Only a position of the kind kAtTime bounds the range. Other positions come after a message or a
  // key.
  TimeRange range{std::nullopt, iterator.end};
  if (iterator.position.kind == Position::Kind::kAtTime) range.start = iterator.position.timestamp;
  // The reader that the last call has left continues, unless the view now has something else for
  // it.
  ReaderCache::Entry entry = impl_->environment().readers->Take(iterator.Encode());
  const bool is_current =
      entry.reader != nullptr && entry.shard == moment.shard &&
      entry.view->deletes_version() == moment.view->deletes_version() &&
      entry.view->hidden() == moment.view->hidden() &&
      (entry.view->serial() == moment.view->serial() || WasReadOnly(*entry.view, iterator.slab));
  if (!is_current) {
    entry.reader.reset();
    entry.view = moment.view;
    entry.shard = moment.shard;
    entry.reader = OpenReader(target, range, iterator.position, kPageMemoryBytes);
  }
  const std::unique_ptr<StreamReader>& reader = entry.reader;
  auto batch = std::make_shared<Batch>();
  ReadOutcome outcome = ReadOutcome::kMore;
  while (batch->empty() && outcome == ReadOutcome::kMore) {
    if (interrupted && interrupted()) return Interrupted();
    TOPICDB_ASSIGN_OR_RETURN(
        outcome, reader->Read({limits.rows_max, limits.bytes_max, kExaminedMax}, batch.get()));
  }
  Page page{iterator, nullptr, read_only && outcome == ReadOutcome::kExhausted};
  page.iterator.position = reader->position();
  page.iterator.exhausted = outcome == ReadOutcome::kExhausted;
  page.iterator.structure = target.set.structure.Text();
  NoteSeen(*entry.view, *target.slab, &page.iterator);
  page.batch = std::move(batch);
  if (outcome == ReadOutcome::kMore && !target.slab->layout().reads_one_stream()) {
    entry.iterator = page.iterator.Encode();
    impl_->environment().readers->Put(std::move(entry));
  }
  return page;
}

Result<ScanIterator> Database::NewScanIterator(const std::vector<Filter>& filters,
                                               const TimeRange& range) const {
  TOPICDB_ENTER(impl_);
  if (filters.empty()) return InvalidArgument("filter: at least one filter is needed");
  TOPICDB_RETURN_IF_ERROR(LeftOut(filters).status());
  const std::vector<ShardMoment> moments = impl_->shards().WholeMoments();
  return BeginScan(impl_->environment().database, moments, filters, range);
}

// A scan in steps hides no job that other shards have yet to apply: its commits would be neither in
// the scan nor behind it, for a reader that goes on with later commits.
Result<ScanPage> Database::Next(const ScanIterator& iterator, const PageLimits& limits,
                                const InterruptCheck& interrupted) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(impl_->CheckIsHere(iterator.database, "this scan"));
  const auto missing = impl_->shards().Missing();
  for (std::size_t i = iterator.in_shard; i < iterator.shards.size(); ++i) {
    const auto needed = missing->Only(iterator.shards[i].shard);
    TOPICDB_RETURN_IF_ERROR(needed.Fault(impl_->environment().database_path));
  }
  ScanSteps steps(impl_->environment(), impl_->shards().WholeMoments(), limits, interrupted);
  return steps.Read(iterator);
}

Result<std::unique_ptr<Scan>> Database::NewScan(const std::vector<Filter>& filters,
                                                const ScanOptions& options) const {
  TOPICDB_ENTER(impl_);
  MissingReasons left_out;  // a stream that is named must be there in any case
  if (!options.streams.has_value()) {
    TOPICDB_ASSIGN_OR_RETURN(left_out, LeftOut(filters));
  }
  std::vector<ShardMoment> moments = impl_->shards().Moments();
  if (options.streams.has_value()) {
    for (const Stream& stream : *options.streams) {
      TOPICDB_RETURN_IF_ERROR(impl_->CheckIsHere(stream.database, "a stream"));
      TOPICDB_ASSIGN_OR_RETURN(const ShardMoment moment, FindMoment(*impl_, stream.slab.shard));
      if (moment.view->Find(stream.slab) == nullptr) {
        return NotFound(DescribeSlab(stream.slab, stream.retention_class) +
                        " is gone: it was dropped");
      }
    }
  }
  std::vector<StreamTarget> targets = PlanStreams(moments, filters, options.range, options.streams);
  for (StreamTarget& target : targets) target.with_values = options.with_values;
  std::unique_ptr<MessageSource> source;
  ScanOrder order = options.order;
  // A layout that reads all streams of a slab at once merges them by time already.
  const bool is_by_time = targets.size() == 1 && !targets.front().slab->layout().reads_one_stream();
  if (order == ScanOrder::kTime && is_by_time) order = ScanOrder::kStream;
  switch (order) {
    case ScanOrder::kTime:
      source = std::make_unique<MergedSource>(std::move(targets), options.range);
      break;
    case ScanOrder::kStream:
      source = std::make_unique<SequentialSource>(std::move(targets), options.range, OpenInOrder);
      break;
    case ScanOrder::kNone:
      source = std::make_unique<SequentialSource>(std::move(targets), options.range, OpenUnordered);
  }
  return std::make_unique<Scan>(
      std::make_shared<ScanImpl>(impl_, std::move(moments), std::move(source), left_out));
}

Result<std::unique_ptr<Scan>> Database::Last(const std::vector<Filter>& filters,
                                             const TimeRange& range) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_ASSIGN_OR_RETURN(const MissingReasons left_out, LeftOut(filters));
  std::vector<ShardMoment> moments = impl_->shards().Moments();
  std::vector<StreamTarget> targets = PlanStreams(moments, filters, range, std::nullopt);
  return std::make_unique<Scan>(std::make_shared<ScanImpl>(
      impl_, std::move(moments), std::make_unique<LastSource>(std::move(targets), range),
      left_out));
}

Result<std::vector<MessageGroup>> Database::Summarize(const std::vector<Filter>& filters,
                                                      const TimeRange& range,
                                                      const SummaryOptions& options,
                                                      const InterruptCheck& interrupted) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(CheckSummaryOptions(options));
  TOPICDB_RETURN_IF_ERROR(LeftOut(filters).status());
  const std::vector<ShardMoment> moments = impl_->shards().Moments();
  return SummarizeTargets(PlanStreams(moments, filters, range, std::nullopt), range, options,
                          interrupted);
}

Result<Explanation> Database::Explain(const std::vector<Filter>& filters, const TimeRange& range,
                                      const InterruptCheck& interrupted) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(LeftOut(filters).status());
  const std::vector<ShardMoment> moments = impl_->shards().Moments();
  Explanation explanation;
  for (const ShardMoment& moment : moments) {
    for (const SlabView& view : moment.view->slabs()) {
      if (!view.slab->MayHold(range)) continue;
      ++explanation.slabs;
      std::set<StreamId> streams;
      for (const Filter& filter : filters) {
        const std::vector<StreamId> more = view.slab->MatchIds(filter);
        streams.insert(more.begin(), more.end());
      }
      explanation.streams += streams.size();
    }
  }
  for (const StreamTarget& target : PlanStreams(moments, filters, range, std::nullopt)) {
    const auto reader = OpenReader(target, range, StartOf(range));
    for (ReadOutcome outcome = ReadOutcome::kMore; outcome == ReadOutcome::kMore;) {
      if (interrupted && interrupted()) return Interrupted();
      Batch batch;
      TOPICDB_ASSIGN_OR_RETURN(outcome,
                               reader->Read({kExplainRows, kExplainBytes, kExaminedMax}, &batch));
    }
    explanation.counters.Add(reader->counters());
  }
  return explanation;
}

Result<std::unique_ptr<Tail>> Database::NewTail(const std::vector<Filter>& filters,
                                                const TailOptions& options) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(CheckShards("after", options.after, schema().shards));
  TOPICDB_RETURN_IF_ERROR(CheckShards("until", options.until, schema().shards));
  TOPICDB_ASSIGN_OR_RETURN(MissingReasons left_out, LeftOut(filters));
  TOPICDB_ASSIGN_OR_RETURN(GivenByShard given, GivenOf(*impl_, options.given));
  for (const auto& [shard, reads] : given) {
    const auto after = options.after.find(shard);
    if (after != options.after.end() && after->second >= reads->seen()) continue;
    TOPICDB_ASSIGN_OR_RETURN(const auto found, impl_->shards().Find(shard));
    TOPICDB_ASSIGN_OR_RETURN(const auto drops, found->DropsBehind(reads->counted()));
    TOPICDB_RETURN_IF_ERROR(reads->CheckNotLost(drops, filters));
  }
  const auto rules = impl_->environment().rules();
  for (const ShardMoment& moment : impl_->shards().WholeMoments()) {
    const std::uint32_t shard = moment.shard->index();
    const auto reads = given.find(shard);
    TOPICDB_RETURN_IF_ERROR(CheckLogBehind(*moment.view, *rules, WantsOf(filters, {}),
                                           SerialOf(options.after, shard, kNoSerial).Next(),
                                           SerialOf(options.until, shard, kLastSerial),
                                           reads == given.end() ? nullptr : reads->second.get()));
  }
  return std::make_unique<Tail>(
      std::make_shared<TailImpl>(impl_, filters, options, std::move(given), std::move(left_out)));
}

Result<std::unique_ptr<StreamWatch>> Database::WatchStreams(const Filter& filter,
                                                            bool existing) const {
  TOPICDB_ENTER(impl_);
  TOPICDB_RETURN_IF_ERROR(LeftOut({filter}).status());
  return std::make_unique<StreamWatch>(std::make_shared<StreamWatchImpl>(impl_, filter, existing));
}

Result<Stats> Database::GetStats() const {
  TOPICDB_ENTER(impl_);
  Stats stats;
  for (const auto& shard : impl_->shards().All()) stats.shards.push_back(shard->Stats());
  TOPICDB_ASSIGN_OR_RETURN(stats.missing,
                           impl_->shards().LeftOut({Filter::Everything()}, /*partial=*/true));
  stats.maintenance = impl_->upkeep().stats();
  stats.cache_bytes = rocks::CacheBytesInUse(impl_->environment().resources);
  return stats;
}

Status Database::AwaitCommits(const std::map<std::uint32_t, Serial>& serials,
                              std::optional<std::chrono::microseconds> timeout,
                              const InterruptCheck& interrupted) const {
  TOPICDB_RETURN_IF_ERROR(CheckShards("at_least", serials, schema().shards));
  std::string behind;  // the first shard that lacks its commit
  const auto look = [&]() -> Result<bool> {
    TOPICDB_ENTER(impl_);
    for (const auto& [index, serial] : serials) {
      const auto found = impl_->shards().Find(index);
      const bool is_left_out = found.status().code() == Code::kMissingShard;
      if (is_left_out && missing_ == Missing::kLeftOut) continue;
      TOPICDB_ASSIGN_OR_RETURN(const auto shard, found);
      const Serial seen = shard->view()->serial();
      if (seen >= serial) continue;
      behind = shard->Name() + " has not come to commit " + std::to_string(serial.value()) +
               ", only to " + std::to_string(seen.value());
      return false;
    }
    behind.clear();
    return true;
  };
  TOPICDB_RETURN_IF_ERROR(LookUntil(impl_, timeout, interrupted, look));
  if (behind.empty()) return Status::Ok();
  return Stale(behind + ": wait longer, or read from another replica");
}

Status Database::AwaitAcknowledged(std::chrono::microseconds timeout) const {
  TOPICDB_ENTER(impl_);
  if (impl_->environment().read_only) {
    TOPICDB_RETURN_IF_ERROR(impl_->Refresh());
    return CheckFilesHaveAll(impl_->shards().All());
  }
  return impl_->shards().AwaitAcknowledged(std::chrono::ceil<std::chrono::milliseconds>(timeout));
}

Status Database::Refresh() {
  TOPICDB_ENTER(impl_);
  return impl_->Refresh();
}

Result<std::vector<JobInfo>> Database::Jobs() const {
  TOPICDB_ENTER(impl_);
  std::vector<JobInfo> jobs;
  for (const auto& shard : impl_->shards().All()) {
    const std::vector<JobInfo> more = shard->Jobs();
    jobs.insert(jobs.end(), more.begin(), more.end());
  }
  return jobs;
}

Status Database::Flush() {
  TOPICDB_ENTER(impl_);
  for (const auto& shard : impl_->shards().All()) {
    TOPICDB_RETURN_IF_ERROR(shard->CheckInPlace());
    const Status sealed = shard->SealAll();
    // The replica that leads seals. If none has answered, one does so by itself later.
    const bool nobody_leads =
        sealed.code() == Code::kNotLeader || sealed.code() == Code::kUnknownOutcome;
    if (!nobody_leads) TOPICDB_RETURN_IF_ERROR(sealed);
    TOPICDB_RETURN_IF_ERROR(shard->Flush());
    TOPICDB_RETURN_IF_ERROR(impl_->upkeep().RemoveGarbage(*shard, GarbageScope::kAll));
  }
  return Status::Ok();
}

Status Database::Close() { return impl_->Close(); }

}  // namespace topicdb
