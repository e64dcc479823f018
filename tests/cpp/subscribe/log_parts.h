// Makes interests and pages of the log without a database, for tests of what shares them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "subscribe/log_page.h"

namespace topicdb {

inline SharedInterest InterestIn(std::uint64_t number, const std::vector<std::string>& filters,
                                 std::int64_t timestamp_min = 0) {
  Wanted wanted;
  for (const std::string& filter : filters) wanted.filters.push_back(Filter::Parse(filter).value());
  wanted.timestamp_min = timestamp_min;
  return std::make_shared<const Interest>(number, wanted);
}

inline CommitPlace At(std::uint64_t serial, std::uint32_t index = 0) {
  return {Serial{serial}, index};
}

// A message of the log, and its place.
struct LogRow {
  CommitPlace place;
  std::string topic = "a";
  std::int64_t timestamp = 0;
  std::string value = "value";
};

inline SharedLogRows RowsOf(const std::vector<LogRow>& rows) {
  auto batch = std::make_shared<Batch>(/*keeps_serials=*/true);
  auto made = std::make_shared<LogRows>();
  for (const LogRow& row : rows) {
    batch->Append({row.topic, row.timestamp, row.value}, row.place.serial);
    made->indexes.push_back(row.place.index);
  }
  made->batch = std::move(batch);
  return made;
}

// Returns what was read from one place to another for these interests, out of a view whose last
// commit is the one before `to`.
inline LogSpan SpanOf(const CommitPlace& from, const CommitPlace& to,
                      const std::vector<LogRow>& rows) {
  LogSpan span;
  span.shard = 3;
  span.from = from;
  span.to = to;
  span.view_serial = to.serial.Previous();
  span.rows = RowsOf(rows);
  return span;
}

inline std::shared_ptr<const InterestSet> SetOf(std::vector<SharedInterest> interests) {
  return std::make_shared<const InterestSet>(std::move(interests));
}

// Returns the places of the rows, none if there are no rows.
inline std::vector<CommitPlace> PlacesOf(const SharedLogRows& rows) {
  std::vector<CommitPlace> places;
  for (std::size_t row = 0; rows != nullptr && row < rows->size(); ++row) {
    places.push_back(rows->place(row));
  }
  return places;
}

}  // namespace topicdb
