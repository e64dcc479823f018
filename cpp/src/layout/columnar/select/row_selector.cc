#include "layout/columnar/select/row_selector.h"

#include <algorithm>

namespace topicdb::columnar {

bool RowSelector::Concerns(const Extent& extent) const {
  if (range_.start.has_value() && extent.last_time < *range_.start) return false;
  if (range_.end.has_value() && extent.first_time >= *range_.end) return false;
  return extent.first_serial <= serial_max_ && extent.last_serial >= serial_min_;
}

bool RowSelector::Covers(const Extent& extent) const {
  return Contains(range_, extent.first_time) && Contains(range_, extent.last_time) &&
         CoversSerials(extent);
}

bool RowSelector::MayMask(const Extent& extent) const {
  return std::any_of(masks_.begin(), masks_.end(), [&](const RowMask& mask) {
    return extent.last_serial >= mask.serial_min && extent.first_serial <= mask.serial &&
           extent.last_time >= mask.range.start.value_or(0) &&
           (!mask.range.end.has_value() || extent.first_time < *mask.range.end);
  });
}

bool RowSelector::IsMasked(const Page& page, std::uint32_t row) const {
  return std::any_of(masks_.begin(), masks_.end(), [&](const RowMask& mask) {
    return mask.Hides(page.topic(page.topic_of(row)), page.time(row), page.serial(row),
                      page.index(row));
  });
}

}  // namespace topicdb::columnar
