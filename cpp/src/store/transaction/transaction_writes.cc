#include "store/transaction/transaction_writes.h"

#include <algorithm>

#include "commit/key_range.h"

namespace topicdb {

namespace {

constexpr std::size_t kPageRows = 1'000;
constexpr std::size_t kPageBytes = std::size_t{4} << 20;

// Returns whether the keys contain a write. A message whose time is assigned at commit is newer
// than any bound that was given before.
bool Touches(const KeyRange& keys, const TransactionWrites::Write& write) {
  const bool in_time = write.timestamp == kAssignTimestamp ? !keys.range.end.has_value()
                                                           : Contains(keys.range, write.timestamp);
  return in_time && keys.filter.Matches(write.topic);
}

bool IsSeen(const TransactionWrites::Write& write) {
  return !write.gone && !write.is_serial && write.timestamp != kAssignTimestamp;
}

}  // namespace

void TransactionWrites::Add(Write write) {
  bytes_ += write.topic.size() + write.value.size();
  if (write.timestamp != kAssignTimestamp) {
    const auto [item, is_new] =
        latest_.try_emplace(std::pair(write.timestamp, write.topic), writes_.size());
    if (!is_new) writes_[std::exchange(item->second, writes_.size())].gone = true;
  }
  writes_.push_back(std::move(write));
}

void TransactionWrites::Delete(KeyRange keys) {
  if (IsPoint(keys)) {
    auto [point, is_new] = point_deletes_.emplace(keys.range.start.value_or(0), keys.filter.text());
    const auto own = latest_.find(*point);
    if (own != latest_.end()) writes_[own->second].gone = true;
    if (!is_new) return;
  } else {
    wide_deletes_.push_back(deletes_.size());
    for (Write& write : writes_) {
      if (!write.gone && Touches(keys, write)) write.gone = true;
    }
  }
  bytes_ += keys.filter.text().size();
  deletes_.push_back(std::move(keys));
}

const TransactionWrites::Write* TransactionWrites::Find(std::string_view topic,
                                                        std::int64_t timestamp) const {
  const auto found = latest_.find(std::pair(timestamp, std::string(topic)));
  return found == latest_.end() || writes_[found->second].gone ? nullptr : &writes_[found->second];
}

bool TransactionWrites::IsDeleted(std::string_view topic, std::int64_t timestamp) const {
  if (point_deletes_.contains({timestamp, std::string(topic)})) return true;
  return std::any_of(wide_deletes_.begin(), wide_deletes_.end(), [&](std::size_t index) {
    const KeyRange& keys = deletes_[index];
    return Contains(keys.range, timestamp) && keys.filter.Matches(topic);
  });
}

std::vector<const TransactionWrites::Write*> TransactionWrites::FindAll(
    const KeyRange& keys) const {
  std::vector<const Write*> found;
  for (const Write& write : writes_) {
    if (IsSeen(write) && Touches(keys, write)) found.push_back(&write);
  }
  std::sort(found.begin(), found.end(), [](const Write* a, const Write* b) {
    return std::pair(a->timestamp, a) < std::pair(b->timestamp, b);  // as written, if at one time
  });
  return found;
}

OverlaySource::OverlaySource(std::unique_ptr<MergedSource> base, TransactionWrites own,
                             const KeyRange& keys, Replaces replaces)
    : base_(std::move(base)),
      own_(std::move(own)),
      own_rows_(own_.FindAll(keys)),
      replaces_(std::move(replaces)) {
  base_->NoteSlabs(&slabs_);
}

bool OverlaySource::IsDeletedOrReplaced(const MessageView& committed, const Slab& slab) const {
  if (own_.IsDeleted(committed.topic, committed.timestamp)) return true;
  if (!slab.layout().overwrites()) return false;
  const TransactionWrites::Write* own = own_.Find(committed.topic, committed.timestamp);
  return own != nullptr && !own->is_serial && replaces_(committed.topic);
}

Result<ReadOutcome> OverlaySource::FindBase(const ReadLimits& limits, bool with_serials) {
  while (true) {
    for (; row_ < page_.size(); ++row_) {
      if (!IsDeletedOrReplaced(page_.message(row_), *slabs_[row_])) return ReadOutcome::kExhausted;
    }
    if (base_exhausted_) return ReadOutcome::kExhausted;
    page_ = Batch(with_serials);
    slabs_.clear();
    row_ = 0;
    TOPICDB_ASSIGN_OR_RETURN(const ReadOutcome outcome,
                             base_->Read({kPageRows, kPageBytes, limits.examined_max}, &page_));
    base_exhausted_ = outcome == ReadOutcome::kExhausted;
    if (page_.empty() && !base_exhausted_) return ReadOutcome::kMore;
  }
}

Result<ReadOutcome> OverlaySource::Read(const ReadLimits& limits, Batch* out) {
  while (true) {
    TOPICDB_ASSIGN_OR_RETURN(const ReadOutcome outcome, FindBase(limits, out->keeps_serials()));
    if (outcome == ReadOutcome::kMore) return ReadOutcome::kMore;
    const bool has_base = row_ < page_.size();
    const bool has_own = next_own_ < own_rows_.size();
    if (!has_base && !has_own) return ReadOutcome::kExhausted;
    const bool take_base =
        has_base &&
        (!has_own || page_.timestamp(row_) <= own_rows_[next_own_]->timestamp);  // own come later
    MessageView message;
    if (take_base) {
      message = page_.message(row_);
    } else {
      const TransactionWrites::Write& own = *own_rows_[next_own_];
      message = {own.topic, own.timestamp, own.value};
    }
    const std::size_t bytes = message.topic.size() + message.value.size();
    if (!out->empty() &&
        (out->size() >= limits.rows_max || out->bytes() + bytes > limits.bytes_max ||
         !out->Fits(message.topic.size(), message.value.size()))) {
      return ReadOutcome::kMore;
    }
    out->Append(message, take_base ? page_.serial(row_) : kNoSerial);
    ++(take_base ? row_ : next_own_);
  }
}

}  // namespace topicdb
