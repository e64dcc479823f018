#include "layout/columnar/merge/key_windows.h"

#include <algorithm>
#include <cmath>

namespace topicdb::columnar {

namespace {

// A key at which the number of bytes for each key changes.
struct Change {
  std::uint64_t at;
  double bytes_a_step;  // how many bytes more each key has from `at` on; negative: how many less
};

// Adds numbers of very different sizes, and keeps what a plain sum rounds off (Neumaier, 1974). The
// bytes of a single moment are many for its key. A plain sum would not give them back exactly, and
// the small rest, times the keys of all the years behind that moment, would be many windows.
class CarefulSum {
 public:
  void Add(double number) {
    const double sum = sum_ + number;
    rounded_off_ += std::abs(sum_) >= std::abs(number) ? (sum_ - sum) + number  //
                                                       : (number - sum) + sum_;
    sum_ = sum;
  }
  double value() const { return sum_ + rounded_off_; }

 private:
  double sum_ = 0;
  double rounded_off_ = 0;
};

std::vector<Change> ChangesOf(const std::vector<KeySpan>& spans) {
  std::vector<Change> changes;
  for (const KeySpan& span : spans) {
    const double rate = span.bytes / (static_cast<double>(span.last - span.first) + 1);
    changes.push_back({span.first, rate});
    if (span.last < ~std::uint64_t{0}) changes.push_back({span.last + 1, -rate});
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.at < b.at; });
  return changes;
}

}  // namespace

std::vector<std::uint64_t> CutWindows(const std::vector<KeySpan>& spans, double window_bytes) {
  const std::vector<Change> changes = ChangesOf(spans);
  std::vector<std::uint64_t> bounds;
  double bytes = 0;  // since the last bound
  CarefulSum bytes_of_key;
  for (std::size_t i = 0; i + 1 < changes.size(); ++i) {
    bytes_of_key.Add(changes[i].bytes_a_step);
    const double bytes_a_step = bytes_of_key.value();
    std::uint64_t at = changes[i].at;
    double left = static_cast<double>(changes[i + 1].at - at);  // how many keys are left
    while (bytes_a_step > 0 && bytes + left * bytes_a_step >= window_bytes) {
      const double steps = std::max(std::ceil((window_bytes - bytes) / bytes_a_step), 1.0);
      if (steps > left) break;
      at += static_cast<std::uint64_t>(steps);
      left -= steps;
      bounds.push_back(at);
      bytes = 0;
    }
    bytes += std::max(left, 0.0) * std::max(bytes_a_step, 0.0);
  }
  return bounds;
}

}  // namespace topicdb::columnar
