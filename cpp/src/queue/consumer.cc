#include "queue/consumer.h"

#include <algorithm>
#include <numeric>

#include "base/bytes/coding.h"

namespace topicdb {

namespace {
std::atomic<std::uint64_t> ids_given{0};
}  // namespace

Consumer::Consumer(std::string name, std::uint64_t next_sequence)
    : name_(std::move(name)),
      id_(++ids_given),
      low_water_(next_sequence),
      next_{next_sequence, 0, 0, 0} {}

std::string Consumer::Encode() const {
  const MutexLock lock(mutex_);
  std::string out;
  const auto append_position = [&](const LogPosition& position) {
    AppendVarint(&out, position.segment);
    AppendVarint(&out, position.offset);
    AppendVarint(&out, position.frame_sequence);
  };
  AppendPrefixed(&out, name_);
  AppendVarint(&out, next_.sequence);
  append_position(next_);
  std::uint64_t count = 0;
  for (const Span& span : state_.spans()) count += span.state != Span::State::kDone;
  AppendVarint(&out, count);
  for (const Span& span : state_.spans()) {
    if (span.state == Span::State::kDone) continue;
    AppendVarint(&out, span.items.first);
    AppendVarint(&out, span.items.count);
    AppendVarint(&out, span.bytes);
    append_position(span.position);
  }
  return out;
}

Result<std::unique_ptr<Consumer>> Consumer::Decode(std::string_view content) {
  Decoder in(content);
  const auto read_position = [&](std::uint64_t sequence) {
    LogPosition position{sequence, 0, 0, 0};
    position.segment = in.Varint();
    position.offset = in.Varint();
    position.frame_sequence = in.Varint();
    return position;
  };
  std::string name(in.Prefixed());
  auto consumer = std::make_unique<Consumer>(std::move(name), in.Varint());
  const MutexLock lock(consumer->mutex_);
  consumer->next_ = read_position(consumer->next_.sequence);
  std::uint64_t least = 1;  // the smallest number with which the next span may begin
  bool valid = consumer->next_.sequence > 0;
  for (std::uint64_t left = in.Varint(); left > 0 && in.ok() && valid; --left) {
    Span span;
    span.items.first = in.Varint();
    span.items.count = in.Varint();
    span.bytes = in.Varint();
    span.position = read_position(span.items.first);
    span.state = Span::State::kWaiting;
    valid = span.items.first >= least && span.items.first < consumer->next_.sequence &&
            span.items.count > 0 && span.items.count <= consumer->next_.sequence - span.items.first;
    least = span.items.end();
    if (valid) consumer->state_.Add(span);
  }
  if (!in.Finished() || !valid) return Corruption("what it says of a cursor is malformed");
  consumer->Changed();
  consumer->dirty_ = false;
  return consumer;
}

void Consumer::Changed() {
  low_water_.store(state_.low_water(next_.sequence), std::memory_order_release);
  // Outstanding items were read, so their bytes are part of next_count_. Only spans that were
  // popped from an earlier log keep the bytes that they had there.
  acknowledged_bytes_.store(next_count_.bytes - state_.bytes(), std::memory_order_release);
  acknowledged_items_.store(next_count_.items - state_.waiting_items() - state_.in_flight_items(),
                            std::memory_order_release);
  in_flight_bytes_.store(state_.in_flight_bytes(), std::memory_order_release);
  SetDirty();
}

void Consumer::Note(DropReason reason, const SequenceRange& items, std::uint64_t bytes,
                    ReadReport* report) {
  const auto index = static_cast<std::size_t>(reason);
  dropped_items_[index] += items.count;
  dropped_bytes_[index] += bytes;
  if (!report->drops.empty()) {
    Drop& last = report->drops.back();
    if (last.cursor == name_ && last.reason == reason && last.items.end() == items.first) {
      last.items.count += items.count;
      last.bytes += bytes;
      return;
    }
  }
  report->drops.push_back({reason, name_, items, bytes});
}

Status Consumer::Attach(std::shared_ptr<QueueLog> log, bool moved, ReadReport* report) {
  const MutexLock lock(mutex_);
  reader_ = log->NewReader();
  returned_reader_ = log->NewReader();
  log_ = std::move(log);  // after the readers of the log before, which it must outlive
  counted_frame_ = 0;
  if (moved) {
    next_ = {next_.sequence, 0, 0, 0};
    state_.ForgetPositions();
    SetDirty();
  }
  const Status status = LoadNext(report).status();
  Changed();
  return status;
}

void Consumer::LoseBefore(std::uint64_t sequence, const std::string& path, ReadReport* report) {
  const MutexLock lock(mutex_);
  std::vector<SequenceRange> lost;
  for (const Span& span : state_.spans()) {
    if (span.items.end() <= sequence && span.state != Span::State::kDone) {
      lost.push_back(span.items);
    }
  }
  for (const SequenceRange& items : lost) state_.Forget(items);
  if (next_.sequence < sequence) {
    lost.push_back({next_.sequence, sequence - next_.sequence});
    next_ = {sequence, 0, 0, 0};
    counted_frame_ = 0;
  }
  for (const SequenceRange& items : lost) {
    Note(DropReason::kDamage, items, 0, report);
    report->damage.push_back({path, "is missing", items.first, items.end()});
  }
  Changed();
}

bool Consumer::Budget::Admit(std::uint64_t size) {
  if (spent()) return false;
  if (!at_least && started && size > bytes) {
    count = 0;
    return false;
  }
  started = true;
  --count;
  bytes -= std::min(bytes, size);
  return true;
}

std::uint64_t Consumer::BytesOf(const Block& block, std::size_t begin, std::size_t end) const {
  if (!block.weights.empty()) {
    const std::uint64_t* const weights = block.weights.data();
    return std::accumulate(weights + begin, weights + end, std::uint64_t{0});
  }
  const auto sum = [&](std::size_t first, std::size_t last) TOPICDB_REQUIRES(mutex_) {
    std::uint64_t bytes = 0;
    for (std::size_t i = first; i < last; ++i) bytes += log_->ItemBytes(block.items[i]);
    return bytes;
  };
  if (begin > 0) return sum(begin, end);
  // The header of the frame counts with its first item.
  return block.end_offset - block.offset - sum(end, block.items.size());
}

Consumer::Portion Consumer::Admit(const QueueLogReader& reader, std::size_t begin, std::size_t end,
                                  Budget* budget) const {
  const Block& block = reader.block();
  std::size_t taken = begin;
  while (taken < end && block.first_sequence + taken < budget->before) {
    const bool plain = !budget->counted && block.weights.empty();
    const std::uint64_t size = plain ? block.items[taken].size() : BytesOf(block, taken, taken + 1);
    if (!budget->Admit(size)) break;
    ++taken;
  }
  Portion portion;
  portion.items = std::span(block.items).subspan(begin, taken - begin);
  if (!block.weights.empty()) {
    portion.weights = std::span(block.weights).subspan(begin, taken - begin);
  }
  portion.span.items = {block.first_sequence + begin, taken - begin};
  portion.span.position = {portion.span.items.first, reader.segment(), block.offset,
                           block.first_sequence};
  if (taken > begin) portion.span.bytes = BytesOf(block, begin, taken);
  portion.owner = &reader.owner();
  return portion;
}

Result<ReadEvent> Consumer::LoadNext(ReadReport* report) {
  while (true) {
    // Asks for the end before it looks at the log, so that items that are appended meanwhile count
    // as unread.
    const LogCount end = counted_frame_ == 0 ? log_->end_count() : LogCount{};
    TOPICDB_ASSIGN_OR_RETURN(const ReadEvent event, reader_->Load(next_));
    if (event == ReadEvent::kLost) {
      const LogDamage& lost = reader_->lost();
      report->damage.push_back(lost);
      Note(DropReason::kDamage, {lost.first_sequence, lost.items()}, 0, report);
      next_ = {lost.end_sequence, 0, 0, 0};
      counted_frame_ = 0;
      Changed();
      continue;
    }
    if (event == ReadEvent::kEnd) {
      if (counted_frame_ == 0) next_count_ = end;
      return event;
    }
    const Block& block = reader_->block();
    if (counted_frame_ == block.first_sequence) return event;
    counted_frame_ = block.first_sequence;
    if (block.first_sequence > next_.sequence) next_.sequence = block.first_sequence;
    const std::size_t before = next_.sequence - block.first_sequence;
    next_count_ = reader_->count_before();
    if (before > 0) next_count_.bytes += BytesOf(block, 0, before);
    next_count_.items += before;
    return event;
  }
}

Status Consumer::TakeNew(Budget* budget, Span::State state, ReadReport* report, const Sink& sink) {
  while (!budget->spent()) {
    TOPICDB_ASSIGN_OR_RETURN(const ReadEvent event, LoadNext(report));
    if (event == ReadEvent::kEnd) break;
    const Block& block = reader_->block();
    Portion portion =
        Admit(*reader_, next_.sequence - block.first_sequence, block.items.size(), budget);
    if (portion.items.empty()) break;
    portion.span.state = state;
    if (state != Span::State::kDone) state_.Add(portion.span);
    next_count_.bytes += portion.span.bytes;
    next_count_.items += portion.span.items.count;
    next_ = portion.span.position;
    next_.sequence = portion.span.items.end();
    if (next_.sequence == block.end_sequence()) {
      next_ = {next_.sequence, reader_->segment(), block.end_offset, next_.sequence};
    }
    sink(portion);
  }
  return Status::Ok();
}

Result<ReadEvent> Consumer::LoadReturned(ReadReport* report) {
  while (Span* span = state_.FirstWaiting()) {
    LogPosition position = span->position;
    position.sequence = span->items.first;
    TOPICDB_ASSIGN_OR_RETURN(const ReadEvent event, returned_reader_->Load(position));
    std::uint64_t lost_end = span->items.end();
    if (event == ReadEvent::kBlock) {
      if (returned_reader_->block().first_sequence <= position.sequence) return event;
      lost_end = returned_reader_->block().first_sequence;
    } else if (event == ReadEvent::kLost) {
      const LogDamage& lost = returned_reader_->lost();
      report->damage.push_back(lost);
      lost_end = lost.first_sequence > position.sequence ? lost.first_sequence : lost.end_sequence;
    }
    const SequenceRange items{position.sequence,
                              std::min(lost_end, span->items.end()) - position.sequence};
    const std::uint64_t bytes = items.count == span->items.count ? span->bytes : 0;
    Note(DropReason::kDamage, items, bytes, report);
    state_.Take(span, items.count, bytes, Span::State::kDone);
    Changed();
  }
  return ReadEvent::kEnd;
}

Status Consumer::TakeReturned(Budget* budget, Span::State state, ReadReport* report,
                              const Sink& sink) {
  while (!budget->spent()) {
    TOPICDB_ASSIGN_OR_RETURN(const ReadEvent event, LoadReturned(report));
    if (event == ReadEvent::kEnd) break;
    Span* span = state_.FirstWaiting();
    const Block& block = returned_reader_->block();
    const std::size_t begin = span->items.first - block.first_sequence;
    const std::size_t end = std::min<std::size_t>(block.items.size(), begin + span->items.count);
    const Portion portion = Admit(*returned_reader_, begin, end, budget);
    if (portion.items.empty()) {
      budget->count = 0;
      break;
    }
    const std::uint64_t count = portion.items.size();
    const std::uint64_t bytes =
        count == span->items.count ? span->bytes : std::min(span->bytes, portion.span.bytes);
    state_.Take(span, count, bytes, state);
    sink(portion);
  }
  return Status::Ok();
}

Status Consumer::Take(Budget budget, Span::State state, ReadReport* report, const Sink& sink) {
  Status status = TakeReturned(&budget, state, report, sink);
  if (status.ok()) status = TakeNew(&budget, state, report, sink);
  Changed();
  return status;
}

Status Consumer::Pop(const PopLimits& limits, Delivery* delivery, ReadReport* report) {
  const MutexLock lock(mutex_);
  const Budget budget{limits.count, limits.bytes, limits.at_least, false};
  const auto take = [&](const Portion& portion) TOPICDB_REQUIRES(mutex_) {
    delivery->items.insert(delivery->items.end(), portion.items.begin(), portion.items.end());
    for (std::size_t i = 0; limits.stop_before != nullptr && i < portion.items.size(); ++i) {
      delivery->counted.push_back(portion.weights.empty() ? log_->ItemBytes(portion.items[i])
                                                          : portion.weights[i]);
    }
    const SequenceRange& items = portion.span.items;
    if (!delivery->ranges.empty() && delivery->ranges.back().end() == items.first) {
      delivery->ranges.back().count += items.count;
    } else {
      delivery->ranges.push_back(items);
    }
    if (delivery->owners.empty() || delivery->owners.back() != *portion.owner) {
      delivery->owners.push_back(*portion.owner);
    }
  };
  const Status status = Take(budget, Span::State::kInFlight, report, take);
  // Gives out what was taken before an error. The next call meets the error again.
  return delivery->empty() ? status : Status::Ok();
}

void Consumer::PutBack(std::size_t count, Delivery* delivery) {
  const MutexLock lock(mutex_);
  std::vector<SequenceRange> kept;
  std::size_t index = 0;  // of the first item of a range
  for (const SequenceRange& range : delivery->ranges) {
    const std::size_t keep = std::min<std::size_t>(count - std::min(count, index), range.count);
    const std::uint64_t cut = range.first + keep;
    if (keep > 0) kept.push_back({range.first, keep});
    if (keep < range.count) {
      // What the items count from the cut to the end of their span, or to that of the range if it
      // ends first.
      std::uint64_t tail_bytes = 0;
      const std::uint64_t span_end = std::min(state_.EndOfSpan(cut), range.end());
      for (std::uint64_t i = cut; i < span_end; ++i) {
        tail_bytes += delivery->counted[index + (i - range.first)];
      }
      if (keep > 0) state_.Split(cut, tail_bytes);
      state_.Nack({cut, range.end() - cut});
    }
    index += range.count;
  }
  delivery->items.resize(count);
  delivery->counted.resize(count);
  delivery->ranges = std::move(kept);
  Changed();
}

Status Consumer::DropOldest(std::uint64_t bytes, DropReason reason, bool keeps_newest,
                            ReadReport* report) {
  const MutexLock lock(mutex_);
  Budget budget;
  if (keeps_newest) budget.before = log_->end_sequence() - 1;
  budget.bytes = bytes;
  budget.at_least = true;
  budget.counted = true;
  return Take(budget, Span::State::kDone, report,
              [&](const Portion& portion) TOPICDB_REQUIRES(mutex_) {
                Note(reason, portion.span.items, portion.span.bytes, report);
              });
}

bool Consumer::Ack(std::span<const SequenceRange> ranges) {
  const MutexLock lock(mutex_);
  bool changed = false;
  for (const SequenceRange& range : ranges) changed |= state_.Ack(range);
  if (changed) Changed();
  return changed;
}

bool Consumer::Nack(std::span<const SequenceRange> ranges) {
  const MutexLock lock(mutex_);
  bool changed = false;
  for (const SequenceRange& range : ranges) changed |= state_.Nack(range);
  if (changed) Changed();
  return changed;
}

Result<std::optional<std::string>> Consumer::Peek(ReadReport* report) {
  const MutexLock lock(mutex_);
  TOPICDB_ASSIGN_OR_RETURN(ReadEvent event, LoadReturned(report));
  if (event == ReadEvent::kBlock) {
    const Block& block = returned_reader_->block();
    const std::size_t index = state_.FirstWaiting()->items.first - block.first_sequence;
    return std::optional<std::string>(block.items[index]);
  }
  TOPICDB_ASSIGN_OR_RETURN(event, LoadNext(report));
  if (event == ReadEvent::kEnd) return std::optional<std::string>();
  const Block& block = reader_->block();
  return std::optional<std::string>(block.items[next_.sequence - block.first_sequence]);
}

void Consumer::Purge(ReadReport* report) {
  const MutexLock lock(mutex_);
  const std::uint64_t end = log_->end_sequence();
  const LogCount count = log_->end_count();
  for (const Span& span : state_.spans()) {
    if (span.state != Span::State::kDone) Note(DropReason::kPurge, span.items, span.bytes, report);
  }
  const std::uint64_t unread = count.items - next_count_.items;
  if (unread > 0) {
    Note(DropReason::kPurge, {end - unread, unread}, count.bytes - next_count_.bytes, report);
  }
  state_.Forget({0, UINT64_MAX});
  next_ = {end, 0, 0, 0};
  next_count_ = count;
  Changed();
}

bool Consumer::HasWaiting() const {
  const MutexLock lock(mutex_);
  return state_.waiting_items() > 0 || log_->end_count().items > next_count_.items;
}

CursorStats Consumer::Stats() const {
  CursorStats stats;
  stats.name = name_;
  stats.waiting = state_.waiting_items();
  stats.in_flight = state_.in_flight_items();
  stats.bytes = state_.bytes();
  stats.next_sequence = next_.sequence;
  stats.low_water = low_water();
  std::copy(std::begin(dropped_items_), std::end(dropped_items_), stats.dropped_items);
  std::copy(std::begin(dropped_bytes_), std::end(dropped_bytes_), stats.dropped_bytes);
  return stats;
}

CursorStats Consumer::stored_stats() const {
  const MutexLock lock(mutex_);
  return Stats();
}

CursorStats Consumer::stats() const {
  const MutexLock lock(mutex_);
  CursorStats stats = Stats();
  const LogCount end = log_->end_count();
  stats.waiting += end.items - next_count_.items;
  stats.bytes += end.bytes - next_count_.bytes;
  return stats;
}

}  // namespace topicdb
