// Which retention class a topic belongs to, and what becomes of its messages.
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

namespace topicdb {

// A class as it is kept. Its number is in the names of its slabs, and never changes.
struct RetentionRule {
  std::uint32_t id = 0;
  RetentionClass limits;
  Filter filter;
};

// Whether nothing but keep_last says what goes: all else is kept no longer than it is written to.
bool HasOnlyKeepLast(const RetentionClass& limits);

// Whether they mean the same, with the implicit last one or without.
bool AreSameClasses(std::vector<RetentionClass> a, std::vector<RetentionClass> b);

// kSchema if a filter can match nothing since an earlier one takes all of its topics.
Status CheckReachable(const std::vector<RetentionClass>& classes);

// Immutable; may be used from many threads.
//
// A class that is not wanted any more stays as a retired one: no topic belongs to it, what it has
// is kept for as long as any class that its topics may belong to now, and if its filter comes back
// it is that class again.
class RetentionRules {
 public:
  // Those of a new database. kSchema for a malformed filter, one given twice, or one that an
  // earlier one leaves nothing to; for limits that are negative.
  static Result<RetentionRules> Make(const std::vector<RetentionClass>& classes);
  // Those that follow when the classes are to be others.
  Result<RetentionRules> With(const std::vector<RetentionClass>& classes) const;
  // As stored (retention_file.h). kSchema as above, kCorruption if the numbers cannot be.
  static Result<RetentionRules> Restore(std::uint64_t version, std::uint32_t reserved,
                                        const std::vector<RetentionRule>& live,
                                        const std::vector<RetentionRule>& retired);

  // Grows with each change, from 0.
  std::uint64_t version() const { return version_; }
  // The classes that were asked for.
  std::vector<RetentionClass> classes() const;
  // In the order they are tried; the last one is "#".
  const std::vector<RetentionRule>& live() const { return live_; }
  const std::vector<RetentionRule>& retired() const { return retired_; }
  // Both; nullptr if there is none of this number.
  const RetentionRule* Find(std::uint32_t id) const;

  // Number of the first class whose filter matches; the last class takes every topic, "$…" too.
  // That of topics that are TopicDB's own (IsReservedTopic) is reserved().
  std::uint32_t ClassOf(std::string_view topic) const;
  // That, and classes that had the topic before the rules were changed.
  std::vector<std::uint32_t> ClassesWith(std::string_view topic) const;
  // Classes that topics may have come into or left since those rules: those that take messages now
  // and did not before, or the other way round, or that are tried behind other filters.
  std::vector<std::uint32_t> ChangedSince(const RetentionRules& before) const;
  // Of all classes that users see.
  std::vector<std::uint32_t> ids() const;
  // The class of maps. It has no slab before the first of them is written.
  std::uint32_t reserved() const { return reserved_; }
  // Every number is less.
  std::uint32_t ids_end() const;
  // REQUIRES: Find(id) or id == reserved()
  const std::string& FilterOf(std::uint32_t id) const {
    return id == reserved() ? reserved_filter_ : Find(id)->filter.text();
  }
  // kNotFound, naming the classes there are.
  Result<std::uint32_t> IndexOf(const std::string& filter) const;

 private:
  RetentionRules() = default;
  // Filters of the live classes that may take topics from this one; absent: it is not live.
  std::optional<std::set<std::string>> TakersFrom(std::uint32_t id) const;
  // Sets what retired classes keep.
  void LimitRetired();

  std::uint64_t version_ = 0;
  bool last_is_implicit_ = false;
  std::vector<RetentionRule> live_;
  std::vector<RetentionRule> retired_;
  std::uint32_t reserved_ = 0;
  std::string reserved_filter_ = std::string(kReservedPrefix) + "#";
};

}  // namespace topicdb
