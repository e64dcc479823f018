// Decodes pages and compares them with the messages that they must have.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "layout/columnar/format/page_examples.h"
#include "layout/columnar/format/page_format.h"
#include "layout/columnar/format/touch_page.h"

namespace topicdb::columnar {

inline std::shared_ptr<const Page> DecodeOk(const std::string& bytes) {
  const auto page = Page::Decode(bytes);
  EXPECT_TRUE(page.ok()) << page.status().message();
  return page.ok() ? *page : nullptr;
}

inline Extent ExtentOf(const Rows& rows) {
  const Serial serial{rows[0].serial};
  Extent extent{rows[0].time, rows[0].time, serial, serial};
  for (const Row& row : rows) extent.Include(row.time, Serial{row.serial});
  return extent;
}

inline Rows WithoutValues(Rows rows) {
  for (Row& row : rows) row.value.clear();
  return rows;
}

// Expects the topics and times of these messages.
inline void ExpectTimes(const Page& page, const Rows& rows) {
  ASSERT_EQ(page.rows(), rows.size());
  EXPECT_EQ(page.extent(), ExtentOf(rows));
  EXPECT_FALSE(page.has_values());
  EXPECT_TRUE(page.values().empty());
  for (std::uint32_t row = 0; row < page.rows(); ++row) {
    EXPECT_EQ(page.topic(page.topic_of(row)), rows[row].topic);
    EXPECT_EQ(page.stream(page.topic_of(row)), StreamId{rows[row].stream});
    EXPECT_EQ(page.time(row), rows[row].time);
  }
}

// Expects these messages of a stored page, and the same without values.
inline void ExpectStored(const StoredPage& stored, const Rows& rows) {
  const auto page = Page::Decode(stored, PageParts::kAll);
  ASSERT_TRUE(page.ok()) << page.status().message();
  EXPECT_TRUE((*page)->has_values());
  EXPECT_TRUE(RowsOf(**page) == rows);  // EXPECT_EQ would print large values
  EXPECT_EQ((*page)->extent(), ExtentOf(rows));
  EXPECT_EQ(FaultOf(**page), nullptr);
  const auto keys = Page::Decode({stored.keys}, PageParts::kKeys);
  ASSERT_TRUE(keys.ok()) << keys.status().message();
  EXPECT_FALSE((*keys)->has_values());
  EXPECT_TRUE(RowsOf(**keys) == WithoutValues(rows));
  EXPECT_EQ((*keys)->extent(), ExtentOf(rows));
  EXPECT_TRUE((*keys)->values().empty());
  EXPECT_EQ(FaultOf(**keys), nullptr);
  for (std::uint32_t row = 0; row < (*keys)->rows(); ++row) {
    EXPECT_EQ((*keys)->value_size(row), rows[row].value.size());
  }
  const auto times = Page::Decode({stored.keys}, PageParts::kTimes);
  ASSERT_TRUE(times.ok()) << times.status().message();
  ExpectTimes(**times, rows);
}

inline void ExpectPage(const std::string& bytes, const Rows& rows) { ExpectStored({bytes}, rows); }

// Replaces the last bytes of a page by the checksum of those before.
inline std::string WithChecksum(std::string page) {
  page.resize(page.size() - kCrcBytes);
  AppendLittle(&page, Crc32(page));
  return page;
}

// Expects that a page whose checksum is right is either refused or safe to read.
inline void ExpectRefusedOrSafe(const std::string& bytes, const std::string& what) {
  const auto page = Page::Decode(bytes);
  if (page.ok()) {
    EXPECT_EQ(FaultOf(**page), nullptr) << what;
  } else {
    EXPECT_EQ(page.status().code(), Code::kCorruption) << what;
  }
}

}  // namespace topicdb::columnar
