#include "store/catalog/retention_class.h"

#include <algorithm>
#include <chrono>

namespace topicdb {

namespace {

constexpr std::string_view kEverythingElse = "#";

Result<Filter> ParseFilter(const RetentionClass& given) {
  Result<Filter> filter = Filter::Parse(given.filter);
  if (filter.ok()) return filter;
  return SchemaFault("retention: " + filter.status().message());
}

Status CheckLimits(const RetentionClass& given) {
  if (given.age < given.age.zero()) {
    return SchemaFault("retention: the age of '" + given.filter + "' is negative");
  }
  if (given.rotation_period < given.rotation_period.zero()) {
    return SchemaFault("retention: the time after which '" + given.filter +
                       "' rotates is negative");
  }
  return Status::Ok();
}

// Parses classes, which are in the order in which they are tried, and adds the implicit one.
// Numbers them from 0.
Result<std::vector<RetentionRule>> ParseClasses(const std::vector<RetentionClass>& classes) {
  std::vector<RetentionRule> rules;
  const auto add = [&](const RetentionClass& given, Filter filter) {
    const RetentionClassId id{static_cast<std::uint32_t>(rules.size())};
    rules.push_back({id, given, std::move(filter)});
  };
  for (const RetentionClass& given : classes) {
    TOPICDB_ASSIGN_OR_RETURN(Filter filter, ParseFilter(given));
    if (!rules.empty() && rules.back().limits.filter == kEverythingElse) {
      return SchemaFault("retention: '" + given.filter +
                         "' can match nothing after '#'; put '#' last");
    }
    for (const RetentionRule& earlier : rules) {
      if (earlier.limits.filter == given.filter) {
        return SchemaFault("retention: filter '" + given.filter + "' is given twice");
      }
    }
    TOPICDB_RETURN_IF_ERROR(CheckLimits(given));
    add(given, std::move(filter));
  }
  if (rules.empty() || rules.back().limits.filter != kEverythingElse) {
    const RetentionClass rest{std::string(kEverythingElse)};
    TOPICDB_ASSIGN_OR_RETURN(Filter filter, ParseFilter(rest));
    add(rest, std::move(filter));
  }
  return rules;
}

bool IsImplicit(const RetentionClass& limits) {
  RetentionClass implicit;
  implicit.filter = kEverythingElse;
  return limits == implicit;
}

constexpr std::chrono::microseconds kNone{0};

// Returns the larger of two limits, of which kNone stands for no limit.
std::chrono::microseconds Laxer(std::chrono::microseconds a, std::chrono::microseconds b) {
  return a == kNone || b == kNone ? kNone : std::max(a, b);
}

}  // namespace

bool HasOnlyKeepLast(const RetentionClass& limits) {
  return limits.keep_last > 0 && limits.age == kNone && limits.bytes_max == 0;
}

bool AreSameClasses(std::vector<RetentionClass> a, std::vector<RetentionClass> b) {
  for (std::vector<RetentionClass>* classes : {&a, &b}) {
    if (!classes->empty() && IsImplicit(classes->back())) classes->pop_back();
  }
  return a == b;
}

Status CheckReachable(const std::vector<RetentionClass>& classes) {
  TOPICDB_ASSIGN_OR_RETURN(const std::vector<RetentionRule> rules, ParseClasses(classes));
  for (auto later = rules.begin(); later != rules.end(); ++later) {
    const auto covers = std::find_if(rules.begin(), later, [&](const RetentionRule& earlier) {
      return earlier.filter.Covers(later->filter);
    });
    if (covers == later || later->limits.filter == kEverythingElse) continue;
    return SchemaFault("retention: '" + covers->limits.filter + "' takes every topic of '" +
                       later->limits.filter + "'; put '" + later->limits.filter + "' before it");
  }
  return Status::Ok();
}

Result<RetentionRules> RetentionRules::Make(const std::vector<RetentionClass>& classes) {
  RetentionRules rules;
  TOPICDB_ASSIGN_OR_RETURN(rules.live_, ParseClasses(classes));
  rules.last_is_implicit_ = rules.live_.size() > classes.size();
  rules.reserved_ = RetentionClassId{static_cast<std::uint32_t>(rules.live_.size())};
  return rules;
}

Result<RetentionRules> RetentionRules::With(const std::vector<RetentionClass>& classes) const {
  TOPICDB_RETURN_IF_ERROR(CheckReachable(classes));
  RetentionRules rules;
  TOPICDB_ASSIGN_OR_RETURN(rules.live_, ParseClasses(classes));
  rules.last_is_implicit_ = rules.live_.size() > classes.size();
  rules.version_ = version_ + 1;
  rules.reserved_ = reserved_;
  RetentionClassId next = ids_end();
  for (RetentionRule& rule : rules.live_) {
    const Result<RetentionClassId> known = IndexOf(rule.limits.filter);
    rule.id = known.ok() ? *known : next;
    if (!known.ok()) ++next;
  }
  for (const std::vector<RetentionRule>* before : {&live_, &retired_}) {
    for (const RetentionRule& rule : *before) {
      if (!rules.IndexOf(rule.limits.filter).ok()) rules.retired_.push_back(rule);
    }
  }
  rules.LimitRetired();
  return rules;
}

Result<RetentionRules> RetentionRules::Restore(std::uint64_t version, RetentionClassId reserved,
                                               const std::vector<RetentionRule>& live,
                                               const std::vector<RetentionRule>& retired) {
  std::vector<RetentionClass> classes;
  for (const RetentionRule& rule : live) classes.push_back(rule.limits);
  RetentionRules rules;
  TOPICDB_ASSIGN_OR_RETURN(rules.live_, ParseClasses(classes));
  if (rules.live_.size() != live.size()) return Corruption("retention: the class '#' is missing");
  for (std::size_t i = 0; i < live.size(); ++i) rules.live_[i].id = live[i].id;
  for (RetentionRule rule : retired) {
    TOPICDB_ASSIGN_OR_RETURN(rule.filter, ParseFilter(rule.limits));
    rules.retired_.push_back(std::move(rule));
  }
  rules.last_is_implicit_ = IsImplicit(rules.live_.back().limits);
  rules.version_ = version;
  rules.reserved_ = reserved;
  std::vector<RetentionClassId> ids = rules.ids();
  ids.push_back(reserved);
  std::sort(ids.begin(), ids.end());
  const bool has_gap = ids.back().value() != ids.size() - 1;
  if (std::adjacent_find(ids.begin(), ids.end()) != ids.end() || has_gap) {
    return Corruption("retention: the numbers of its classes cannot be");
  }
  return rules;
}

void RetentionRules::LimitRetired() {
  for (RetentionRule& rule : retired_) {
    RetentionClass limits;
    bool has_age = false;
    for (const RetentionRule& now : live_) {
      const bool is_last = &now == &live_.back();  // it takes topics that its filter does not match
      if (!is_last && !now.filter.Intersects(rule.filter)) continue;
      const std::chrono::microseconds age = now.limits.age;
      if (!HasOnlyKeepLast(now.limits)) {
        limits.age = has_age ? Laxer(limits.age, age) : age;
        has_age = true;
      }
      limits.keep_last = std::max(limits.keep_last, now.limits.keep_last);
      if (now.filter.Covers(rule.filter)) break;  // no topic goes on to later ones
    }
    if (has_age && limits.age == kNone) limits.keep_last = 0;  // all is kept
    limits.filter = rule.limits.filter;
    if (limits.age != kNone || limits.keep_last > 0) {
      limits.rotation_period = rule.limits.rotation_period;
    }
    rule.limits = limits;
  }
}

std::vector<RetentionClass> RetentionRules::classes() const {
  std::vector<RetentionClass> classes;
  for (const RetentionRule& rule : live_) classes.push_back(rule.limits);
  if (last_is_implicit_) classes.pop_back();
  return classes;
}

const RetentionRule* RetentionRules::Find(RetentionClassId id) const {
  for (const std::vector<RetentionRule>* rules : {&live_, &retired_}) {
    for (const RetentionRule& rule : *rules) {
      if (rule.id == id) return &rule;
    }
  }
  return nullptr;
}

RetentionClassId RetentionRules::ClassOf(std::string_view topic) const {
  if (IsReservedTopic(topic)) return reserved();
  for (const RetentionRule& rule : live_) {
    if (rule.filter.Matches(topic)) return rule.id;
  }
  return live_.back().id;
}

std::vector<RetentionClassId> RetentionRules::ClassesWith(std::string_view topic) const {
  std::vector<RetentionClassId> classes{ClassOf(topic)};
  if (version_ == 0 || IsReservedTopic(topic)) return classes;
  for (const RetentionClassId id : ids()) {
    if (id == classes.front()) continue;
    const RetentionRule& rule = *Find(id);
    if (rule.limits.filter == kEverythingElse || rule.filter.Matches(topic)) classes.push_back(id);
  }
  return classes;
}

bool RetentionRules::MayTake(RetentionClassId id, const Filter& filter) const {
  for (const RetentionRule& rule : live_) {
    if (rule.id == id) return &rule == &live_.back() || rule.filter.Intersects(filter);
    if (rule.filter.Covers(filter)) return false;  // no topic goes on to later ones
  }
  return false;
}

std::optional<std::set<std::string>> RetentionRules::TakersFrom(RetentionClassId id) const {
  std::set<std::string> takers;
  for (const RetentionRule& rule : live_) {
    if (rule.id != id) continue;
    const bool takes_rest = &rule == &live_.back();  // also topics that its filter does not match
    for (const RetentionRule& earlier : live_) {
      if (&earlier == &rule) return takers;
      if (takes_rest || earlier.filter.Intersects(rule.filter)) {
        takers.insert(earlier.limits.filter);
      }
    }
  }
  return std::nullopt;
}

std::vector<RetentionClassId> RetentionRules::ChangedSince(const RetentionRules& before) const {
  std::vector<RetentionClassId> changed;
  for (const RetentionClassId id : ids()) {
    if (TakersFrom(id) != before.TakersFrom(id)) changed.push_back(id);
  }
  return changed;
}

std::vector<RetentionClassId> RetentionRules::ids() const {
  std::vector<RetentionClassId> ids;
  for (const RetentionRule& rule : live_) ids.push_back(rule.id);
  for (const RetentionRule& rule : retired_) ids.push_back(rule.id);
  return ids;
}

RetentionClassId RetentionRules::ids_end() const {
  RetentionClassId last = reserved_;
  for (const RetentionClassId id : ids()) last = std::max(last, id);
  return last.Next();
}

Result<RetentionClassId> RetentionRules::IndexOf(const std::string& filter) const {
  std::string known;
  for (const std::vector<RetentionRule>* rules : {&live_, &retired_}) {
    for (const RetentionRule& rule : *rules) {
      if (rule.limits.filter == filter) return rule.id;
      known += (known.empty() ? "'" : ", '") + rule.limits.filter + "'";
    }
  }
  return NotFound("there is no retention class '" + filter + "'; there are " + known);
}

}  // namespace topicdb
