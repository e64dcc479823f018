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
    kWaiting = 2,  // came back, and will be popped again
    kDone = 3,
  };
  SequenceRange items;
  std::uint64_t bytes = 0;  // as stored
  LogPosition position;     // of the items in their frame
  State state = State::kInFlight;
};

// Keeps the spans of a cursor that are outstanding, and counts them. A Consumer owns it. Not
// thread-safe: the consumer's mutex guards it.
class DeliveryState {
 public:
  // Adds a span, in flight or waiting. REQUIRES: its numbers are greater than all that were added
  // before
  void Add(const Span& span);
  // Ack marks the spans that lie wholly in the range as done. Nack marks those of them that are in
  // flight as waiting. Both return whether anything changed. Ranges that were handed out end where
  // spans do, since spans are split and never joined.
  bool Ack(const SequenceRange& range);
  bool Nack(const SequenceRange& range);
  // Returns the waiting span with the smallest numbers, or null if none waits. The span stays valid
  // until the next call that changes something.
  Span* FirstWaiting();
  // Splits the span in flight that holds `sequence`. The second part begins with `sequence` and has
  // `tail_bytes` bytes.
  void Split(std::uint64_t sequence, std::uint64_t tail_bytes);
  // Returns the number after the last item of the span that holds `sequence`.
  std::uint64_t EndOfSpan(std::uint64_t sequence) const;
  // Sets the state of the first `count` items of a waiting span, which have `bytes` bytes.
  void Take(Span* span, std::uint64_t count, std::uint64_t bytes, Span::State state);
  // Gives up these items: none of them is outstanding any more.
  void Forget(const SequenceRange& range);
  // Forgets the positions of all spans, because the items are in another log.
  void ForgetPositions();

  // Returns the smallest number that is outstanding, or `next` if none is.
  std::uint64_t low_water(std::uint64_t next) const;
  std::uint64_t waiting_items() const { return waiting_items_; }
  std::uint64_t in_flight_items() const { return in_flight_items_; }
  std::uint64_t in_flight_bytes() const { return in_flight_bytes_; }
  std::uint64_t bytes() const { return bytes_; }  // of what is outstanding
  // Returns the spans in the order of their numbers. Spans that are done may be among them, and
  // callers must skip these.
  const std::deque<Span>& spans() const { return spans_; }

 private:
  // Calls visit(span) for each span that lies wholly in the range.
  template <typename Visit>
  void ForEachIn(const SequenceRange& range, Visit visit);
  void SetState(Span* span, Span::State state);
  // Add a span to the counters, and take it out of them.
  void CountIn(const Span& span);
  void CountOut(const Span& span);
  // Removes the spans at the front that are done, and all that are done once there are many.
  void DropDone();
  // Shortens `span` to its first `count` items, which have `bytes` bytes, and adds a span for the
  // others. Returns the shortened one.
  Span* Cut(Span* span, std::uint64_t count, std::uint64_t bytes);

  std::deque<Span> spans_;
  std::size_t done_ = 0;                      // how many of spans_ are done
  std::uint64_t first_waiting_ = UINT64_MAX;  // no span with a smaller number waits
  std::uint64_t waiting_items_ = 0;
  std::uint64_t in_flight_items_ = 0;
  std::uint64_t in_flight_bytes_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace topicdb
