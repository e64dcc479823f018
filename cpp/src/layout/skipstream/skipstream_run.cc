#include "layout/skipstream/skipstream_run.h"

#include <utility>

#include "layout/skipstream/skipstream_keys.h"
#include "rocks/rocks_compat.h"

namespace topicdb::skipstream {

KeyRun::KeyRun(const RocksSource& source, std::string prefix, const TimeRange& range,
               std::uint32_t timestamp_bytes)
    : prefix_(std::move(prefix)), lower_(prefix_), upper_(prefix_) {
  AppendTime(&lower_, range.start.value_or(0), timestamp_bytes);
  if (range.end.has_value() && timestamp_bytes != 0) {
    AppendTime(&upper_, *range.end, timestamp_bytes);
  } else {
    upper_.push_back('\xff');  // above any time (< 2^63) and any UTF-8
  }
  lower_slice_ = lower_;
  upper_slice_ = upper_;
  rocksdb::ReadOptions options;
  options.snapshot = source.snapshot;
  options.iterate_lower_bound = &lower_slice_;
  options.iterate_upper_bound = &upper_slice_;
  iterator_.reset(source.db->NewIterator(options, source.families.main));
}

Status KeyRun::status() const { return rocks::FromRocks(iterator_->status(), "reading messages"); }

void KeyRun::Seek(std::string_view suffix, std::string* scratch) {
  scratch->assign(prefix_);
  scratch->append(suffix);
  iterator_->Seek(*scratch);
}

void KeyRun::AdvanceTo(std::string_view suffix, std::string* scratch) {
  if (!Valid() || Suffix() >= suffix) return;
  iterator_->Next();  // often the next key is the right one, and a step is much cheaper than a seek
  if (Valid() && Suffix() < suffix) Seek(suffix, scratch);
}

}  // namespace topicdb::skipstream
