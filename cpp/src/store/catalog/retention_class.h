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

// Returns whether keep_last is the only limit. Other messages are then kept only while their
// generation is written to.
bool HasOnlyKeepLast(const RetentionClass& limits);

// Returns whether both lists mean the same. Either may have the implicit last class or not.
bool AreSameClasses(std::vector<RetentionClass> a, std::vector<RetentionClass> b);

// Returns kSchema if a filter can match nothing because an earlier one takes all of its topics.
Status CheckReachable(const std::vector<RetentionClass>& classes);

// Decides which class a topic belongs to, and knows the limits of all classes of a database.
// Immutable; many threads may use it.
//
// A class that is no longer wanted stays as a retired class: no topic belongs to it any more. Its
// messages are kept for as long as any class keeps them that its topics may belong to now. If its
// filter comes back, it is the same class again.
class RetentionRules {
 public:
  // Returns the rules of a new database. Returns kSchema for negative limits, for a filter that is
  // malformed or given twice, and for a filter after "#".
  static Result<RetentionRules> Make(const std::vector<RetentionClass>& classes);
  // Returns the rules that follow these when the classes change to `classes`. Returns kSchema as
  // Make and CheckReachable do.
  Result<RetentionRules> With(const std::vector<RetentionClass>& classes) const;
  // Returns rules as they were stored (retention_file.h). Returns kSchema as Make does, and
  // kCorruption if the numbers of the classes are impossible.
  static Result<RetentionRules> Restore(std::uint64_t version, RetentionClassId reserved,
                                        const std::vector<RetentionRule>& live,
                                        const std::vector<RetentionRule>& retired);

  // Starts at 0 and grows with each change.
  std::uint64_t version() const { return version_; }
  // Returns the classes that the user asked for.
  std::vector<RetentionClass> classes() const;
  // Returns the classes that topics belong to now, in the order in which they are tried. The last
  // one is "#".
  const std::vector<RetentionRule>& live() const { return live_; }
  // Returns the classes that no topic belongs to any more.
  const std::vector<RetentionRule>& retired() const { return retired_; }
  // Returns the live or retired class with this number, or nullptr if there is none.
  const RetentionRule* Find(RetentionClassId id) const;

  // Returns the number of the first class whose filter matches. The last class takes every topic,
  // including "$…". For topics that are TopicDB's own (IsReservedTopic), returns reserved().
  RetentionClassId ClassOf(std::string_view topic) const;
  // Returns ClassOf(topic), and the classes that had the topic before the rules were changed.
  std::vector<RetentionClassId> ClassesWith(std::string_view topic) const;
  // Returns whether topics that match `filter` may belong to the class now. Returns true also if
  // only topics that begin with '$' may.
  bool MayTake(RetentionClassId id, const Filter& filter) const;
  // Returns the classes that topics may have moved into or out of since the rules `before`. These
  // take messages now and did not before, or the reverse, or are tried behind other filters.
  std::vector<RetentionClassId> ChangedSince(const RetentionRules& before) const;
  // Returns the numbers of all classes that users see.
  std::vector<RetentionClassId> ids() const;
  // Returns the number of the class of maps. It has no slab before the first map is written.
  RetentionClassId reserved() const { return reserved_; }
  // Returns a number that is greater than that of every class.
  RetentionClassId ids_end() const;
  // Returns the filter of a class. REQUIRES (FilterOf): Find(id) is not null, or id == reserved()
  const std::string& FilterOf(RetentionClassId id) const {
    return id == reserved() ? reserved_filter_ : Find(id)->filter.text();
  }
  // Returns the number of the class with this filter. Returns kNotFound, which names the classes
  // that exist, if there is none.
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
