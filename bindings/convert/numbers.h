// Converts Python's numbers into the core's unsigned ones.
#pragma once

#include <pybind11/numpy.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "convert/errors.h"
#include "topicdb/status.h"

namespace topicdb::python {

// Returns `value`, which `option` has. Throws the error that `fault` makes if it is out of range.
// REQUIRES (Unsigned, AllUnsigned): the GIL
inline std::uint32_t Unsigned(std::int64_t value, const char* option,
                              Status (*fault)(std::string)) {
  if (value >= 0 && value <= std::numeric_limits<std::uint32_t>::max()) {
    return static_cast<std::uint32_t>(value);
  }
  Raise(fault(std::string(option) + ": " + std::to_string(value) + " is out of range"));
}

// Returns an array with a copy of `numbers`. REQUIRES: the GIL
inline pybind11::array_t<std::uint32_t> ArrayOf(const std::vector<std::uint32_t>& numbers) {
  return pybind11::array_t<std::uint32_t>(static_cast<pybind11::ssize_t>(numbers.size()),
                                          numbers.data());
}

// Does the same for several values.
inline std::vector<std::uint32_t> AllUnsigned(const std::vector<std::int64_t>& values,
                                              const char* option, Status (*fault)(std::string)) {
  std::vector<std::uint32_t> result;
  for (const std::int64_t value : values) result.push_back(Unsigned(value, option, fault));
  return result;
}

}  // namespace topicdb::python
