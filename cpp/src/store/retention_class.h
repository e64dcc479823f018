// Which retention class a topic belongs to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/options.h"
#include "topicdb/status.h"
#include "topicdb/topic.h"

namespace topicdb {

// Immutable; may be used from many threads.
class RetentionRules {
 public:
  // kSchema for a malformed filter, one given twice, or one that "#" before it leaves nothing to.
  static Result<RetentionRules> Make(const std::vector<RetentionClass>& classes);

  // Index of the first class whose filter matches; the last class takes every topic, "$…" too. That
  // of topics that are TopicDB's own (IsReservedTopic) is reserved().
  std::uint32_t ClassOf(std::string_view topic) const;
  // Classes that users see.
  std::uint32_t size() const { return static_cast<std::uint32_t>(filters_.size()); }
  // The class behind those: maps. It has no slab before the first of them is written.
  std::uint32_t reserved() const { return size(); }
  // REQUIRES: index <= reserved()
  const std::string& FilterOf(std::uint32_t index) const {
    return index == reserved() ? reserved_filter_ : filters_[index].text();
  }
  // kNotFound, naming the classes there are.
  Result<std::uint32_t> IndexOf(const std::string& filter) const;

 private:
  std::vector<Filter> filters_;  // the last one is "#"
  std::string reserved_filter_ = std::string(kReservedPrefix) + "#";
};

}  // namespace topicdb
