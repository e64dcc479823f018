// Brings rows from pages into batches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "layout/columnar/format/page.h"
#include "layout/stream_reader.h"
#include "topicdb/message.h"

namespace topicdb::columnar {

// Readers copy values that have fewer bytes than this: to lend them to a batch of their own would
// cost more.
inline constexpr std::size_t kLentBytesMin = std::size_t{128} << 10;

// Appends successive rows of the page to a batch, without values. Unless `with_topics`, the
// messages have empty topics.
inline void AppendKeys(const Page& page, std::uint32_t first, std::uint32_t end, bool with_topics,
                       Batch* out) {
  const auto append = [&](std::string_view topic, std::uint32_t begin, std::uint32_t until) {
    out->AppendKeys(topic, page.times().subspan(begin, until - begin),
                    out->keeps_serials() && page.has_serials()
                        ? page.serials().subspan(begin, until - begin)
                        : std::span<const std::uint64_t>());
  };
  if (!with_topics) {
    append({}, first, end);
    return;
  }
  for (std::uint32_t begin = first; begin < end;) {
    const std::uint32_t topic = page.topic_of(begin);
    std::uint32_t until = begin + 1;
    while (until < end && page.topic_of(until) == topic) ++until;
    append(page.topic(topic), begin, until);
    begin = until;
  }
}

// Fills an empty batch with successive rows of the page, without copying their values. Begins with
// row `first`, and ends at the limits or before the first row for which wants(row) is false.
// Returns the number of rows. Returns 0 if `out` is not empty, or if the values are too few bytes.
template <typename Wants>
std::uint32_t LendRows(const std::shared_ptr<const Page>& page, std::uint32_t first,
                       const ReadLimits& limits, bool with_topics, Wants wants, Batch* out) {
  if (!out->empty() || page->values().size() < kLentBytesMin) return 0;
  const std::span<const std::int32_t> offsets = page->value_offsets();
  std::uint32_t end = first;
  std::size_t topic_bytes = 0;
  std::size_t value_bytes = 0;
  for (; end < page->rows() && end - first < limits.rows_max && wants(end); ++end) {
    const std::size_t topics =
        topic_bytes + (with_topics ? page->topic(page->topic_of(end)).size() : 0);
    const auto values = static_cast<std::size_t>(offsets[end + 1] - offsets[first]);
    const std::size_t bytes = topics + values + (end - first + 1) * Batch::kRowBytes;
    if (end > first && (bytes > limits.bytes_max || topics > Batch::kColumnBytesMax)) break;
    topic_bytes = topics;
    value_bytes = values;
  }
  if (value_bytes < kLentBytesMin) return 0;
  out->Reserve(end - first, topic_bytes, 0);
  AppendKeys(*page, first, end, with_topics, out);
  out->BorrowValues(page, offsets.subspan(first, end - first + 1), page->values());
  return end - first;
}

// Makes room in a batch for rows that are like the rows of a page.
inline void ReserveLike(const Page& sample, std::size_t rows, std::size_t bytes_max, Batch* out,
                        bool with_topics = true) {
  const auto share = [&](std::size_t bytes) {  // somewhat more than these rows' part of the bytes
    return std::min(bytes / sample.rows() * rows * 9 / 8, bytes_max);
  };
  out->Reserve(rows, with_topics ? share(sample.topic_bytes()) : 0, share(sample.values().size()));
}

// Copies rows to a batch while the batch has room. Lives during one read. `out` must outlive it.
// Not thread-safe.
class RowCopier {
 public:
  // Unless `with_topics`, the messages have empty topics.
  RowCopier(const ReadLimits& limits, Batch* out, bool with_topics = true)
      : limits_(limits), with_topics_(with_topics), out_(out), bytes_(out->bytes()) {}

  // Appends a row. Copies nothing and returns false if the batch would exceed the limits. An empty
  // batch takes any row. After a call that returned false, no call may follow.
  bool Append(const Page& page, std::uint32_t row) {
    const MessageView message{with_topics_ ? page.topic(page.topic_of(row)) : std::string_view(),
                              page.time(row), page.value(row)};
    bytes_ += message.topic.size() + message.value.size() + Batch::kRowBytes;
    const bool has_room =
        out_->empty() || (out_->size() < limits_.rows_max && bytes_ <= limits_.bytes_max &&
                          out_->Fits(message.topic.size(), message.value.size()));
    // Reads the serial only if the batch keeps it.
    if (has_room) out_->Append(message, out_->keeps_serials() ? page.serial(row) : kNoSerial);
    return has_room;
  }

 private:
  const ReadLimits limits_;
  const bool with_topics_;
  Batch* const out_;
  std::size_t bytes_;  // of the batch
};

}  // namespace topicdb::columnar
