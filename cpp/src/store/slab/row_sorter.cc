#include "store/slab/row_sorter.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace topicdb {

Status RowSorter::Add(const SalvagedRow& row) {
  rows_.push_back({texts_.size(), static_cast<std::uint32_t>(row.topic.size()),
                   static_cast<std::uint32_t>(row.value.size()), row.timestamp, row.serial,
                   row.index});
  texts_.append(row.topic).append(row.value);
  const bool is_full = texts_.size() + rows_.size() * sizeof(Row) >= bytes_max_;
  return is_full ? Finish() : Status::Ok();
}

Status RowSorter::Finish() {
  std::sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
    return std::pair(a.serial, a.index) < std::pair(b.serial, b.index);
  });
  for (const Row& row : rows_) {
    const std::string_view text = std::string_view(texts_).substr(row.begin);
    TOPICDB_RETURN_IF_ERROR(take_({text.substr(0, row.topic_size), row.timestamp, row.serial,
                                   row.index, text.substr(row.topic_size, row.value_size)}));
  }
  rows_.clear();
  texts_.clear();
  return Status::Ok();
}

}  // namespace topicdb
