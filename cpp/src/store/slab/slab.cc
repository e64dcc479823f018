#include "store/slab/slab.h"

#include <algorithm>
#include <limits>

#include "store/catalog/family_names.h"

namespace topicdb {

Slab::Slab(const SlabId& id, const meta::SlabRecord& record, std::shared_ptr<FamilyHandle> family,
           std::shared_ptr<FamilyHandle> pages, StructureTrie trie,
           const meta::SlabCounters& counters)
    : id_(id),
      record_(record),
      begun_at_(record.begun_at),
      family_(std::move(family)),
      pages_(std::move(pages)),
      layout_(MakeLayout(record.layout, record.timestamp_bytes)),
      trie_(std::move(trie)),
      counters_(counters) {}

Result<std::shared_ptr<Slab>> Slab::Make(const SlabId& id, const meta::SlabRecord& record,
                                         FamiliesByName* families, StructureTrie trie,
                                         const meta::SlabCounters& counters) {
  std::vector<std::shared_ptr<FamilyHandle>> own;
  for (const std::string& name : FamilyNames(record.layout, id)) {
    auto family = families->extract(name);
    if (family.empty()) return Corruption("the column family '" + name + "' is missing");
    own.push_back(std::move(family.mapped()));
  }
  auto pages = own.size() > 1 ? std::move(own.back()) : nullptr;
  return std::make_shared<Slab>(id, record, std::move(own.front()), std::move(pages),
                                std::move(trie), counters);
}

void ReadCounters::Add(const ReadCounters& other) {
  blocks += other.blocks;
  blocks_skipped_by_time += other.blocks_skipped_by_time;
  blocks_skipped_by_stream += other.blocks_skipped_by_stream;
  blocks_skipped_by_word += other.blocks_skipped_by_word;
  pages += other.pages;
  pages_skipped_by_time += other.pages_skipped_by_time;
  pages_skipped_by_topic += other.pages_skipped_by_topic;
  pages_read += other.pages_read;
  bytes_read += other.bytes_read;
  rows_examined += other.rows_examined;
  rows_matched += other.rows_matched;
  rows_spilled += other.rows_spilled;
  bytes_spilled += other.bytes_spilled;
}

void Slab::AddReads(const ReadCounters& counters) const {
  const MutexLock lock(reads_mutex_);
  reads_.Add(counters);
}

ReadCounters Slab::reads() const {
  const MutexLock lock(reads_mutex_);
  return reads_;
}

void Slab::ApplyCommit(const StructureEdit& edit, const meta::SlabCounters& counters) {
  const WriterLock lock(mutex_);
  if (!edit.nodes().empty()) trie_.Apply(edit);
  counters_ = counters;
}

Status Slab::TakeRecords(const std::vector<NodeRecord>& nodes,
                         const std::optional<meta::SlabCounters>& counters) {
  const WriterLock lock(mutex_);
  for (const NodeRecord& node : nodes) TOPICDB_RETURN_IF_ERROR(trie_.Restore(node));
  if (counters.has_value()) counters_ = *counters;
  return Status::Ok();
}

bool Slab::MayHold(const TimeRange& range) const {
  const ReaderLock lock(mutex_);
  if (counters_.messages == 0) return false;
  if (range.start.has_value() && counters_.last_timestamp < *range.start) return false;
  return !range.end.has_value() || counters_.first_timestamp < *range.end;
}

std::int64_t Slab::FirstTimestamp() const {
  const ReaderLock lock(mutex_);
  return counters_.first_timestamp;
}

std::int64_t Slab::LastTimestamp() const {
  const ReaderLock lock(mutex_);
  return counters_.last_timestamp;
}

std::vector<std::pair<Structure, StreamId>> Slab::Match(const Filter& filter) const {
  std::vector<std::pair<std::string, std::pair<Structure, StreamId>>> found;
  {
    const ReaderLock lock(mutex_);
    trie_.Match(filter, [&](StreamId stream) TOPICDB_NO_THREAD_SAFETY_ANALYSIS {
      Structure structure = trie_.StructureOf(stream);
      std::string text = structure.Text();
      found.emplace_back(std::move(text), std::pair(std::move(structure), stream));
    });
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::pair<Structure, StreamId>> result;
  result.reserve(found.size());
  for (auto& item : found) result.push_back(std::move(item.second));
  return result;
}

std::vector<StreamId> Slab::MatchIds(const Filter& filter) const {
  std::vector<StreamId> streams;
  {
    const ReaderLock lock(mutex_);
    trie_.Match(filter, [&](StreamId stream) { streams.push_back(stream); });
  }
  std::sort(streams.begin(), streams.end());
  return streams;
}

StreamId Slab::LastStreamMax() const {
  const ReaderLock lock(mutex_);
  return StreamId{trie_.last_node()};
}

StreamId Slab::FindStream(std::string_view topic, std::vector<std::string_view>* varying) const {
  const ReaderLock lock(mutex_);
  return trie_.Find(topic, varying);
}

std::optional<Structure> Slab::StructureOf(StreamId stream) const {
  const ReaderLock lock(mutex_);
  if (!trie_.IsStream(stream)) return std::nullopt;
  return trie_.StructureOf(stream);
}

SlabInfo Slab::Info(const std::string& retention_class) const {
  SlabInfo info;
  info.id = id_;
  info.retention_class = retention_class;
  info.layout = record_.layout;
  info.keep_last = record_.keep_last;
  const ReaderLock lock(mutex_);
  info.messages = counters_.messages;
  info.bytes = counters_.bytes;
  info.streams = trie_.stream_count();
  if (counters_.messages > 0) {
    info.first_timestamp = counters_.first_timestamp;
    info.last_timestamp = counters_.last_timestamp;
  }
  return info;
}

std::size_t Slab::structure_bytes() const {
  const ReaderLock lock(mutex_);
  return trie_.memory_bytes();
}

}  // namespace topicdb
