// Decides which rows a read wants by their times, commits and deletes, and therefore which blocks
// and pages. topic_selector.h decides by topics.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/columnar/format/page.h"
#include "layout/layout.h"

namespace topicdb::columnar {

// Selects rows for one request. A reader owns it. Keeps copies of what it needs of the request.
// Immutable, and therefore thread-safe.
class RowSelector {
 public:
  // Makes a selector that wants only rows of commit `serial_min` and later ones.
  RowSelector(const ReadRequest& request, Serial serial_min)
      : range_(request.range),
        serial_min_(serial_min),
        serial_max_(request.serial_max),
        masks_(request.masks) {}

  // Returns true if some rows with these bounds may be wanted by their times and serials.
  bool Concerns(const Extent& extent) const;
  // Returns true if all rows with these bounds are wanted by their times and serials.
  bool Covers(const Extent& extent) const;
  // Returns true if all rows with these bounds are wanted by their serials.
  bool CoversSerials(const Extent& extent) const {
    return extent.first_serial >= serial_min_ && extent.last_serial <= serial_max_;
  }
  // Returns true if the row is wanted by its time and serial. Does not look at masks. A page
  // without serials must be one whose serials are all wanted.
  bool Wants(const Page& page, std::uint32_t row) const {
    return (!page.has_serials() ||
            (page.serial(row) >= serial_min_ && page.serial(row) <= serial_max_)) &&
           Contains(range_, page.time(row));
  }
  bool has_masks() const { return !masks_.empty(); }
  // Returns false if no mask of the request hides a row with these bounds.
  bool MayMask(const Extent& extent) const;
  // Returns true if a mask of the request hides the row.
  bool IsMasked(const Page& page, std::uint32_t row) const;
  // Returns the smallest serial that a wanted row may have.
  Serial serial_min() const { return serial_min_; }

 private:
  const TimeRange range_;
  const Serial serial_min_;
  const Serial serial_max_;
  const std::vector<RowMask> masks_;
};

}  // namespace topicdb::columnar
