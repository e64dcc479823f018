#include "queue/delivery_state.h"

#include <algorithm>
#include <cassert>

namespace topicdb {

namespace {
// DropDone removes done spans from the middle all at once, when there are at least this many and
// they are half of all spans.
constexpr std::size_t kDoneMin = 1'024;

bool EndsBefore(const Span& span, std::uint64_t sequence) { return span.items.end() <= sequence; }
}  // namespace

void DeliveryState::CountIn(const Span& span) {
  if (span.state == Span::State::kDone) {
    ++done_;
    return;
  }
  bytes_ += span.bytes;
  if (span.state == Span::State::kWaiting) {
    waiting_items_ += span.items.count;
    first_waiting_ = std::min(first_waiting_, span.items.first);
  } else {
    in_flight_items_ += span.items.count;
    in_flight_bytes_ += span.bytes;
  }
}

void DeliveryState::CountOut(const Span& span) {
  if (span.state == Span::State::kDone) {
    --done_;
    return;
  }
  bytes_ -= span.bytes;
  if (span.state == Span::State::kWaiting) {
    waiting_items_ -= span.items.count;
    if (waiting_items_ == 0) first_waiting_ = UINT64_MAX;
  } else {
    in_flight_items_ -= span.items.count;
    in_flight_bytes_ -= span.bytes;
  }
}

void DeliveryState::SetState(Span* span, Span::State state) {
  CountOut(*span);
  span->state = state;
  CountIn(*span);
}

void DeliveryState::Add(const Span& span) {
  assert(spans_.empty() || spans_.back().items.end() <= span.items.first);
  spans_.push_back(span);
  CountIn(span);
}

template <typename Visit>
void DeliveryState::ForEachIn(const SequenceRange& range, Visit visit) {
  auto span = std::lower_bound(spans_.begin(), spans_.end(), range.first, &EndsBefore);
  for (; span != spans_.end() && span->items.end() <= range.end(); ++span) {
    if (span->items.first >= range.first) visit(&*span);
  }
}

bool DeliveryState::Ack(const SequenceRange& range) {
  bool changed = false;
  ForEachIn(range, [&](Span* span) {
    if (span->state == Span::State::kDone) return;
    SetState(span, Span::State::kDone);
    changed = true;
  });
  DropDone();
  return changed;
}

bool DeliveryState::Nack(const SequenceRange& range) {
  bool changed = false;
  ForEachIn(range, [&](Span* span) {
    if (span->state != Span::State::kInFlight) return;
    SetState(span, Span::State::kWaiting);
    changed = true;
  });
  return changed;
}

Span* DeliveryState::FirstWaiting() {
  if (waiting_items_ == 0) return nullptr;
  auto span = std::lower_bound(spans_.begin(), spans_.end(), first_waiting_, &EndsBefore);
  while (span->state != Span::State::kWaiting) ++span;
  first_waiting_ = span->items.first;
  return &*span;
}

Span* DeliveryState::Cut(Span* span, std::uint64_t count, std::uint64_t bytes) {
  CountOut(*span);
  Span rest = *span;
  rest.items = {span->items.first + count, span->items.count - count};
  rest.bytes = span->bytes - bytes;
  span->items.count = count;
  span->bytes = bytes;
  CountIn(*span);
  CountIn(rest);
  const auto behind = std::lower_bound(spans_.begin(), spans_.end(), rest.items.first, &EndsBefore);
  return &*(spans_.insert(behind, rest) - 1);
}

void DeliveryState::Split(std::uint64_t sequence, std::uint64_t tail_bytes) {
  const auto span = std::lower_bound(spans_.begin(), spans_.end(), sequence, &EndsBefore);
  if (span == spans_.end() || span->items.first >= sequence) return;
  const std::uint64_t tail = std::min(tail_bytes, span->bytes);
  Cut(&*span, sequence - span->items.first, span->bytes - tail);
}

std::uint64_t DeliveryState::EndOfSpan(std::uint64_t sequence) const {
  const auto span = std::lower_bound(spans_.begin(), spans_.end(), sequence, &EndsBefore);
  return span == spans_.end() ? sequence : span->items.end();
}

void DeliveryState::Take(Span* span, std::uint64_t count, std::uint64_t bytes, Span::State state) {
  assert(span->state == Span::State::kWaiting && count > 0 && count <= span->items.count);
  if (count < span->items.count) span = Cut(span, count, bytes);
  SetState(span, state);
  DropDone();
}

void DeliveryState::Forget(const SequenceRange& range) {
  for (Span& span : spans_) {
    const bool inside = span.items.first < range.end() && range.first < span.items.end();
    if (inside && span.state != Span::State::kDone) SetState(&span, Span::State::kDone);
  }
  DropDone();
}

void DeliveryState::ForgetPositions() {
  for (Span& span : spans_) span.position = {span.items.first, 0, 0, 0};
}

void DeliveryState::DropDone() {
  while (!spans_.empty() && spans_.front().state == Span::State::kDone) {
    spans_.pop_front();
    --done_;
  }
  if (done_ < kDoneMin || done_ < spans_.size() / 2) return;
  std::erase_if(spans_, [](const Span& span) { return span.state == Span::State::kDone; });
  done_ = 0;
}

std::uint64_t DeliveryState::low_water(std::uint64_t next) const {
  return spans_.empty() ? next : spans_.front().items.first;
}

}  // namespace topicdb
