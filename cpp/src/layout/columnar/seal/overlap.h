// Chooses blocks that overlap in time so much that it pays to write them again, one behind the
// other in time.
//
// Blocks have levels, as in a log-structured merge tree. A new block has level 0. Blocks that are
// made of others have one level more than the highest level of those. Four blocks that cover the
// same time become four blocks that each cover a quarter of it. Four times as many blocks, of level
// 1, become blocks that each cover a sixteenth.
//
// So a message is written again as often as the logarithm of the number of blocks, base 4, and at
// most as often as the highest level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace topicdb::columnar {

// The time that a block covers, including `first` and `last`.
struct TimeSpan {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::uint32_t level = 0;
};

// Says when blocks overlap enough, and how many of them to choose.
struct OverlapRule {
  std::size_t blocks_min = 4;   // how many blocks must cover one moment
  std::size_t blocks_max = 16;  // how many blocks are chosen at most
  std::uint32_t level_max = 5;  // blocks of this level are not chosen any more
  bool mixes_levels = false;    // if false, all chosen blocks have the same level
};

// Returns the indexes of blocks to write again together, ascending. Returns none if the blocks
// overlap no more than the rule allows. The edges of a block, a twentieth of its time at either
// end, may overlap.
std::vector<std::size_t> ChooseOverlapping(std::span<const TimeSpan> blocks,
                                           const OverlapRule& rule);

}  // namespace topicdb::columnar
