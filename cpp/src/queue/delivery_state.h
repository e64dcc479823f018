// Which items a cursor has handed out, and what became of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "queue/queue_log.h"
#include "topicdb/queue.h"

namespace topicdb {

// Items of one frame that were popped together.
struct Span {
  enum class State : std::uint8_t {
    kInFlight = 1,
    kWaiting = 2,  // came back: to be popped again
    kDone = 3,
  };
  SequenceRange items;
  std::uint64_t bytes = 0;  // stored
  LogPosition position;     // of their frame
  State state = State::kInFlight;
};

// Not thread-safe.
class DeliveryState {
 public:
  // REQUIRES: greater numbers than all before
  void Add(const Span& span);
  // What is outstanding in the ranges is done, in flight, or waiting. Ranges that were handed out
  // end where spans do, since spans are split and never joined. Whether anything changed.
  bool Ack(const SequenceRange& range);
  bool Nack(const SequenceRange& range);
  // The span with the smallest numbers that waits; null if none does. Stays valid until the next
  // call that changes something.
  Span* FirstWaiting();
  // Makes two spans of the one that is in flight and holds `sequence`, which begins the second;
  // that has so many bytes.
  void Split(std::uint64_t sequence, std::uint64_t tail_bytes);
  // After the last item of the span that holds `sequence`.
  std::uint64_t EndOfSpan(std::uint64_t sequence) const;
  // Sets the state of the first `count` items of a waiting span, which have so many bytes.
  void Take(Span* span, std::uint64_t count, std::uint64_t bytes, Span::State state);
  // Of these items nothing is outstanding any more.
  void Forget(const SequenceRange& range);
  // Positions are known no more: the log is another.
  void ForgetPositions();

  // The smallest number that is outstanding; `next` if none is.
  std::uint64_t low_water(std::uint64_t next) const;
  std::uint64_t waiting_items() const { return waiting_items_; }
  std::uint64_t in_flight_items() const { return in_flight_items_; }
  std::uint64_t in_flight_bytes() const { return in_flight_bytes_; }
  std::uint64_t bytes() const { return bytes_; }  // of what is outstanding
  // In the order of their numbers; those that are done have no meaning.
  const std::deque<Span>& spans() const { return spans_; }

 private:
  template <typename Visit>
  void ForEachIn(const SequenceRange& range, Visit visit);
  void SetState(Span* span, Span::State state);
  void CountIn(const Span& span);
  void CountOut(const Span& span);
  void DropDone();
  // Adds a span for all but the first `count` items of one, and makes that shorter. The shorter
  // one.
  Span* Cut(Span* span, std::uint64_t count, std::uint64_t bytes);

  std::deque<Span> spans_;
  std::size_t done_ = 0;
  std::uint64_t first_waiting_ = UINT64_MAX;  // no span with a smaller number waits
  std::uint64_t waiting_items_ = 0;
  std::uint64_t in_flight_items_ = 0;
  std::uint64_t in_flight_bytes_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace topicdb
