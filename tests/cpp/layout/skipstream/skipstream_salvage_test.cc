#include "layout/skipstream/skipstream_salvage.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "layout/skipstream/skipstream_slab.h"

namespace topicdb::skipstream {
namespace {

// What one salvage hands out and reports.
struct Salvaged {
  Status status;
  std::vector<std::string> rows;  // topic, time and value
  std::vector<Finding> lost;
};

Salvaged Salvage(SkipstreamSlab& slab, bool is_incomplete, bool knows_structure = true) {
  Salvaged salvaged;
  SlabSalvage call;
  call.is_incomplete = is_incomplete;
  call.structure_of = [&](StreamId stream) -> std::optional<Structure> {
    if (!knows_structure || stream != SkipstreamSlab::kStream) return std::nullopt;
    return SkipstreamSlab::StructureOfStream();
  };
  call.take = [&](const SalvagedRow& row) {
    salvaged.rows.push_back(std::string(row.topic) + " " + std::to_string(row.timestamp) + " " +
                            std::string(row.value));
    return Status::Ok();
  };
  call.report = [&](Finding finding) { salvaged.lost.push_back(std::move(finding)); };
  salvaged.status = SalvageSlab(slab.source(), 8, call);
  EXPECT_TRUE(salvaged.status.ok()) << salvaged.status.message();
  return salvaged;
}

using Rows = std::vector<std::string>;
using Times = std::pair<std::int64_t, std::int64_t>;

TEST(SkipstreamSalvage, OfWhatIsWholeAllIsHandedOutAndNothingReported) {
  SkipstreamSlab slab;
  slab.Put("a", "b", 5, 1, "x");
  slab.Put("c", "d", 4, 2, "y");
  for (const bool is_incomplete : {false, true}) {
    const Salvaged salvaged = Salvage(slab, is_incomplete);
    EXPECT_EQ(salvaged.rows, (Rows{"c/d 4 y", "a/b 5 x"}));
    EXPECT_TRUE(salvaged.lost.empty());
  }
}

TEST(SkipstreamSalvage, WhatOnlyIndexEntriesTellOfIsReportedIfSomethingIsMissing) {
  SkipstreamSlab slab;
  for (int time = 1; time <= 5; ++time) slab.Put("a", "b", time, 1, "x");
  for (const int time : {2, 4}) {
    ASSERT_TRUE(slab.db().Delete({}, slab.Key("a", "b", time)).ok());
  }
  EXPECT_TRUE(Salvage(slab, /*is_incomplete=*/false).lost.empty()) << "nobody looks for it";
  const Salvaged salvaged = Salvage(slab, /*is_incomplete=*/true);
  EXPECT_EQ(salvaged.rows.size(), 3U);
  ASSERT_EQ(salvaged.lost.size(), 1U);
  EXPECT_EQ(salvaged.lost[0].messages, 2U) << "each counts once, though it has two entries";
  EXPECT_EQ(salvaged.lost[0].times, Times(2, 4));
  EXPECT_EQ(salvaged.lost[0].streams, std::vector<StreamId>{SkipstreamSlab::kStream});
}

TEST(SkipstreamSalvage, MalformedMessagesAreReportedAndTheOthersTaken) {
  SkipstreamSlab slab;
  for (int time = 1; time <= 3; ++time) slab.Put("a", "b", time, 1, "x");
  ASSERT_TRUE(slab.db().Put({}, slab.Key("a", "b", 2), "\x09").ok());
  ASSERT_TRUE(slab.db().Put({}, slab.Key("a", "b", 3) + std::string("more\0", 5), "x").ok());
  const Salvaged salvaged = Salvage(slab, /*is_incomplete=*/false);
  EXPECT_EQ(salvaged.rows, (Rows{"a/b 1 x", "a/b 3 x"}));
  ASSERT_EQ(salvaged.lost.size(), 2U);
  for (const Finding& finding : salvaged.lost) {
    EXPECT_EQ(finding.what, "a malformed message of stream 7");
    EXPECT_EQ(finding.messages, 1U);
  }
}

TEST(SkipstreamSalvage, WithoutTheStructureTopicsAreNotKnown) {
  SkipstreamSlab slab;
  for (int time = 3; time <= 6; ++time) slab.Put("a", "b", time, 1, "x");
  const Salvaged salvaged = Salvage(slab, /*is_incomplete=*/false, /*knows_structure=*/false);
  EXPECT_TRUE(salvaged.rows.empty());
  ASSERT_EQ(salvaged.lost.size(), 1U);
  EXPECT_EQ(salvaged.lost[0].messages, 4U);
  EXPECT_EQ(salvaged.lost[0].times, Times(3, 6));
}

TEST(SkipstreamSalvage, AnErrorOfWhoTakesEndsIt) {
  SkipstreamSlab slab;
  for (int time = 1; time <= 3; ++time) slab.Put("a", "b", time, 1, "x");
  int taken = 0;
  SlabSalvage call;
  call.structure_of = [](StreamId) { return std::optional(SkipstreamSlab::StructureOfStream()); };
  call.take = [&](const SalvagedRow&) { return ++taken == 2 ? Interrupted() : Status::Ok(); };
  EXPECT_EQ(SalvageSlab(slab.source(), 8, call).code(), Code::kInterrupted);
  EXPECT_EQ(taken, 2);
}

}  // namespace
}  // namespace topicdb::skipstream
