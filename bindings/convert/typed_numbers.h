// Gives the numbers of the core that have types of their own to Python as ints, and takes ints as
// such numbers. Every file that converts such a number has to include this one.
#pragma once

#include <pybind11/pybind11.h>

#include "topicdb/types/numbers.h"

namespace pybind11::detail {

template <typename Tag, typename Number>
struct type_caster<topicdb::TypedNumber<Tag, Number>> {
  using Typed = topicdb::TypedNumber<Tag, Number>;
  PYBIND11_TYPE_CASTER(Typed, make_caster<Number>::name);

  static handle cast(Typed number, return_value_policy policy, handle parent) {
    return make_caster<Number>::cast(number.value(), policy, parent);
  }
  bool load(handle source, bool convert) {
    make_caster<Number> number;
    if (!number.load(source, convert)) return false;
    value = Typed{cast_op<Number>(number)};
    return true;
  }
};

}  // namespace pybind11::detail
