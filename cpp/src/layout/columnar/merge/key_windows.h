// Cuts a range of keys into windows of about equal size.
#pragma once

#include <cstdint>
#include <vector>

namespace topicdb::columnar {

// Messages that are spread over a range of keys, given by the major part of the keys. The range
// includes `first` and `last`.
struct KeySpan {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  double bytes = 0;
};

// Returns the keys at which new windows begin, ascending, each once. Each window has about
// `window_bytes`, if the bytes of each span are spread evenly over it.
std::vector<std::uint64_t> CutWindows(const std::vector<KeySpan>& spans, double window_bytes);

}  // namespace topicdb::columnar
