// Cuts a range of keys into windows of about equal size.
#pragma once

#include <cstdint>
#include <vector>

namespace topicdb::columnar {

// Messages that are spread over a range of keys, by the major part of these; both are in it.
struct KeySpan {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  double bytes = 0;
};

// Keys at which a new window begins so that each has about window_bytes, as if the bytes of a span
// were spread evenly over it. Ascending, each once.
std::vector<std::uint64_t> CutWindows(const std::vector<KeySpan>& spans, double window_bytes);

}  // namespace topicdb::columnar
