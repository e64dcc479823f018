#include "commit/conflict_memory.h"

#include <algorithm>

#include "commit/key_range.h"

namespace topicdb {

namespace {

// Returns the text with which all topics that match the filter begin.
std::string LiteralPrefix(const Filter& filter) {
  std::string prefix;
  for (std::size_t i = 0; i < filter.levels().size(); ++i) {
    const Filter::Level& level = filter.levels()[i];
    if (level.kind != Filter::LevelKind::kWord) return prefix;
    if (i > 0) prefix += '/';
    prefix += level.word;
    if (i + 1 < filter.levels().size() && filter.levels()[i + 1].kind == Filter::LevelKind::kPlus) {
      prefix += '/';
    }
  }
  return prefix;  // "a/#" matches "a" too, so no slash behind it
}

}  // namespace

void ConflictMemory::CountEntry(Serial serial) {
  current_.last_serial = serial;
  ++current_.entries;
  if (current_.entries >= entries_max_ / 2) Age();
}

void ConflictMemory::RecordWrite(std::string_view topic, std::int64_t timestamp, Serial serial) {
  auto found = current_.writes.find(topic);
  if (found == current_.writes.end()) found = current_.writes.try_emplace(std::string(topic)).first;
  found->second.push_back({timestamp, serial});
  CountEntry(serial);
}

void ConflictMemory::RecordDelete(const KeyRange& keys, Serial serial) {
  if (IsPoint(keys)) return RecordWrite(keys.filter.text(), *keys.range.end - 1, serial);
  current_.deletes.push_back({keys, serial});
  CountEntry(serial);
}

void ConflictMemory::Age() {
  forgotten_ = std::max(forgotten_, old_.last_serial);
  old_ = std::move(current_);
  current_ = {};
}

void ConflictMemory::Clear(Serial serial) {
  forgotten_ = std::max(forgotten_, serial);
  if (old_.entries > 0) old_ = {};
  if (current_.entries > 0) current_ = {};
}

Serial ConflictMemory::FindIn(const Half& half, const KeyRange& keys, Serial serial) {
  Serial found;
  if (half.last_serial <= serial) return found;
  const auto look_at = [&](const std::vector<Write>& writes) {
    for (auto write = writes.rbegin(); write != writes.rend() && write->serial > serial; ++write) {
      if (Contains(keys.range, write->timestamp)) found = std::max(found, write->serial);
    }
  };
  if (keys.filter.is_topic()) {
    const auto writes = half.writes.find(keys.filter.text());
    if (writes != half.writes.end()) look_at(writes->second);
  } else {
    const std::string prefix = LiteralPrefix(keys.filter);
    for (auto item = half.writes.lower_bound(prefix);
         item != half.writes.end() && item->first.starts_with(prefix); ++item) {
      if (keys.filter.Matches(item->first)) look_at(item->second);
    }
  }
  for (const Delete& deletion : half.deletes) {
    if (deletion.serial > serial && Intersects(deletion.keys.range, keys.range) &&
        deletion.keys.filter.Intersects(keys.filter)) {
      found = std::max(found, deletion.serial);
    }
  }
  return found;
}

Serial ConflictMemory::FindChange(const KeyRange& keys, Serial serial) const {
  return std::max(FindIn(old_, keys, serial), FindIn(current_, keys, serial));
}

}  // namespace topicdb
