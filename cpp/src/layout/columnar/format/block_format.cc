#include "layout/columnar/format/block_format.h"

#include <algorithm>
#include <limits>

#include "base/bytes/checked_record.h"
#include "base/bytes/coding.h"

namespace topicdb::columnar {

namespace {

constexpr std::uint8_t kRecordVersion = 1;
// Only entries have these versions.
constexpr std::uint8_t kStagedVersion = 2;  // as version 1, but for a staged block
constexpr std::uint8_t kLevelVersion = 3;   // for a level above 0, which the entry has in addition
constexpr std::uint8_t kApartVersion = 4;   // for pages whose keys and values are apart

// The flags of an entry of kApartVersion.
constexpr std::uint8_t kStagedFlag = 1;

std::uint8_t VersionOf(const BlockEntry& entry) {
  if (entry.form == PageForm::kApart) return kApartVersion;
  if (entry.staged) return kStagedVersion;
  return entry.level > 0 ? kLevelVersion : kRecordVersion;
}

std::string Begin(std::uint8_t version = kRecordVersion) {
  return std::string(1, static_cast<char>(version));
}

void AppendExtent(std::string* out, const Extent& extent) {
  AppendVarint(out, static_cast<std::uint64_t>(extent.first_time));
  AppendVarint(out, static_cast<std::uint64_t>(extent.last_time - extent.first_time));
  AppendVarint(out, extent.first_serial.value());
  AppendVarint(out, extent.last_serial.StepsFrom(extent.first_serial));
}

bool ReadExtent(Decoder* decoder, Extent* extent) {
  const std::uint64_t first_time = decoder->Varint();
  const std::uint64_t last_time = first_time + decoder->Varint();
  extent->first_serial = Serial{decoder->Varint()};
  extent->last_serial = extent->first_serial.Next(decoder->Varint());
  constexpr auto kTimeMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (first_time > last_time || last_time > kTimeMax || extent->first_serial == kNoSerial ||
      extent->last_serial < extent->first_serial) {
    return false;
  }
  extent->first_time = static_cast<std::int64_t>(first_time);
  extent->last_time = static_cast<std::int64_t>(last_time);
  return true;
}

bool ReadSmall(Decoder* decoder, std::uint32_t* value) {
  const std::uint64_t wide = decoder->Varint();
  *value = static_cast<std::uint32_t>(wide);
  return wide <= std::numeric_limits<std::uint32_t>::max();
}

// Reads what only entries of some versions have. `version` is that of the entry.
bool ReadForm(Decoder* decoder, std::uint8_t version, BlockEntry* entry) {
  entry->form = version == kApartVersion ? PageForm::kApart : PageForm::kTogether;
  entry->staged = version == kStagedVersion;
  entry->level = 0;
  if (version == kApartVersion) {
    const auto flags = decoder->Little<std::uint8_t>();
    entry->staged = (flags & kStagedFlag) != 0;
    return (flags & ~kStagedFlag) == 0 && ReadSmall(decoder, &entry->level);
  }
  return version != kLevelVersion || (ReadSmall(decoder, &entry->level) && entry->level > 0);
}

bool ReadStream(Decoder* decoder, StreamId* stream) {
  std::uint32_t number = 0;
  const bool is_small = ReadSmall(decoder, &number);
  *stream = StreamId{number};
  return is_small;
}

}  // namespace

std::string KindPrefix(RecordKind kind) { return std::string(1, static_cast<char>(kind)); }

std::string RecordKey(RecordKind kind, BlockId block) {
  std::string key = KindPrefix(kind);
  AppendBig<std::uint64_t>(&key, block.value());
  return key;
}

std::string DeletedRowsKey(BlockId block, std::uint32_t page) {
  std::string key = RecordKey(RecordKind::kDeletedRows, block);
  AppendBig<std::uint32_t>(&key, page);
  return key;
}

std::string SealedPageKey(std::uint64_t pages, std::uint32_t record) {
  std::string key;
  AppendBig<std::uint64_t>(&key, pages);
  AppendBig<std::uint32_t>(&key, record);
  return key;
}

BlockId BlockOf(std::string_view key) {
  return key.size() < 9 ? kNoBlock : BlockId{ReadBig<std::uint64_t>(key.substr(1))};
}

std::string NameOf(BlockId block) { return "block " + std::to_string(block.value()); }

std::string Encode(const BlockEntry& entry) {
  const std::uint8_t version = VersionOf(entry);
  std::string record = Begin(version);
  record.push_back(static_cast<char>(entry.codec));
  if (version == kApartVersion) {
    record.push_back(static_cast<char>(entry.staged ? kStagedFlag : 0));
  }
  if (version == kLevelVersion || version == kApartVersion) AppendVarint(&record, entry.level);
  AppendVarint(&record, entry.rows);
  AppendVarint(&record, entry.pages);
  AppendExtent(&record, entry.extent);
  AppendVarint(&record, entry.bytes);
  if (version == kApartVersion) AppendVarint(&record, entry.value_bytes);
  record.append(entry.streams);
  return CloseRecord(std::move(record));
}

bool Decode(std::string_view bytes, BlockEntry* entry) {
  const std::uint8_t version = bytes.empty() ? 0 : static_cast<std::uint8_t>(bytes[0]);
  if (version < kRecordVersion || version > kApartVersion) return false;
  const auto body = OpenRecord(bytes, Begin(version));
  if (!body.has_value()) return false;
  Decoder decoder(*body);
  const auto codec = decoder.Little<std::uint8_t>();
  entry->codec = static_cast<PageCodec>(codec);
  if (codec < static_cast<std::uint8_t>(PageCodec::kNone) ||
      codec > static_cast<std::uint8_t>(PageCodec::kLz4)) {
    return false;
  }
  if (!ReadForm(&decoder, version, entry) || !ReadSmall(&decoder, &entry->rows) ||
      !ReadSmall(&decoder, &entry->pages) || !ReadExtent(&decoder, &entry->extent)) {
    return false;
  }
  entry->bytes = decoder.Varint();
  entry->value_bytes = version == kApartVersion ? decoder.Varint() : 0;
  entry->streams = decoder.rest();
  return decoder.ok() && entry->rows > 0 && entry->pages > 0 && entry->pages <= entry->rows &&
         entry->value_bytes <= entry->bytes;
}

void AppendRowsAndExtent(std::string* out, std::uint32_t rows, const Extent& extent) {
  AppendVarint(out, rows);
  AppendExtent(out, extent);
}

bool ReadRowsAndExtent(Decoder* decoder, std::uint32_t* rows, Extent* extent) {
  return ReadSmall(decoder, rows) && ReadExtent(decoder, extent);
}

std::string Encode(const Directory& directory) {
  std::string record = Begin();
  AppendVarint(&record, directory.size());
  std::string_view topic;
  for (const PageEntry& page : directory) {
    AppendVarint(&record, page.rows);
    AppendExtent(&record, page.extent);
    AppendVarint(&record, page.first_stream.value());
    const std::string_view next = page.first_topic;
    std::size_t shared = 0;
    while (shared < std::min(topic.size(), next.size()) && topic[shared] == next[shared]) ++shared;
    AppendVarint(&record, shared);
    AppendPrefixed(&record, next.substr(shared));
    topic = next;
  }
  return CloseRecord(std::move(record));
}

bool Decode(std::string_view bytes, Directory* directory) {
  const auto body = OpenRecord(bytes, Begin());
  if (!body.has_value()) return false;
  Decoder decoder(*body);
  const std::uint64_t pages = decoder.Varint();
  if (pages > body->size()) return false;
  directory->assign(pages, {});
  std::string_view topic;
  for (PageEntry& page : *directory) {
    if (!ReadSmall(&decoder, &page.rows) || !ReadExtent(&decoder, &page.extent) ||
        !ReadStream(&decoder, &page.first_stream)) {
      return false;
    }
    const std::uint64_t shared = decoder.Varint();
    if (shared > topic.size()) return false;
    page.first_topic = topic.substr(0, shared);
    page.first_topic += decoder.Prefixed();
    topic = page.first_topic;
    if (!decoder.ok() || page.rows == 0 || page.first_stream == kNoStream) return false;
  }
  return decoder.Finished();
}

const Placement::Group* Placement::Find(std::uint32_t group) const {
  const auto found = std::lower_bound(
      groups.begin(), groups.end(), group,
      [](const Group& candidate, std::uint32_t wanted) { return candidate.group < wanted; });
  return found == groups.end() || found->group != group ? nullptr : &*found;
}

StreamId Placement::StreamOf(std::uint32_t group, std::string_view topic) const {
  const Group* found = Find(group);
  if (found == nullptr) return kNoStream;
  const auto other = std::lower_bound(
      found->others.begin(), found->others.end(), topic,
      [](const auto& candidate, std::string_view wanted) { return candidate.first < wanted; });
  const bool is_other = other != found->others.end() && other->first == topic;
  return is_other ? other->second : found->stream;
}

std::vector<std::uint32_t> Placement::GroupsOf(const std::vector<StreamId>& streams) const {
  const auto wanted = [&](StreamId stream) {
    return std::binary_search(streams.begin(), streams.end(), stream);
  };
  std::vector<std::uint32_t> found;
  for (const Group& group : groups) {
    if (wanted(group.stream) ||
        std::any_of(group.others.begin(), group.others.end(),
                    [&](const auto& other) { return wanted(other.second); })) {
      found.push_back(group.group);
    }
  }
  return found;
}

std::string Encode(const Placement& placement) {
  std::string record = Begin();
  AppendLittle<std::uint64_t>(&record, placement.pages);
  AppendVarint(&record, placement.serial.value());
  AppendVarint(&record, static_cast<std::uint64_t>(placement.time_shift));
  AppendVarint(&record, placement.groups.size());
  std::uint32_t before = 0;
  for (const Placement::Group& group : placement.groups) {
    AppendVarint(&record, group.group - before);
    AppendVarint(&record, group.stream.value());
    AppendVarint(&record, group.others.size());
    for (const auto& [topic, stream] : group.others) {
      AppendPrefixed(&record, topic);
      AppendVarint(&record, stream.value());
    }
    before = group.group;
  }
  return CloseRecord(std::move(record));
}

bool Decode(std::string_view bytes, Placement* placement) {
  const auto body = OpenRecord(bytes, Begin());
  if (!body.has_value()) return false;
  Decoder decoder(*body);
  placement->pages = decoder.Little<std::uint64_t>();
  placement->serial = Serial{decoder.Varint()};
  placement->time_shift = static_cast<std::int64_t>(decoder.Varint());
  const std::uint64_t groups = decoder.Varint();
  if (placement->pages < kStagedPagesMin || placement->serial == kNoSerial ||
      placement->time_shift < 0 || groups == 0 || groups > body->size()) {
    return false;
  }
  placement->groups.assign(groups, {});
  constexpr std::uint64_t kGroupMax = std::numeric_limits<std::uint32_t>::max();
  std::uint64_t before = 0;
  for (Placement::Group& group : placement->groups) {
    const std::uint64_t step = decoder.Varint();
    group.group = static_cast<std::uint32_t>(before += step);
    if (step == 0 || step > kGroupMax || before != group.group ||
        !ReadStream(&decoder, &group.stream)) {
      return false;
    }
    const std::uint64_t others = decoder.Varint();
    if (others > body->size()) return false;
    group.others.resize(others);
    for (auto& [topic, stream] : group.others) {
      topic = decoder.Prefixed();
      if (!ReadStream(&decoder, &stream) || stream == kNoStream) return false;
    }
    if (group.stream == kNoStream || !std::is_sorted(group.others.begin(), group.others.end()))
      return false;
  }
  return decoder.Finished();
}

std::string EncodeFilter(std::string_view filter) { return CloseRecord(Begin().append(filter)); }

bool DecodeFilter(std::string_view bytes, std::string* filter) {
  const auto body = OpenRecord(bytes, Begin());
  if (!body.has_value()) return false;
  *filter = *body;
  return true;
}

std::string Encode(const DeletedRows& rows) {
  std::string record = Begin();
  std::uint32_t previous = 0;
  for (const std::uint32_t row : rows) {
    AppendVarint(&record, row - previous);
    previous = row;
  }
  return CloseRecord(std::move(record));
}

bool Decode(std::string_view bytes, DeletedRows* rows) {
  const auto body = OpenRecord(bytes, Begin());
  if (!body.has_value()) return false;
  Decoder decoder(*body);
  rows->clear();
  std::uint64_t row = 0;
  while (decoder.ok() && !decoder.rest().empty()) {
    const std::uint64_t step = decoder.Varint();
    if (step >= kPageRowsMax) return false;
    row += step;
    if ((step == 0 && !rows->empty()) || row >= kPageRowsMax) return false;
    rows->push_back(static_cast<std::uint32_t>(row));
  }
  return decoder.Finished();
}

}  // namespace topicdb::columnar
