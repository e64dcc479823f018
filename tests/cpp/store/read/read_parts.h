// Helpers for tests of what reads slabs.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "layout/columnar/format/block_format.h"
#include "store/read/stream_plan.h"
#include "store/read/stream_sources.h"
#include "store/shard/shard_parts.h"

namespace topicdb {

using Texts = std::vector<std::string>;

inline constexpr ReadLimits kWholeRead{1'000'000, std::size_t{1} << 30, 1'000'000'000};

inline std::vector<Filter> FiltersOf(const Texts& texts) {
  std::vector<Filter> filters;
  for (const std::string& text : texts) filters.push_back(Filter::Parse(text).value());
  return filters;
}

// Makes the first fresh block of a slab of the layout columnar unreadable for views that begin
// after the next commit.
inline void DamageFirstBlock(ShardParts* shard, const Slab& slab) {
  const std::string key = columnar::RecordKey(columnar::RecordKind::kFreshEntry, BlockId{1});
  std::string entry;
  ASSERT_TRUE(shard->state.db->Get({}, slab.families().main, key, &entry).ok());
  ASSERT_TRUE(shard->state.db->Put({}, slab.families().main, key, "damaged").ok());
}

// Plans a read of the present view.
inline std::vector<StreamTarget> PlanOf(const ShardParts& shard, const Texts& filters,
                                        const TimeRange& range = {}) {
  return PlanStreams({{nullptr, shard.state.view()}}, FiltersOf(filters), range, std::nullopt);
}

// Returns the values of a batch in its order.
inline Texts ValuesOf(const Batch& batch) {
  Texts values;
  for (std::size_t row = 0; row < batch.size(); ++row) values.emplace_back(batch.value(row));
  return values;
}

// Returns the values that a source or a reader gives, read by read within these limits.
template <typename Reader>
Texts ReadValues(Reader* reader, const ReadLimits& limits = kWholeRead) {
  Texts values;
  while (true) {
    Batch batch;
    const auto outcome = reader->Read(limits, &batch);
    EXPECT_TRUE(outcome.ok()) << outcome.status().message();
    EXPECT_LE(batch.size(), limits.rows_max);
    for (std::string& value : ValuesOf(batch)) values.push_back(std::move(value));
    if (!outcome.ok() || *outcome == ReadOutcome::kExhausted) return values;
  }
}

}  // namespace topicdb
