#include "subscribe/subscriber.h"

#include <algorithm>
#include <span>

namespace topicdb {

namespace {

using Clock = std::chrono::steady_clock;

// How often a call that can be interrupted looks whether it was.
constexpr std::chrono::nanoseconds kInterruptWait = std::chrono::milliseconds(50);
// How often another call looks at the clock.
constexpr std::chrono::nanoseconds kLongWait = std::chrono::hours(1);
// A window that was full opens again when an eighth of it is free, and not for every single
// message.
constexpr std::uint64_t kRoomPart = 8;

std::uint64_t BytesOf(const Batch& batch, std::size_t row) {
  return batch.topic(row).size() + batch.value(row).size();
}

// Returns the rows from `begin` on and before `end`.
std::shared_ptr<const Batch> Cut(const std::shared_ptr<const Batch>& batch, std::size_t begin,
                                 std::size_t end) {
  if (begin == 0 && end == batch->size()) return batch;
  auto part = std::make_shared<Batch>(/*keeps_serials=*/true);
  const auto bytes_of = [&](std::span<const std::int32_t> offsets) {
    return static_cast<std::size_t>(offsets[end] - offsets[begin]);
  };
  part->Reserve(end - begin, bytes_of(batch->topic_offsets()), bytes_of(batch->value_offsets()));
  for (std::size_t row = begin; row < end; ++row) {
    part->Append(batch->message(row), batch->serial(row));
  }
  return part;
}

}  // namespace

Subscriber::Waiting Subscriber::Fit(const Offered& offered) const {
  Waiting fit{offered, offered.begin, 0, offered_};
  if (is_full_ || is_paused_ || is_closed_ || !status_.ok()) return fit;
  const std::uint64_t messages =
      window_.messages - std::min(window_.messages, offered_ - acknowledged_);
  const std::uint64_t bytes = window_.bytes - std::min(window_.bytes, unacknowledged_bytes_);
  const Batch& batch = *offered.rows->batch;
  const std::uint64_t all = batch.bytes() - batch.size() * Batch::kRowBytes;
  if (offered.begin == 0 && batch.size() <= messages && all <= bytes) {
    fit.end = batch.size();
    fit.bytes = all;
  }
  while (fit.end < batch.size() && fit.end - offered.begin < messages) {
    const std::uint64_t more = BytesOf(batch, fit.end);
    // A message that is larger than the window goes alone.
    const bool is_alone = unacknowledged_.empty() && fit.end == offered.begin;
    if (fit.bytes + more > bytes && !is_alone) break;
    fit.bytes += more;
    ++fit.end;
  }
  fit.seqno = offered_ + (fit.end - offered.begin);
  return fit;
}

std::size_t Subscriber::Offer(const Offered& offered) {
  const MutexLock lock(mutex_);
  Waiting fit = Fit(offered);
  const std::size_t taken = fit.end - offered.begin;
  if (fit.end < offered.rows->size()) is_full_ = true;
  if (taken == 0) return 0;
  const bool was_ready = IsReady();
  offered_ = fit.seqno;
  unacknowledged_.push_back({fit.seqno, fit.bytes});
  unacknowledged_bytes_ += fit.bytes;
  waiting_bytes_ += fit.bytes;
  waiting_.push_back(std::move(fit));
  if (!was_ready) TellReady();
  return taken;
}

void Subscriber::Fail(const Status& status) {
  const MutexLock lock(mutex_);
  if (!status_.ok()) return;
  status_ = status;
  TellReady();
}

void Subscriber::Lose(Loss loss) {
  const MutexLock lock(mutex_);
  const bool was_ready = IsReady();
  lost_ += loss.messages;
  losses_.push_back({std::move(loss), offered_});
  if (!was_ready && IsReady()) TellReady();  // one that is paused is not
}

bool Subscriber::IsReady() const {
  return is_closed_ || (!is_paused_ && (!waiting_.empty() || !losses_.empty())) ||
         (waiting_.empty() && !status_.ok());
}

void Subscriber::TellReady() {
  changed_.NotifyAll();
  if (ready_) ready_();
}

Delivered Subscriber::TakeLoss() {
  Delivered delivered;
  delivered.loss = std::move(losses_.front().loss);
  losses_.pop_front();
  delivered.batch = std::make_shared<Batch>(/*keeps_serials=*/true);
  delivered.seqno = delivered_;
  delivered.shard = delivered.loss->shard;
  delivered.next = places_[delivered.shard];
  return delivered;
}

Subscriber::Waiting Subscriber::Take(std::size_t rows_max) {
  Waiting next = waiting_.front();
  const std::size_t rest = next.end - next.offered.begin;
  if (rest <= rows_max) {
    waiting_.pop_front();
  } else {
    Waiting& front = waiting_.front();
    next.end = front.offered.begin = next.offered.begin + rows_max;
    next.seqno -= rest - rows_max;
    next.bytes = 0;
    const Batch& batch = *next.offered.rows->batch;
    for (std::size_t i = next.offered.begin; i < next.end; ++i) next.bytes += BytesOf(batch, i);
    front.bytes -= next.bytes;
  }
  waiting_bytes_ -= next.bytes;
  delivered_ = next.seqno;
  places_[next.offered.shard] = next.Behind();
  return next;
}

Result<std::optional<Delivered>> Subscriber::Next(std::optional<std::chrono::microseconds> timeout,
                                                  const InterruptCheck& interrupted,
                                                  std::size_t rows_max) {
  const auto began = Clock::now();
  Waiting next;
  {
    const MutexLock lock(mutex_);
    while (!IsReady()) {
      const auto now = Clock::now();
      if (timeout.has_value() && now - began >= *timeout) return std::optional<Delivered>();
      if (interrupted && interrupted()) return Interrupted();
      auto end = now + (interrupted ? kInterruptWait : kLongWait);
      if (timeout.has_value()) end = std::min(end, began + *timeout);
      changed_.WaitUntil(mutex_, end);
    }
    if (is_closed_) return std::optional<Delivered>();
    if (HasLoss()) return std::optional(TakeLoss());
    if (waiting_.empty()) return status_;
    next = Take(rows_max);
  }
  const auto indexes = std::span(next.offered.rows->indexes)
                           .subspan(next.offered.begin, next.end - next.offered.begin);
  return std::optional(Delivered{std::nullopt,
                                 Cut(next.offered.rows->batch, next.offered.begin, next.end),
                                 {indexes.begin(), indexes.end()},
                                 next.seqno,
                                 next.offered.shard,
                                 next.Behind(),
                                 next.offered.is_live});
}

bool Subscriber::HasRoomAgain() const {
  if (unacknowledged_.empty()) return true;
  const std::uint64_t messages = offered_ - acknowledged_;
  return messages + (window_.messages + kRoomPart - 1) / kRoomPart <= window_.messages &&
         unacknowledged_bytes_ + window_.bytes / kRoomPart <= window_.bytes;
}

bool Subscriber::Reopen() {
  if (!is_full_ || is_paused_ || !HasRoomAgain()) return false;
  is_full_ = false;
  return true;
}

Result<bool> Subscriber::Acknowledge(std::uint64_t seqno) {
  const MutexLock lock(mutex_);
  if (seqno > delivered_) {
    return InvalidArgument("seqno " + std::to_string(seqno) + " was not delivered, the last was " +
                           std::to_string(delivered_));
  }
  if (seqno <= acknowledged_) {
    return InvalidArgument("seqno " + std::to_string(seqno) + " is acknowledged already, as is " +
                           std::to_string(acknowledged_));
  }
  acknowledged_ = seqno;
  while (!unacknowledged_.empty() && unacknowledged_.front().seqno <= seqno) {
    unacknowledged_bytes_ -= unacknowledged_.front().bytes;
    unacknowledged_.pop_front();
  }
  return Reopen();
}

void Subscriber::Pause() {
  const MutexLock lock(mutex_);
  is_paused_ = true;
}

bool Subscriber::Resume() {
  const MutexLock lock(mutex_);
  if (!is_paused_) return false;
  is_paused_ = false;
  if (IsReady()) TellReady();
  return Reopen();
}

SubscriptionState Subscriber::State() const {
  if (is_closed_) return SubscriptionState::kClosed;
  if (!status_.ok()) return SubscriptionState::kFailed;
  if (is_paused_) return SubscriptionState::kPaused;
  return is_full_ ? SubscriptionState::kFull : SubscriptionState::kLive;
}

SubscriptionInfo Subscriber::Info(std::set<std::uint32_t>* waiting) const {
  const MutexLock lock(mutex_);
  SubscriptionInfo info;
  info.state = State();
  info.delivered = delivered_;
  info.acknowledged = acknowledged_;
  info.waiting = offered_ - delivered_;
  info.waiting_bytes = waiting_bytes_;
  info.places = places_;
  info.lost = lost_;
  if (waiting == nullptr) return info;
  for (const Waiting& one : waiting_) waiting->insert(one.offered.shard);
  return info;
}

void Subscriber::OnReady(std::function<void()> ready) {
  const MutexLock lock(mutex_);
  ready_ = std::move(ready);
  if (ready_ && IsReady()) ready_();
}

void Subscriber::Close() {
  const MutexLock lock(mutex_);
  if (is_closed_) return;
  is_closed_ = true;
  waiting_.clear();
  TellReady();
  ready_ = nullptr;
}

bool Subscriber::closed() const {
  const MutexLock lock(mutex_);
  return is_closed_;
}

}  // namespace topicdb
