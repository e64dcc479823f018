#include "store/retention_class.h"

namespace topicdb {

Result<RetentionRules> RetentionRules::Make(const std::vector<RetentionClass>& classes) {
  RetentionRules rules;
  for (const RetentionClass& given : classes) {
    Result<Filter> filter = Filter::Parse(given.filter);
    if (!filter.ok()) return SchemaFault("retention: " + filter.status().message());
    if (!rules.filters_.empty() && rules.filters_.back().text() == "#") {
      return SchemaFault("retention: '" + given.filter +
                         "' can match nothing after '#'; put '#' last");
    }
    for (const Filter& earlier : rules.filters_) {
      if (earlier.text() == given.filter) {
        return SchemaFault("retention: filter '" + given.filter + "' is given twice");
      }
    }
    if (given.age_us < 0) {
      return SchemaFault("retention: the age of '" + given.filter + "' is negative");
    }
    rules.filters_.push_back(std::move(filter).value());
  }
  if (rules.filters_.empty() || rules.filters_.back().text() != "#") {
    TOPICDB_ASSIGN_OR_RETURN(Filter rest, Filter::Parse("#"));
    rules.filters_.push_back(std::move(rest));
  }
  return rules;
}

std::uint32_t RetentionRules::ClassOf(std::string_view topic) const {
  if (IsReservedTopic(topic)) return reserved();
  const std::uint32_t last = size() - 1;
  for (std::uint32_t i = 0; i < last; ++i) {
    if (filters_[i].Matches(topic)) return i;
  }
  return last;
}

Result<std::uint32_t> RetentionRules::IndexOf(const std::string& filter) const {
  std::string known;
  for (std::uint32_t i = 0; i < size(); ++i) {
    if (filters_[i].text() == filter) return i;
    known += (i == 0 ? "'" : ", '") + filters_[i].text() + "'";
  }
  return NotFound("there is no retention class '" + filter + "'; there are " + known);
}

}  // namespace topicdb
