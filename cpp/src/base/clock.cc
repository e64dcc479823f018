#include "base/clock.h"

#include <chrono>

namespace topicdb {

std::int64_t SystemClockUs() {
  using std::chrono::duration_cast;
  using std::chrono::microseconds;
  using std::chrono::system_clock;
  return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace topicdb
