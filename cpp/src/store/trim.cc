// Removing old messages (Database::Trim).
#include <algorithm>

#include "store/database/database_impl.h"
#include "topicdb/database.h"

namespace topicdb {

namespace {

// Counts the messages in `keys`, leaving out the slabs `without`.
Result<std::uint64_t> CountIn(const Database& database, const KeyRange& keys,
                              const std::vector<SlabInfo>& without,
                              const InterruptCheck& interrupted) {
  SliceOptions options;
  options.range = keys.range;
  TOPICDB_ASSIGN_OR_RETURN(std::vector<Slice> slices, database.Slices({keys.filter}, options));
  std::erase_if(slices, [&](const Slice& slice) {
    return std::any_of(without.begin(), without.end(),
                       [&](const SlabInfo& slab) { return slab.id == slice.slab; });
  });
  TOPICDB_ASSIGN_OR_RETURN(const auto scan,
                           database.NewScan({keys.filter}, slices, /*with_values=*/false));
  std::uint64_t messages = 0;
  while (true) {
    TOPICDB_ASSIGN_OR_RETURN(const auto batch, scan->Next(PageLimits(), interrupted));
    if (batch == nullptr) return messages;
    messages += batch->size();
  }
}

}  // namespace

// Trim does not hold lifecycle() itself, but each call in it does. So Close waits for one of these
// calls only.
Result<TrimCount> Database::Trim(std::int64_t before, const std::optional<Filter>& filter,
                                 bool dry_run, const InterruptCheck& interrupted) {
  TOPICDB_RETURN_IF_ERROR(impl_->shards().CheckMayWrite());
  // '#' and not Filter::Everything(): what a program keeps below a topic that begins with '$' goes
  // only when its filter is named.
  TOPICDB_ASSIGN_OR_RETURN(const Filter all, Filter::Parse("#"));
  const KeyRange rest{filter.value_or(all), {{}, before}};
  {
    TOPICDB_ENTER(impl_);  // not all of a trim is done while a shard is missing, so none is begun
    TOPICDB_RETURN_IF_ERROR(impl_->shards().CheckMayChange({rest.filter}).WithContext("trim"));
  }
  TrimCount count;
  if (!filter.has_value()) {
    TOPICDB_ASSIGN_OR_RETURN(const std::vector<SlabInfo> slabs, upkeep_.Slabs());
    const auto rules = impl_->environment().rules();
    for (const SlabInfo& slab : slabs) {
      const bool is_old = slab.last_timestamp.has_value() && *slab.last_timestamp < before;
      if (!is_old || !slab.read_only || rules->Find(slab.id.retention_class) == nullptr) continue;
      if (!dry_run) {
        TOPICDB_RETURN_IF_ERROR(
            upkeep_.DropSlab(slab.id.shard, slab.retention_class, slab.id.generation));
      }
      count.slabs.push_back(slab);
    }
  }
  if (dry_run) {
    TOPICDB_ASSIGN_OR_RETURN(count.messages, CountIn(*this, rest, count.slabs, interrupted));
  } else {
    TOPICDB_ASSIGN_OR_RETURN(const Receipt receipt, Delete(rest.filter, rest.range));
    count.messages = receipt.count;
  }
  return count;
}

}  // namespace topicdb
