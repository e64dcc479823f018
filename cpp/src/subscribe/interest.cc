#include "subscribe/interest.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include <xxhash.h>

namespace topicdb {

namespace {

// Each filter is read by a reader of its own, which decodes the pages that it needs. If there are
// more filters than this, it takes less to read everything once.
constexpr std::size_t kFiltersMax = 4;

bool CoversOne(const std::vector<Filter>& filters, const Filter& wanted) {
  return std::any_of(filters.begin(), filters.end(),
                     [&](const Filter& filter) { return filter.Covers(wanted); });
}

// Returns the filters of all interests, except those that another one covers.
std::vector<Filter> FiltersOf(const std::vector<SharedInterest>& interests) {
  std::vector<Filter> filters;
  for (const SharedInterest& interest : interests) {
    for (const Filter& wanted : interest->filters) {
      if (CoversOne(filters, wanted)) continue;
      std::erase_if(filters, [&](const Filter& filter) { return wanted.Covers(filter); });
      filters.push_back(wanted);
      if (filters.size() > kFiltersMax) return {Filter::Everything()};
    }
  }
  return filters;
}

bool IsBefore(const SharedInterest& a, const SharedInterest& b) { return a->number < b->number; }

std::vector<SharedInterest> Sorted(std::vector<SharedInterest> interests) {
  std::sort(interests.begin(), interests.end(), IsBefore);
  return interests;
}

}  // namespace

InterestSet::InterestSet(std::vector<SharedInterest> interests)
    : interests_(Sorted(std::move(interests))),
      filters_(FiltersOf(interests_)),
      timestamp_min_(std::numeric_limits<std::int64_t>::max()) {
  for (std::size_t i = 0; i < interests_.size(); ++i) {
    const Interest& interest = *interests_[i];
    timestamp_min_ = std::min(timestamp_min_, interest.timestamp_min);
    is_uniform_ &= WantsAllTopics(interest);
  }
  if (is_uniform_) return;
  for (std::size_t i = 0; i < interests_.size(); ++i) {
    for (const Filter& filter : interests_[i]->filters) {
      tree_.Add(filter, static_cast<std::uint32_t>(i));
    }
  }
}

bool InterestSet::Has(const Interest& interest) const {
  const auto found = std::partition_point(
      interests_.begin(), interests_.end(),
      [&](const SharedInterest& one) { return one->number < interest.number; });
  return found != interests_.end() && (*found)->number == interest.number;
}

std::vector<LogWant> InterestSet::LogWants() const {
  std::vector<LogWant> all;
  for (const SharedInterest& interest : interests_) {
    std::vector<LogWant> wants = interest->LogWants();
    all.insert(all.end(), std::make_move_iterator(wants.begin()),
               std::make_move_iterator(wants.end()));
  }
  return all;
}

std::string Wanted::Key() const {
  std::string key =
      std::to_string(timestamp_min) + " " + std::to_string(part) + "/" + std::to_string(parts);
  for (const Filter& filter : filters) key += '\0' + filter.text();  // no filter has a NUL
  return key;
}

bool Interest::IsInPart(std::string_view topic) const {
  return parts == 1 || XXH3_64bits(topic.data(), topic.size()) % parts == part;
}

bool InterestSet::WantsAllTopics(const Interest& interest) const {
  return interest.parts == 1 &&
         std::all_of(filters_.begin(), filters_.end(),
                     [&](const Filter& filter) { return interest.Covers(filter); });
}

bool InterestSet::Covers(const Interest& interest) const {
  return timestamp_min_ <= interest.timestamp_min &&
         std::all_of(interest.filters.begin(), interest.filters.end(),
                     [&](const Filter& filter) { return CoversOne(filters_, filter); });
}

std::vector<std::uint32_t> InterestSet::WhoWants(std::string_view topic) const {
  std::vector<std::uint32_t> who;
  tree_.Match(topic, &who);
  std::sort(who.begin(), who.end());
  who.erase(std::unique(who.begin(), who.end()), who.end());
  std::erase_if(who, [&](std::uint32_t i) { return !interests_[i]->IsInPart(topic); });
  return who;
}

bool InterestSet::ReadsLike(const InterestSet& other) const {
  return timestamp_min_ == other.timestamp_min_ &&
         std::equal(filters_.begin(), filters_.end(), other.filters_.begin(), other.filters_.end(),
                    [](const Filter& a, const Filter& b) { return a.text() == b.text(); });
}

}  // namespace topicdb
