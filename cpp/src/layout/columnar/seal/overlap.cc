#include "layout/columnar/seal/overlap.h"

#include <algorithm>
#include <utility>

namespace topicdb::columnar {

namespace {

constexpr std::uint64_t kEdges = 20;

std::uint64_t Width(const TimeSpan& span) {
  return static_cast<std::uint64_t>(span.last) - static_cast<std::uint64_t>(span.first);
}

// Returns the span without its edges.
TimeSpan Inner(const TimeSpan& span) {
  const auto edge = static_cast<std::int64_t>(Width(span) / kEdges);
  return {span.first + edge, span.last - edge, span.level};
}

bool Overlap(const TimeSpan& a, const TimeSpan& b) {
  return a.first <= b.last && b.first <= a.last;
}

// Chooses among blocks that are candidates. Lives during one call of ChooseOverlapping. Immutable.
class Chooser {
 public:
  Chooser(std::span<const TimeSpan> blocks, const OverlapRule& rule)
      : blocks_(blocks), rule_(rule) {}

  // Finds the moment that most candidates cover. Returns the candidates that cover it, or none if
  // they are too few.
  std::vector<std::size_t> Choose(std::vector<std::size_t> candidates) const {
    const auto [depth, moment] = Deepest(candidates);
    if (depth < rule_.blocks_min) return {};
    const TimeSpan at{moment, moment};
    std::vector<std::size_t> chosen = Take(&candidates, at, rule_.blocks_max);
    // In a closed slab, blocks that overlap with the chosen ones are chosen, too, as many as the
    // rule admits. So the new blocks do not overlap with the other blocks.
    while (rule_.mixes_levels && chosen.size() < rule_.blocks_max) {
      const std::vector<std::size_t> more =
          Take(&candidates, Union(chosen), rule_.blocks_max - chosen.size());
      if (more.empty()) break;
      chosen.insert(chosen.end(), more.begin(), more.end());
    }
    std::sort(chosen.begin(), chosen.end());
    return chosen;
  }

 private:
  // Returns the moment that most candidates cover, and how many cover it.
  std::pair<std::size_t, std::int64_t> Deepest(const std::vector<std::size_t>& candidates) const {
    std::vector<std::pair<std::int64_t, bool>> changes;  // a moment, and whether a span ends there
    for (const std::size_t index : candidates) {
      const TimeSpan inner = Inner(blocks_[index]);
      changes.emplace_back(inner.first, false);
      changes.emplace_back(inner.last, true);
    }
    std::sort(changes.begin(), changes.end());
    std::pair<std::size_t, std::int64_t> deepest;
    std::size_t depth = 0;
    for (const auto& [moment, ends] : changes) {
      if (ends) {
        --depth;
      } else if (++depth > deepest.first) {
        deepest = {depth, moment};
      }
    }
    return deepest;
  }

  // Removes the widest candidates that overlap with a span, at most `count_max` of them, and
  // returns them.
  std::vector<std::size_t> Take(std::vector<std::size_t>* candidates, const TimeSpan& span,
                                std::size_t count_max) const {
    std::vector<std::size_t> taken;
    std::vector<std::size_t> left;
    for (const std::size_t index : *candidates) {
      (Overlap(Inner(blocks_[index]), span) ? taken : left).push_back(index);
    }
    std::sort(taken.begin(), taken.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(Width(blocks_[b]), a) < std::pair(Width(blocks_[a]), b);
    });
    for (; taken.size() > count_max; taken.pop_back()) left.push_back(taken.back());
    *candidates = std::move(left);
    return taken;
  }

  TimeSpan Union(const std::vector<std::size_t>& chosen) const {
    TimeSpan all = blocks_[chosen.front()];
    for (const std::size_t index : chosen) {
      all.first = std::min(all.first, blocks_[index].first);
      all.last = std::max(all.last, blocks_[index].last);
    }
    return all;
  }

  const std::span<const TimeSpan> blocks_;
  const OverlapRule& rule_;
};

}  // namespace

std::vector<std::size_t> ChooseOverlapping(std::span<const TimeSpan> blocks,
                                           const OverlapRule& rule) {
  const Chooser chooser(blocks, rule);
  for (std::uint32_t level = 0; level < rule.level_max; ++level) {
    std::vector<std::size_t> candidates;
    for (std::size_t index = 0; index < blocks.size(); ++index) {
      const std::uint32_t of_block = blocks[index].level;
      // Blocks of a single moment cannot be brought apart.
      if (Width(blocks[index]) == 0) continue;
      if (rule.mixes_levels ? of_block < rule.level_max : of_block == level) {
        candidates.push_back(index);
      }
    }
    std::vector<std::size_t> chosen = chooser.Choose(std::move(candidates));
    if (!chosen.empty() || rule.mixes_levels) return chosen;
  }
  return {};
}

}  // namespace topicdb::columnar
