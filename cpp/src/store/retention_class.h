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

  // Index of the first class whose filter matches; the last class takes every topic, "$…" too.
  std::uint32_t ClassOf(std::string_view topic) const;
  std::uint32_t size() const { return static_cast<std::uint32_t>(filters_.size()); }
  // REQUIRES: index < size()
  const std::string& FilterOf(std::uint32_t index) const { return filters_[index].text(); }
  // kNotFound, naming the classes there are.
  Result<std::uint32_t> IndexOf(const std::string& filter) const;

 private:
  std::vector<Filter> filters_;  // the last one is "#"
};

}  // namespace topicdb
