// A slab with blocks of every kind, for tests of what reads or salvages all of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "layout/columnar/columnar_slab.h"
#include "layout/columnar/format/expect_page.h"

namespace topicdb::columnar {

inline constexpr ReadLimits kNoLimits{1'000'000, std::size_t{1} << 30, 1'000'000};

// A slab with two sealed blocks of several pages, two fresh ones, and a staged one. Keys and values
// of sealed pages are apart or together.
class MixedBlocksTest : public ::testing::TestWithParam<PageForm> {
 protected:
  // Each sealed or staged block has this many messages, of at most this many topics.
  explicit MixedBlocksTest(int messages = 150, std::uint32_t topics = 6) : topics_(topics) {
    slab_.limits.values_apart = GetParam() == PageForm::kApart;
    for (int i = 0; i < 2; ++i) {
      slab_.Write(Messages(messages));
      slab_.Seal(SealScope::kFresh);
    }
    slab_.Write(Messages(20));
    slab_.Write(Messages(20));
    slab_.WriteStaged(Messages(messages), 500);
  }

  Rows Messages(int count) {
    Rows rows;
    for (int i = 0; i < count; ++i) {
      const auto topic = static_cast<std::uint32_t>(random_() % topics_);
      rows.push_back({1 + topic / 2, "t/" + std::to_string(topic),
                      static_cast<std::int64_t>(random_() % 1'000), 0, 0,
                      std::to_string(random_())});
    }
    return rows;
  }
  // Returns the messages that any of the requests wants.
  Rows Wanted(const std::vector<ReadRequest>& any_of) const {
    Rows rows;
    for (const Row& row : slab_.rows()) {
      const auto wants = [&](const ReadRequest& request) {
        return ColumnarSlab::IsWanted(request, row) && Serial{row.serial} >= request.serial_min;
      };
      if (std::any_of(any_of.begin(), any_of.end(), wants)) rows.push_back(row);
    }
    return rows;
  }

  const std::uint32_t topics_;
  std::mt19937_64 random_{1};
  ColumnarSlab slab_;
};

}  // namespace topicdb::columnar
