// The retention rules: which class a topic belongs to, and how long the class keeps its messages.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/options.h"
#include "topicdb/status.h"
#include "topicdb/topic.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// A class as it is stored. Its number is in the names of its slabs and never changes.
struct RetentionRule {
  RetentionClassId id;
  RetentionClass limits;
  Filter filter;
};

// Whether keep_last is the only limit. Other messages are then kept only while their generation is
// written to.
bool HasOnlyKeepLast(const RetentionClass& limits);

// Whether both lists mean the same. Either may have the implicit last class or not.
bool AreSameClasses(std::vector<RetentionClass> a, std::vector<RetentionClass> b);

// kSchema if a filter can match nothing because an earlier one takes all of its topics.
Status CheckReachable(const std::vector<RetentionClass>& classes);

// Decides which class a topic belongs to, and knows the limits of all classes of a database.
// Immutable; many threads may use it.
//
// A class that is no longer wanted stays as a retired class: no topic belongs to it any more. Its
// messages are kept for as long as any class keeps them that its topics may belong to now. If its
// filter comes back, it is the same class again.
class RetentionRules {
 public:
  // Returns the rules of a new database. kSchema for negative limits, and for a filter that is
  // malformed, given twice, or left nothing by an earlier one.
  static Result<RetentionRules> Make(const std::vector<RetentionClass>& classes);
  // Returns the rules that follow these when the classes change to `classes`. kSchema as for Make
  // and CheckReachable.
  Result<RetentionRules> With(const std::vector<RetentionClass>& classes) const;
  // Returns rules as they were stored (retention_file.h). kSchema as for Make; kCorruption if the
  // numbers of the classes are impossible.
  static Result<RetentionRules> Restore(std::uint64_t version, RetentionClassId reserved,
                                        const std::vector<RetentionRule>& live,
                                        const std::vector<RetentionRule>& retired);

  // Starts at 0 and grows with each change.
  std::uint64_t version() const { return version_; }
  // Returns the classes that the user asked for.
  std::vector<RetentionClass> classes() const;
  // In the order in which they are tried. The last one is "#".
  const std::vector<RetentionRule>& live() const { return live_; }
  const std::vector<RetentionRule>& retired() const { return retired_; }
  // Returns the live or retired class with this number, or nullptr if there is none.
  const RetentionRule* Find(RetentionClassId id) const;

  // Returns the number of the first class whose filter matches. The last class takes every topic,
  // including "$…". For topics that are TopicDB's own (IsReservedTopic), returns reserved().
  RetentionClassId ClassOf(std::string_view topic) const;
  // Returns ClassOf(topic), and the classes that had the topic before the rules were changed.
  std::vector<RetentionClassId> ClassesWith(std::string_view topic) const;
  // Returns the classes that topics may have moved into or out of since the rules `before`. These
  // take messages now and did not before, or the reverse, or are tried behind other filters.
  std::vector<RetentionClassId> ChangedSince(const RetentionRules& before) const;
  // Returns the numbers of all classes that users see.
  std::vector<RetentionClassId> ids() const;
  // Returns the number of the class of maps. It has no slab before the first map is written.
  RetentionClassId reserved() const { return reserved_; }
  // Returns a number that is greater than that of every class.
  RetentionClassId ids_end() const;
  // Returns the filter of a class. REQUIRES: Find(id) or id == reserved()
  const std::string& FilterOf(RetentionClassId id) const {
    return id == reserved() ? reserved_filter_ : Find(id)->filter.text();
  }
  // Returns the number of the class with this filter. kNotFound, naming the classes that exist.
  Result<RetentionClassId> IndexOf(const std::string& filter) const;

 private:
  RetentionRules() = default;
  // Returns the filters of live classes that may take topics from this one. Absent if this class is
  // not live.
  std::optional<std::set<std::string>> TakersFrom(RetentionClassId id) const;
  // Sets the limits of the retired classes.
  void LimitRetired();

  std::uint64_t version_ = 0;
  bool last_is_implicit_ = false;
  std::vector<RetentionRule> live_;
  std::vector<RetentionRule> retired_;
  RetentionClassId reserved_;
  std::string reserved_filter_ = std::string(kReservedPrefix) + "#";
};

}  // namespace topicdb
