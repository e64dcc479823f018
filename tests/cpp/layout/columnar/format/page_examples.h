// Messages as pages hold them, and functions that make pages of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/columnar/format/page.h"

namespace topicdb::columnar {

struct Row {
  std::uint32_t stream = 1;
  std::string topic;
  std::int64_t time = 0;
  std::uint64_t serial = 1;
  std::uint32_t index = 0;
  std::string value;

  auto operator<=>(const Row&) const = default;  // the order of packed pages
};
using Rows = std::vector<Row>;

inline std::string PlainPage(const Rows& rows) {
  PlainPageBuilder builder;
  for (const Row& row : rows) {
    builder.AddRow(builder.AddTopic(StreamId{row.stream}, row.topic), row.time, Serial{row.serial},
                   row.index, row.value);
  }
  std::string bytes;
  for (const std::string_view part : builder.Encode()) bytes.append(part);
  return bytes;
}

inline std::vector<PackedRow> AsPacked(const Rows& rows) {
  std::vector<PackedRow> packed;
  packed.reserve(rows.size());
  for (const Row& row : rows) {
    packed.push_back(
        {StreamId{row.stream}, row.topic, row.time, Serial{row.serial}, row.index, row.value});
  }
  return packed;
}

// REQUIRES (PackedPage, ApartPage): rows are sorted

// Returns a page that is one record.
inline std::string PackedPage(const Rows& rows, PageCodec codec) {
  PackedPageEncoder encoder(codec);
  std::string bytes;
  return encoder.Encode(AsPacked(rows), &bytes).ok() ? bytes : std::string();
}

// Returns a page that is two records.
inline StoredPage ApartPage(const Rows& rows, PageCodec codec) {
  PackedPageEncoder encoder(codec);
  const std::vector<PackedRow> packed = AsPacked(rows);
  StoredPage page;
  const bool made = encoder.EncodeKeys(packed, &page.keys).ok() &&
                    encoder.EncodeValues(packed, ChecksumOf(page.keys), &page.values).ok();
  return made ? page : StoredPage();
}

inline Row RowOf(const Page& page, std::uint32_t row) {
  const std::uint32_t topic = page.topic_of(row);
  return {page.stream(topic).value(),
          std::string(page.topic(topic)),
          page.time(row),
          page.serial(row).value(),
          page.index(row),
          std::string(page.value(row))};
}

inline Rows RowsOf(const Page& page) {
  Rows rows;
  for (std::uint32_t row = 0; row < page.rows(); ++row) rows.push_back(RowOf(page, row));
  return rows;
}

}  // namespace topicdb::columnar
