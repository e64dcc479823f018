// Finds generations that keep no log where somebody reads the log.
//
// A database may have generations of several layouts, and some layouts keep no order of commits. A
// reader of the log would go past the messages of such a generation without a word. So it stops
// before the first one that may hold messages that it wants.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "store/view/shard_view.h"
#include "topicdb/status.h"
#include "topicdb/topic.h"
#include "topicdb/types/numbers.h"
#include "topicdb/types/ranges.h"

namespace topicdb {

// Messages that a reader of the log wants: those that match the filter, in a range of times.
struct LogWant {
  Filter filter;
  TimeRange range;
};
// Returns what a reader wants that wants all of these topics in one range.
std::vector<LogWant> WantsOf(const std::vector<Filter>& filters, const TimeRange& range);

// A generation without a log. A reader can be given everything that was committed before the commit
// `first`. From that commit on, messages may be missing in the log.
struct LogGap {
  SlabId slab;
  Serial first;
  bool operator==(const LogGap&) const = default;
};

// Tells whether a reader was given all that it wants of a slab in another way than from the log.
using IsGiven = std::function<bool(const Slab&)>;

// Finds the gaps for a reader, or for several that read together. It remembers which streams none
// of them wants, so that it looks at each stream once. Its owner is a reader, or several share it.
// Not thread-safe.
class LogGaps {
 public:
  explicit LogGaps(std::vector<LogWant> wants) : wants_(std::move(wants)) {}

  // Returns the first gap from the commit `from` on that may hold wanted messages, or nothing if
  // there is none. Leaves out the slab of reserved topics, which readers of the log never get, and
  // slabs for which is_given(slab) returns true.
  std::optional<LogGap> FindWanted(const ShardView& view, Serial from,
                                   const IsGiven& is_given = nullptr);
  // Returns the first gap from the commit `from` on that has any messages.
  static std::optional<LogGap> FindAny(const ShardView& view, Serial from);

 private:
  // Returns whether the slab may hold wanted messages.
  bool MayWant(const Slab& slab);

  const std::vector<LogWant> wants_;
  std::map<SlabId, StreamId> unwanted_;  // of each slab, nobody wants streams up to this one
};

// Returns an upper bound of the commits that have messages of a slab which the view has.
Serial LastCommitOf(const ShardView& view, const Slab& slab);
// Returns whether a slab that the view has may have messages of commits after `after`, up to and
// including `until`.
bool MayHaveCommits(const ShardView& view, const Slab& slab, Serial after, Serial until);

// Returns kSchema, which says that this generation keeps no log.
Status NoLog(const ShardView& view, const SlabId& slab);

// Checks whether somebody may begin to read the log of a shard at the commit `from`, up to the
// commit `until`. Returns kSchema, which names a generation without a log, if `from` is in one that
// may hold wanted messages, or in one that takes messages now and whose class may have wanted
// topics. It is no error if such a generation begins after `from`: the reader gets what comes
// before it. Messages in slabs for which is_given(slab) returns true are not wanted.
Status CheckLogFrom(const ShardView& view, const RetentionRules& rules,
                    const std::vector<LogWant>& wants, Serial from, Serial until,
                    const IsGiven& is_given = nullptr);

}  // namespace topicdb
