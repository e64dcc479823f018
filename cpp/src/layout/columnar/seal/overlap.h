// Which blocks overlap in time so much that it pays to write them again, one behind the other.
//
// Blocks of a slab are written again by levels, as in a log-structured merge tree: a new block has
// level 0, and what is made of blocks is one level above the highest of them. Four blocks that
// cover the same time become four, each of a quarter of it; four times that many, of level 1,
// become blocks of a sixteenth. So a message is written again a number of times that is the
// logarithm of the blocks, base 4, and never more than the highest level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace topicdb::columnar {

// A block by its times; both are in it.
struct TimeSpan {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::uint32_t level = 0;
};

struct OverlapRule {
  std::size_t blocks_min = 4;   // that must cover one moment
  std::size_t blocks_max = 16;  // that are chosen at once
  std::uint32_t level_max = 5;  // blocks of this level are not chosen any more
  bool mixes_levels = false;    // or those that are chosen are all of one level
};

// Indexes of blocks to be written again together, ascending; none if they are apart as the rule
// wants it. The edges of a block, a twentieth of its time at either end, may overlap.
std::vector<std::size_t> ChooseOverlapping(std::span<const TimeSpan> blocks,
                                           const OverlapRule& rule);

}  // namespace topicdb::columnar
