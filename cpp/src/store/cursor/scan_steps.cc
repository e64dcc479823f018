#include "store/cursor/scan_steps.h"

#include <algorithm>
#include <string>
#include <utility>

#include "store/cursor/scan_impl.h"
#include "store/read/drop_summary.h"

namespace topicdb {

namespace {

// The memory that the reader of one slab may take.
constexpr std::size_t kPageMemoryBytes = std::size_t{32} << 20;

std::vector<ScanProgress> ClassesOf(const ShardView& view) {
  std::vector<ScanProgress> classes;
  std::optional<ScanProgress> found;
  bool has_messages = false;
  const auto finish = [&] {
    if (has_messages) classes.push_back(*found);
    has_messages = false;
  };
  for (const SlabView& slab_view : view.slabs()) {
    const SlabId& id = slab_view.slab->id();
    if (!found.has_value() || found->retention_class != id.retention_class) {
      finish();
      found = ScanProgress{id.retention_class, id.generation, id.generation, kNoSerial};
    }
    found->last = id.generation;
    has_messages = has_messages || slab_view.slab->MayHold({});
  }
  finish();
  return classes;
}

bool IsKept(const Slab& slab) { return slab.record().keep_last > 0; }

// Returns the only stream of a target, or kNoStream if the slab is read as one stream.
StreamId StreamOf(const StreamTarget& target) {
  return target.slab->layout().reads_one_stream() ? target.set.streams->front() : kNoStream;
}

// Returns whether the generation certainly had messages of commits up to `until`.
bool HadSome(const meta::DropRecord& drop, Serial until) {
  return std::any_of(drop.parts.begin(), drop.parts.end(),
                     [&](const auto& part) { return part.counts.front().serial <= until; });
}

}  // namespace

ScanIterator BeginScan(const DatabaseId& database, const std::vector<ShardMoment>& moments,
                       const std::vector<Filter>& filters, const TimeRange& range) {
  ScanIterator iterator;
  iterator.database = database;
  const bool is_all = std::any_of(filters.begin(), filters.end(),
                                  [](const Filter& filter) { return filter.is_everything(); });
  if (!is_all) {
    for (const Filter& filter : filters) iterator.filters.push_back(filter.text());
  }
  iterator.start = range.start.value_or(0);
  iterator.end = range.end;
  for (const ShardMoment& moment : moments) {
    iterator.shards.push_back(
        {moment.shard->index(), moment.view->serial(), ClassesOf(*moment.view)});
  }
  iterator.counted = iterator.shards.front().until;
  return iterator;
}

ScanSteps::ScanSteps(const ShardEnvironment& environment, std::vector<ShardMoment> moments,
                     const PageLimits& limits, const InterruptCheck& interrupted)
    : environment_(environment),
      moments_(std::move(moments)),
      limits_(limits),
      interrupted_(interrupted),
      batch_(std::make_shared<Batch>(limits.with_serials)) {}

Result<ScanPage> ScanSteps::Read(const ScanIterator& from) {
  at_ = from;
  for (const std::string& text : at_.filters) {
    TOPICDB_ASSIGN_OR_RETURN(Filter filter, Filter::Parse(text));
    filters_.push_back(std::move(filter));
  }
  if (filters_.empty()) filters_.push_back(Filter::Everything());
  if (at_.place.has_value()) left_ = environment_.readers->Take(from.Encode());
  while (!at_.at_end() && batch_->empty() && !loss_.has_value()) {
    TOPICDB_RETURN_IF_ERROR(Enter());
    TOPICDB_RETURN_IF_ERROR(FindLoss());
    if (!loss_.has_value()) TOPICDB_RETURN_IF_ERROR(ReadShard());
  }
  if (kept_.reader != nullptr) {
    kept_.iterator = at_.Encode();
    environment_.readers->Put(std::move(kept_));
  }
  const bool end_of_scan = at_.at_end();
  return ScanPage{std::move(at_), std::move(batch_), end_of_scan, std::move(loss_)};
}

Status ScanSteps::Enter() {
  const std::string number = std::to_string(here().shard);
  const auto found = std::find_if(moments_.begin(), moments_.end(), [&](const ShardMoment& moment) {
    return moment.shard->index() == here().shard;
  });
  if (found == moments_.end()) return NotFound("shard " + number + " is not open here");
  moment_ = &*found;
  if (view().serial() >= here().until) return Status::Ok();
  return InvalidArgument(moment_->shard->Name() + " is seen up to commit " +
                         std::to_string(view().serial().value()) + " here, the scan goes up to " +
                         std::to_string(here().until.value()) + ": refresh() or open it again");
}

Status ScanSteps::FindLoss() {
  if (at_.counted != view().serial()) {
    TOPICDB_ASSIGN_OR_RETURN(const std::vector<meta::DropRecord> drops,
                             moment_->shard->DropsBehind(at_.counted));
    for (std::size_t i = 0; i < drops.size() && !loss_.has_value(); ++i) {
      const meta::DropRecord& drop = drops[i];
      if (drop.serial > view().serial()) break;  // the view has it still
      // The oldest record stands for all drops before it.
      const std::uint64_t messages = Lose(drop, i == 0 && drops.size() >= meta::kDropsMax);
      at_.counted = drop.serial;
      if (messages == 0) continue;
      loss_ = Loss{here().shard, drop.retention_class, drop.generation, drop.serial, messages};
    }
    if (loss_.has_value()) return Status::Ok();
    at_.counted = view().serial();
  }
  return LeaveLostPlace();
}

std::uint64_t ScanSteps::Lose(const meta::DropRecord& drop, bool may_be_many) {
  Serial first;
  if (!may_be_many) {
    const auto rules = environment_.rules();
    const auto& classes = here().classes;
    const auto found = std::find_if(classes.begin(), classes.end(), [&](const ScanProgress& at) {
      const RetentionRule* const rule = rules->Find(at.retention_class);
      return rule != nullptr && rule->filter.text() == drop.retention_class;
    });
    if (found == classes.end() || drop.generation < found->next) return 0;
    // A generation that began later has no message of the scan, unless keep_last has made it.
    if (drop.generation > found->last && !HadSome(drop, here().until)) return 0;
    first = found->read.Next();
  }
  return CountLost(drop, filters_, at_.start, first, here().until);
}

Status ScanSteps::LeaveLostPlace() {
  if (!at_.place.has_value()) return Status::Ok();
  const std::uint32_t in_class = at_.place->in_class;
  const ScanProgress& progress = here().classes[in_class];
  const SlabId id{here().shard, progress.retention_class, progress.next};
  if (view().Find(id) != nullptr) return Status::Ok();
  for (auto after = PlaceOf(id, view().slabs()); after != view().slabs().end(); ++after) {
    if (after->slab->id().retention_class != id.retention_class) break;
    if (!IsKept(*after->slab)) continue;
    return NotFound(view().Describe(id) + " is gone: keep_last has merged it with others while " +
                    "the scan was reading it; begin another scan");
  }
  LeaveSlab(id, in_class);
  return Status::Ok();
}

Status ScanSteps::ReadShard() {
  for (const SlabView* const slab : SlabsToRead()) {
    if (is_full()) return Status::Ok();
    const std::uint32_t in_class = *IndexOf(slab->slab->id().retention_class);
    TOPICDB_ASSIGN_OR_RETURN(const ReadOutcome outcome, ReadSlab(*slab, in_class));
    if (outcome == ReadOutcome::kMore) return Status::Ok();
    LeaveSlab(slab->slab->id(), in_class);
  }
  LeaveShard();
  return Status::Ok();
}

std::vector<const SlabView*> ScanSteps::SlabsToRead() {
  std::vector<const SlabView*> slabs;
  std::optional<SlabId> reading;
  if (at_.place.has_value()) {
    const ScanProgress& progress = here().classes[at_.place->in_class];
    reading = SlabId{here().shard, progress.retention_class, progress.next};
    slabs.push_back(view().Find(*reading));
  }
  for (const SlabView& slab : view().in_reading_order()) {
    if (slab.slab->id() != reading && IsToRead(slab)) slabs.push_back(&slab);
  }
  return slabs;
}

std::optional<std::uint32_t> ScanSteps::IndexOf(RetentionClassId retention_class) {
  const auto& classes = here().classes;
  const auto found = std::lower_bound(classes.begin(), classes.end(), retention_class,
                                      [](const ScanProgress& progress, RetentionClassId wanted) {
                                        return progress.retention_class < wanted;
                                      });
  if (found == classes.end() || found->retention_class != retention_class) return std::nullopt;
  return static_cast<std::uint32_t>(found - classes.begin());
}

bool ScanSteps::IsToRead(const SlabView& slab) {
  const std::optional<std::uint32_t> in_class = IndexOf(slab.slab->id().retention_class);
  if (!in_class.has_value()) return false;
  if (slab.slab->id().generation < here().classes[*in_class].next) return false;
  // What keep_last has kept takes the place of the newest generation that it was made of.
  return slab.slab->begun_at() < here().until || IsKept(*slab.slab);
}

Result<ReadOutcome> ScanSteps::ReadSlab(const SlabView& slab, std::uint32_t in_class) {
  if (!slab.slab->MayHold(range())) return ReadOutcome::kExhausted;
  for (const StreamTarget& target : TargetsOf(slab, in_class)) {
    if (is_full()) return ReadOutcome::kMore;
    TOPICDB_ASSIGN_OR_RETURN(const ReadOutcome outcome, ReadTarget(target, in_class));
    if (outcome == ReadOutcome::kMore) return outcome;
  }
  return ReadOutcome::kExhausted;
}

std::vector<StreamTarget> ScanSteps::TargetsOf(const SlabView& slab, std::uint32_t in_class) {
  std::vector<RowMask> masks;
  if (IsKept(*slab.slab)) {
    masks.push_back({Filter::Everything(), {}, here().classes[in_class].read});
  }
  // Streams that the slab has learned since may come before the one that was read last. They have
  // only later commits.
  std::optional<std::pair<std::string, StreamId>> first;
  if (at_.place.has_value() && at_.place->stream != kNoStream) {
    const std::optional<Structure> structure = slab.slab->StructureOf(at_.place->stream);
    if (structure.has_value()) first = std::pair(structure->Text(), at_.place->stream);
  }
  std::vector<StreamTarget> targets;
  for (StreamSet& set : SelectStreams(*slab.slab, filters_, std::nullopt)) {
    const bool was_read =
        first.has_value() && std::pair(set.structure.Text(), set.streams->front()) < *first;
    if (was_read) continue;
    targets.push_back({moment_->view, slab.slab, std::move(set), filters_, here().until, masks});
  }
  return targets;
}

Result<ReadOutcome> ScanSteps::ReadTarget(const StreamTarget& target, std::uint32_t in_class) {
  const StreamId stream = StreamOf(target);
  const bool goes_on = at_.place.has_value() && at_.place->stream == stream;
  ReaderCache::Entry entry = OpenEntry(target, goes_on ? at_.place->position : StartOf(range()));
  ReadOutcome outcome = ReadOutcome::kMore;
  do {
    if (interrupted_ && interrupted_()) return Interrupted();
    TOPICDB_ASSIGN_OR_RETURN(
        outcome,
        entry.reader->Read({limits_.rows_max, limits_.bytes_max, kExaminedMax}, batch_.get()));
  } while (batch_->empty() && outcome == ReadOutcome::kMore);
  here().classes[in_class].next = target.slab->id().generation;  // in which the place is
  at_.place = ScanPlace{in_class, stream, entry.reader->position()};
  if (outcome == ReadOutcome::kMore && stream == kNoStream) kept_ = std::move(entry);
  return outcome;
}

ReaderCache::Entry ScanSteps::OpenEntry(const StreamTarget& target, const Position& position) {
  ReaderCache::Entry entry = std::move(left_);
  left_ = {};
  // A reader of an earlier view gives the same messages, because it ends before later commits.
  const bool is_current = entry.reader != nullptr && entry.shard == moment_->shard &&
                          at_.place.has_value() &&
                          entry.view->deletes_version() == target.view->deletes_version();
  if (is_current) return entry;
  entry.reader.reset();
  entry.view = moment_->view;
  entry.shard = moment_->shard;
  entry.reader = OpenReader(target, range(), position, kPageMemoryBytes);
  return entry;
}

void ScanSteps::LeaveSlab(const SlabId& slab, std::uint32_t in_class) {
  ScanProgress& progress = here().classes[in_class];
  auto after = PlaceOf(slab, view().slabs());
  if (after != view().slabs().end() && after->slab->id() == slab) ++after;
  const bool is_last =
      after == view().slabs().end() || after->slab->id().retention_class != slab.retention_class;
  const Serial end = is_last ? here().until : after->slab->begun_at();
  progress.next = slab.generation.Next();
  progress.read = std::max(progress.read, end);
  at_.place.reset();
}

void ScanSteps::LeaveShard() {
  here().classes.clear();
  ++at_.in_shard;
  at_.counted = at_.at_end() ? kNoSerial : here().until;
}

}  // namespace topicdb
