// What iterators have given, for readers of the commit log that leave it out.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/catalog/meta.h"
#include "store/database/database_impl.h"
#include "store/read/log_gaps.h"
#include "store/read/stream_plan.h"
#include "topicdb/types/iterator.h"
#include "topicdb/types/numbers.h"

namespace topicdb {

// Knows what the iterators of one shard have given or passed over: in each stream, what stands up
// to its position, of the commits that the iterator had seen. Generations that are older than those
// of all iterators of their class were read before, so they count as given, too.
//
// The readers of the log of the shard share it, from the moment when they begin. It is immutable,
// so any thread may use it.
class GivenReads {
 public:
  // Makes an object of the iterators of this shard, of which there is at least one. Returns
  // kInvalidArgument if the view is older than what they have seen, and kNotFound if they stand in
  // no stream, or in a generation that keep_last has merged. Returns kSchema if one has messages to
  // give in a generation without a log: nobody can tell what the log has behind it.
  static Result<std::shared_ptr<const GivenReads>> Make(const ShardMoment& moment,
                                                        const RetentionRules& rules,
                                                        const std::vector<Iterator>& iterators);

  // Returns the last commit of which the iterators have given something.
  Serial seen() const { return seen_; }
  // Returns the commit up to which each of the iterators knew which generations were dropped.
  Serial counted() const { return counted_; }
  // Returns kNotFound if keep_last has merged a generation in which an iterator stands. What it has
  // kept is in another slab, and nobody can tell what of it was given.
  Status Check(const ShardView& view) const;

  // Returns whether the iterators have given everything that a reader of these filters wants of a
  // slab which the view has.
  bool GaveAll(const ShardView& view, const Slab& slab, const std::vector<Filter>& filters) const;

  // Streams that are read together: all of them, if `streams` is absent.
  struct Part {
    std::optional<std::vector<StreamId>> streams;
    std::vector<RowMask> masks;  // hide what was given
  };
  // Divides streams of a slab, of which a reader wants what matches the filter. Leaves out streams
  // of which everything was given.
  std::vector<Part> Divide(const Slab& slab, const Filter& filter,
                           std::optional<std::vector<StreamId>> streams) const;
  // Works as CountLost does (drop_summary.h), without what was given. `may_be_many` says that the
  // record stands for several drops.
  std::uint64_t CountLost(const meta::DropRecord& drop, const std::vector<Filter>& filters,
                          std::int64_t timestamp_min, Serial from_serial, bool may_be_many) const;
  // Returns kNotFound if one of these drops was of a generation in which an iterator stands, and
  // had messages for a reader.
  Status CheckNotLost(const std::vector<meta::DropRecord>& drops,
                      const std::vector<Filter>& filters) const;

 private:
  // An iterator, and its filter.
  struct Read {
    Iterator iterator;
    Filter filter;

    // Adds masks that hide what it has given of its stream.
    void AddMasks(std::vector<RowMask>* masks) const;
    // Returns whether it has given all messages of its stream that a reader of these filters wants,
    // as far as it had seen them.
    bool GaveAll(const std::vector<Filter>& filters) const;
  };
  // The iterators of one class.
  struct ReadsOfClass {
    std::string filter;  // of the class
    Generation oldest;   // in which one of the iterators stands
    std::vector<Read> reads;

    bool StandsIn(Generation generation) const;
    // Returns whether an iterator wanted everything that a reader of this filter wants.
    bool Covers(const Filter& filter) const;
    // Returns whether that is so for each of the filters.
    bool CoverAll(const std::vector<Filter>& filters) const;
    // Returns whether an iterator has given everything that a reader of this filter wants of a
    // stream, up to the commit `last`.
    bool GaveStream(Generation generation, StreamId stream, const Filter& filter,
                    Serial last) const;
  };

  GivenReads() = default;
  const ReadsOfClass* FindClass(const std::string& filter) const;

  std::uint32_t shard_ = 0;
  std::map<RetentionClassId, ReadsOfClass> classes_;
  Serial seen_;
  Serial counted_ = kLastSerial;
  Serial began_;  // the last commit when this was made
};

// Works as CheckLogFrom does (log_gaps.h), for a reader that leaves out what was `given` unless
// that is null. Such a reader also begins behind what the iterators had seen.
Status CheckLogBehind(const ShardView& view, const RetentionRules& rules,
                      const std::vector<LogWant>& wants, Serial from, Serial until,
                      const GivenReads* given);

using GivenByShard = std::map<std::uint32_t, std::shared_ptr<const GivenReads>>;

// Returns what the iterators have given, by shard. Returns what GivenReads::Make does, and
// kNotFound for an iterator of another database, or of a shard that is not open. REQUIRES: as for
// DatabaseImpl::shards
Result<GivenByShard> GivenOf(const DatabaseImpl& database, const std::vector<Iterator>& iterators);

}  // namespace topicdb
