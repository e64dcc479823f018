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

inline void ExpectPage(const std::string& bytes, const Rows& rows) {
  const auto page = DecodeOk(bytes);
  ASSERT_NE(page, nullptr);
  EXPECT_TRUE(RowsOf(*page) == rows);  // EXPECT_EQ would print large values
  EXPECT_EQ(page->extent(), ExtentOf(rows));
  EXPECT_EQ(FaultOf(*page), nullptr);
}

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
