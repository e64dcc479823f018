// Gives times and durations of the core to Python as ints of microseconds, and takes ints as such.
// Every file that converts one has to include this one.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <cstdint>

#include "topicdb/types/times.h"

namespace pybind11::detail {

template <>
struct type_caster<std::chrono::microseconds> {
  PYBIND11_TYPE_CASTER(std::chrono::microseconds, make_caster<std::int64_t>::name);

  static handle cast(std::chrono::microseconds duration, return_value_policy policy,
                     handle parent) {
    return make_caster<std::int64_t>::cast(duration.count(), policy, parent);
  }
  bool load(handle source, bool convert) {
    make_caster<std::int64_t> number;
    if (!number.load(source, convert)) return false;
    value = std::chrono::microseconds(cast_op<std::int64_t>(number));
    return true;
  }
};

template <typename Clock>
struct type_caster<std::chrono::time_point<Clock, std::chrono::microseconds>> {
  using Time = std::chrono::time_point<Clock, std::chrono::microseconds>;
  PYBIND11_TYPE_CASTER(Time, make_caster<std::int64_t>::name);

  static handle cast(Time time, return_value_policy policy, handle parent) {
    return make_caster<std::int64_t>::cast(topicdb::MicrosecondsOf(time), policy, parent);
  }
  bool load(handle source, bool convert) {
    make_caster<std::int64_t> number;
    if (!number.load(source, convert)) return false;
    value = topicdb::TimeAt<Time>(cast_op<std::int64_t>(number));
    return true;
  }
};

}  // namespace pybind11::detail
