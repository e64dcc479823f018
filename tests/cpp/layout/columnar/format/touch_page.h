// Reads all that a decoded page hands out. Uses no test framework, since the fuzzer has none.
#pragma once

#include <cstdint>
#include <string_view>

#include "layout/columnar/format/page.h"

namespace topicdb::columnar {

// Reads every byte, so that a sanitizer notices bytes that do not belong to the view.
inline std::uint32_t Touch(std::string_view bytes) {
  std::uint32_t sum = 0;
  for (const char byte : bytes) sum += static_cast<unsigned char>(byte);
  return sum;
}

// Returns what is wrong with a page that was decoded, or null if nothing is.
inline const char* FaultOf(const Page& page) {
  const Extent& extent = page.extent();
  const auto offsets = page.value_offsets();
  if (page.rows() == 0 || page.topics() == 0) return "it is empty";
  if (offsets.size() != std::size_t{page.rows()} + 1 || page.times().size() != page.rows()) {
    return "a column is too long or short";
  }
  const auto values_end = static_cast<std::size_t>(page.has_values() ? offsets.back() : 0);
  if (offsets.front() != 0 || page.values().size() != values_end) return "values are left over";
  volatile std::uint32_t sink = 0;
  for (std::uint32_t topic = 0; topic < page.topics(); ++topic) {
    if (page.stream(topic) == kNoStream) return "a topic has no stream";
    sink = sink + Touch(page.topic(topic));
  }
  for (std::uint32_t row = 0; row < page.rows(); ++row) {
    if (page.topic_of(row) >= page.topics()) return "a row has no topic";
    if (offsets[row + 1] < offsets[row]) return "a value has a negative length";
    if (page.times()[row] != page.time(row)) return "two times of one row";
    if (page.time(row) < 0 || page.time(row) < extent.first_time ||
        page.time(row) > extent.last_time) {
      return "a time is out of bounds";
    }
    if (page.serial(row) == kNoSerial || page.serial(row) < extent.first_serial ||
        page.serial(row) > extent.last_serial) {
      return "a serial is out of bounds";
    }
    page.PrefetchRow(row);
    page.PrefetchValue(row);
    sink = sink + page.index(row) + Touch(page.value(row));
  }
  return page.memory_bytes() < page.values().size() ? "it takes no memory" : nullptr;
}

}  // namespace topicdb::columnar
