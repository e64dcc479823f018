#include "store/catalog/meta.h"

#include <algorithm>
#include <chrono>

#include "base/bytes/coding.h"

namespace topicdb::meta {

namespace {

constexpr std::uint8_t kRecordVersion = 1;
constexpr std::uint8_t kAllVaryFlag = 1;
constexpr std::int64_t kNoEnd = -1;

std::string Key(KeyKind kind) { return std::string(1, static_cast<char>(kind)); }

std::string SlabScopedKey(KeyKind kind, const SlabId& slab) {
  std::string key = Key(kind);
  AppendBig<std::uint32_t>(&key, slab.retention_class.value());
  AppendBig<std::uint32_t>(&key, slab.generation.value());
  return key;
}

std::string NewRecord() { return std::string(1, static_cast<char>(kRecordVersion)); }

Decoder OpenRecord(std::string_view bytes, bool* known) {
  Decoder decoder(bytes);
  *known = decoder.Little<std::uint8_t>() == kRecordVersion;
  return decoder;
}

void AppendSigned(std::string* out, std::int64_t value) {
  AppendLittle<std::uint64_t>(out, static_cast<std::uint64_t>(value));
}

std::int64_t ReadSigned(Decoder* decoder) {
  return static_cast<std::int64_t>(decoder->Little<std::uint64_t>());
}

template <typename Time>
void AppendTime(std::string* out, Time time) {
  AppendSigned(out, MicrosecondsOf(time));
}

template <typename Time>
void ReadTime(Decoder* decoder, Time* time) {
  *time = TimeAt<Time>(ReadSigned(decoder));
}

void AppendDuration(std::string* out, std::chrono::microseconds duration) {
  AppendSigned(out, duration.count());
}

void ReadDuration(Decoder* decoder, std::chrono::microseconds* duration) {
  *duration = std::chrono::microseconds(ReadSigned(decoder));
}

void AppendSpan(const JobSpan& span, std::string* bytes) {
  AppendLittle(bytes, span.number);
  AppendLittle(bytes, span.first_serial.value());
  AppendLittle(bytes, span.last_serial.value());
  AppendTime(bytes, span.committed_at);
  AppendLittle(bytes, static_cast<std::uint32_t>(span.shards.size()));
  for (const std::uint32_t shard : span.shards) AppendLittle(bytes, shard);
}

bool ReadSpan(Decoder* decoder, JobSpan* span) {
  span->number = decoder->Little<std::uint64_t>();
  span->first_serial = Serial{decoder->Little<std::uint64_t>()};
  span->last_serial = Serial{decoder->Little<std::uint64_t>()};
  ReadTime(decoder, &span->committed_at);
  const auto shards = decoder->Little<std::uint32_t>();
  if (!decoder->ok() || shards > decoder->rest().size() / sizeof(std::uint32_t)) return false;
  span->shards.resize(shards);
  for (std::uint32_t& shard : span->shards) shard = decoder->Little<std::uint32_t>();
  return span->first_serial <= span->last_serial &&
         std::is_sorted(span->shards.begin(), span->shards.end());
}

}  // namespace

std::string IdentityKey() { return Key(KeyKind::kIdentity); }
std::string CommitStateKey() { return Key(KeyKind::kCommitState); }
std::string RulesKey() { return Key(KeyKind::kRules); }
std::string ClockKey() { return Key(KeyKind::kClock); }
std::string AppliedKey() { return Key(KeyKind::kApplied); }
std::string ReplicatedRulesKey() { return Key(KeyKind::kReplicatedRules); }
std::string SlabKey(const SlabId& slab) { return SlabScopedKey(KeyKind::kSlab, slab); }
std::string CountersKey(const SlabId& slab) { return SlabScopedKey(KeyKind::kCounters, slab); }
std::string NodePrefix(const SlabId& slab) { return SlabScopedKey(KeyKind::kNode, slab); }
std::string SlabPrefix() { return Key(KeyKind::kSlab); }

std::string JobPrefix() { return Key(KeyKind::kJob); }

std::string JobKey(std::string_view sequence) {
  std::string key = JobPrefix();
  key.append(sequence);
  return key;
}

std::string AppendIdPrefix() { return Key(KeyKind::kAppendId); }

std::string AppendIdKey(Serial serial) {
  std::string key = AppendIdPrefix();
  AppendBig<std::uint64_t>(&key, serial.value());
  return key;
}

std::string DropPrefix() { return Key(KeyKind::kDrop); }

std::string DropKey(Serial serial) {
  std::string key = DropPrefix();
  AppendBig(&key, serial.value());
  return key;
}

std::string NodeKey(const SlabId& slab, NodeId node) {
  std::string key = NodePrefix(slab);
  AppendBig<std::uint32_t>(&key, node);
  return key;
}

bool DecodeSlabOf(std::string_view key, SlabId* slab) {
  Decoder decoder(key);
  decoder.Little<std::uint8_t>();
  slab->retention_class = RetentionClassId{decoder.Big<std::uint32_t>()};
  slab->generation = Generation{decoder.Big<std::uint32_t>()};
  return decoder.ok();
}

bool DecodeSlabKey(std::string_view key, SlabId* slab) {
  return key.size() == SlabKey({}).size() && key.starts_with(SlabPrefix()) &&
         DecodeSlabOf(key, slab);
}

std::string Encode(const Identity& identity) {
  std::string bytes = NewRecord();
  bytes.append(identity.database.begin(), identity.database.end());
  AppendLittle<std::uint32_t>(&bytes, identity.shard);
  return bytes;
}

bool Decode(std::string_view bytes, Identity* identity) {
  bool known = false;
  Decoder decoder = OpenRecord(bytes, &known);
  decoder.Array(&identity->database);
  identity->shard = decoder.Little<std::uint32_t>();
  return known && decoder.Finished();
}

std::chrono::microseconds AheadOf(WallTime clock, const CommitState& state) {
  return std::chrono::microseconds(
      std::max<std::int64_t>(state.assigned_timestamp - TimestampAt(clock), 0));
}

std::string Encode(const CommitState& state) {
  std::string bytes = NewRecord();
  AppendLittle<std::uint64_t>(&bytes, state.serial.value());
  AppendSigned(&bytes, state.assigned_timestamp);
  AppendLittle<std::uint64_t>(&bytes, state.serial_limit.value());
  return bytes;
}

bool Decode(std::string_view bytes, CommitState* state) {
  bool known = false;
  Decoder decoder = OpenRecord(bytes, &known);
  state->serial = Serial{decoder.Little<std::uint64_t>()};
  state->assigned_timestamp = ReadSigned(&decoder);
  state->serial_limit = Serial{decoder.Little<std::uint64_t>()};
  return known && decoder.Finished();
}

std::string Encode(const Applied& applied) {
  std::string bytes = NewRecord();
  AppendLittle<std::uint64_t>(&bytes, applied.index);
  AppendLittle<std::uint64_t>(&bytes, applied.term);
  AppendLittle<std::uint64_t>(&bytes, applied.epoch);
  AppendLittle<std::uint64_t>(&bytes, applied.number);
  return bytes;
}

bool Decode(std::string_view bytes, Applied* applied) {
  bool known = false;
  Decoder decoder = OpenRecord(bytes, &known);
  applied->index = decoder.Little<std::uint64_t>();
  applied->term = decoder.Little<std::uint64_t>();
  applied->epoch = decoder.Little<std::uint64_t>();
  applied->number = decoder.Little<std::uint64_t>();
  return known && decoder.Finished();
}

std::string Encode(const LeapRecord& record) {
  std::string bytes = NewRecord();
  bytes.append(record.at.boot.begin(), record.at.boot.end());
  AppendTime(&bytes, record.at.boot_time);
  AppendTime(&bytes, record.at.wall_time);
  AppendDuration(&bytes, record.leaps);
  AppendDuration(&bytes, record.unproven);
  AppendTime(&bytes, record.unproven_since);
  AppendDuration(&bytes, record.held);
  AppendTime(&bytes, record.held_since);
  return bytes;
}

bool Decode(std::string_view bytes, LeapRecord* record) {
  bool known = false;
  Decoder decoder = OpenRecord(bytes, &known);
  decoder.Array(&record->at.boot);
  ReadTime(&decoder, &record->at.boot_time);
  ReadTime(&decoder, &record->at.wall_time);
  ReadDuration(&decoder, &record->leaps);
  ReadDuration(&decoder, &record->unproven);
  ReadTime(&decoder, &record->unproven_since);
  ReadDuration(&decoder, &record->held);
  ReadTime(&decoder, &record->held_since);
  return known && decoder.Finished();
}

std::string Encode(const SlabRecord& record) {
  std::string bytes = NewRecord();
  AppendLittle<std::uint8_t>(&bytes, static_cast<std::uint8_t>(record.state));
  AppendLittle<std::uint8_t>(&bytes, static_cast<std::uint8_t>(record.layout));
  AppendLittle<std::uint8_t>(&bytes, record.timestamp_bytes);
  AppendTime(&bytes, record.created_at);
  AppendTime(&bytes, record.sealed_at);
  const bool has_begun_at = record.begun_at != kNoSerial;
  if (record.keep_last > 0 || has_begun_at) AppendLittle(&bytes, record.keep_last);
  if (has_begun_at) AppendLittle(&bytes, record.begun_at.value());
  return bytes;
}

bool Decode(std::string_view bytes, SlabRecord* record) {
  bool known = false;
  Decoder decoder = OpenRecord(bytes, &known);
  const auto state = decoder.Little<std::uint8_t>();
  const auto layout = decoder.Little<std::uint8_t>();
  record->state = static_cast<SlabState>(state);
  record->layout = static_cast<LayoutKind>(layout);
  record->timestamp_bytes = decoder.Little<std::uint8_t>();
  ReadTime(&decoder, &record->created_at);
  ReadTime(&decoder, &record->sealed_at);
  record->keep_last = decoder.rest().empty() ? 0 : decoder.Little<std::uint32_t>();
  record->begun_at = decoder.rest().empty() ? kNoSerial : Serial{decoder.Little<std::uint64_t>()};
  return known && decoder.Finished() && state >= 1 &&
         state <= static_cast<std::uint8_t>(SlabState::kDropping) &&
         (layout == static_cast<std::uint8_t>(LayoutKind::kSkipstream) ||
          layout == static_cast<std::uint8_t>(LayoutKind::kColumnar)) &&
         (record->timestamp_bytes == 0 || record->timestamp_bytes == 8);
}

std::string EncodeRules(std::uint64_t version) {
  std::string bytes = NewRecord();
  AppendLittle(&bytes, version);
  return bytes;
}

bool DecodeRules(std::string_view bytes, std::uint64_t* version) {
  bool known = false;
  Decoder decoder = OpenRecord(bytes, &known);
  *version = decoder.Little<std::uint64_t>();
  return known && decoder.Finished();
}

void SlabCounters::Count(std::uint64_t more, std::int64_t first, std::int64_t last,
                         std::uint64_t more_bytes) {
  const bool none = messages == 0;
  first_timestamp = none ? first : std::min(first_timestamp, first);
  last_timestamp = none ? last : std::max(last_timestamp, last);
  messages += more;
  bytes += more_bytes;
}

std::string Encode(const SlabCounters& counters) {
  std::string bytes = NewRecord();
  AppendLittle<std::uint64_t>(&bytes, counters.messages);
  AppendLittle<std::uint64_t>(&bytes, counters.bytes);
  AppendSigned(&bytes, counters.first_timestamp);
  AppendSigned(&bytes, counters.last_timestamp);
  return bytes;
}

bool Decode(std::string_view bytes, SlabCounters* counters) {
  bool known = false;
  Decoder decoder = OpenRecord(bytes, &known);
  counters->messages = decoder.Little<std::uint64_t>();
  counters->bytes = decoder.Little<std::uint64_t>();
  counters->first_timestamp = ReadSigned(&decoder);
  counters->last_timestamp = ReadSigned(&decoder);
  return known && decoder.Finished();
}

std::string Encode(const JobRecord& record) {
  std::string bytes = NewRecord();
  AppendTime(&bytes, record.applied_at);
  AppendLittle(&bytes, record.messages);
  AppendLittle(&bytes, record.malformed);
  AppendSpan(record.last, &bytes);
  for (const JobSpan& span : record.earlier) AppendSpan(span, &bytes);
  return bytes;
}

bool Decode(std::string_view bytes, JobRecord* record) {
  bool known = false;
  Decoder decoder = OpenRecord(bytes, &known);
  ReadTime(&decoder, &record->applied_at);
  record->messages = decoder.Little<std::uint64_t>();
  record->malformed = decoder.Little<std::uint64_t>();
  bool sound = ReadSpan(&decoder, &record->last);
  record->earlier.clear();
  while (known && sound && !decoder.Finished() && record->earlier.size() < kJobSpansMax) {
    sound = ReadSpan(&decoder, &record->earlier.emplace_back());
  }
  return known && sound && decoder.Finished();
}

std::string Encode(const std::string& id, const KnownAppend& known) {
  std::string bytes = NewRecord();
  AppendLittle<std::uint64_t>(&bytes, known.messages);
  bytes.append(known.digest.begin(), known.digest.end());
  bytes += id;
  return bytes;
}

bool Decode(std::string_view key, std::string_view bytes, std::string* id, KnownAppend* known) {
  if (key.size() != AppendIdKey(kNoSerial).size()) return false;
  known->serial = Serial{ReadBig<std::uint64_t>(key.substr(1))};
  bool is_known = false;
  Decoder decoder = OpenRecord(bytes, &is_known);
  known->messages = decoder.Little<std::uint64_t>();
  decoder.Array(&known->digest);
  *id = decoder.rest();
  return is_known && decoder.ok() && CheckAppendId(*id).ok();
}

std::string Encode(const NodeRecord& node) {
  std::string bytes = NewRecord();
  AppendLittle<std::uint32_t>(&bytes, node.parent);
  AppendLittle<std::uint8_t>(&bytes, static_cast<std::uint8_t>(node.kind));
  AppendLittle<std::uint8_t>(&bytes, node.all_vary ? kAllVaryFlag : 0);
  bytes += node.label;
  return bytes;
}

bool Decode(std::string_view key, std::string_view bytes, NodeRecord* node) {
  if (key.size() != NodeKey(SlabId{}, 0).size()) return false;
  node->id = ReadBig<std::uint32_t>(key.substr(key.size() - sizeof(std::uint32_t)));
  bool known = false;
  Decoder decoder = OpenRecord(bytes, &known);
  node->parent = decoder.Little<std::uint32_t>();
  const auto kind = decoder.Little<std::uint8_t>();
  const auto flags = decoder.Little<std::uint8_t>();
  node->kind = static_cast<NodeKind>(kind);
  node->all_vary = flags == kAllVaryFlag;
  node->label = decoder.rest();
  return known && decoder.ok() && kind >= 1 && kind <= static_cast<std::uint8_t>(NodeKind::kAny) &&
         flags <= kAllVaryFlag;
}

std::string SampleLevelKey(const SlabId& slab) { return SlabScopedKey(KeyKind::kSample, slab); }

std::string SampleKey(const SlabId& slab, Serial serial) {
  std::string key = SampleLevelKey(slab);
  AppendBig<std::uint64_t>(&key, serial.value());
  return key;
}

std::string SampleEnd(const SlabId& slab) {
  return SampleLevelKey({slab.shard, slab.retention_class, slab.generation.Next()});
}

std::string EncodeSample(std::string_view topics) {
  std::string bytes = NewRecord();
  bytes += topics;
  return bytes;
}

void AppendSampleTopic(std::string* topics, std::string_view topic) {
  AppendLittle<std::uint16_t>(topics, static_cast<std::uint16_t>(topic.size()));
  *topics += topic;
}

bool DecodeSample(std::string_view bytes, std::vector<std::string_view>* topics) {
  bool known = false;
  Decoder decoder = OpenRecord(bytes, &known);
  std::string_view rest = decoder.rest();
  while (known && rest.size() >= sizeof(std::uint16_t)) {
    const std::size_t size = Decoder(rest).Little<std::uint16_t>();
    rest.remove_prefix(sizeof(std::uint16_t));
    if (size > rest.size()) return false;
    topics->push_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  return known && decoder.ok() && rest.empty();
}

std::string EncodeSampleLevel(unsigned level) {
  std::string bytes = NewRecord();
  AppendLittle<std::uint8_t>(&bytes, static_cast<std::uint8_t>(level));
  return bytes;
}

bool DecodeSampleLevel(std::string_view bytes, unsigned* level) {
  bool known = false;
  Decoder decoder = OpenRecord(bytes, &known);
  *level = decoder.Little<std::uint8_t>();
  return known && decoder.Finished() && *level < 64;
}

std::string DeletePrefix() { return Key(KeyKind::kDelete); }

std::string DeleteKey(Serial serial, std::uint32_t index) {
  std::string key = DeletePrefix();
  AppendBig<std::uint64_t>(&key, serial.value());
  AppendBig<std::uint32_t>(&key, index);
  return key;
}

std::string Encode(const DropRecord& record) {
  std::string bytes = NewRecord();
  AppendPrefixed(&bytes, record.retention_class);
  AppendLittle(&bytes, record.generation.value());
  AppendTime(&bytes, record.dropped_at);
  AppendSigned(&bytes, record.last_timestamp);
  for (const DropRecord::Part& part : record.parts) {
    AppendPrefixed(&bytes, part.filter);
    AppendVarint(&bytes, part.counts.size());
    Serial before;
    for (const DropRecord::Count& count : part.counts) {
      AppendVarint(&bytes, count.serial.StepsFrom(before));
      AppendVarint(&bytes, count.messages);
      before = count.serial;
    }
  }
  return bytes;
}

bool Decode(std::string_view key, std::string_view bytes, DropRecord* record) {
  if (key.size() != DropKey(kNoSerial).size()) return false;
  record->serial = Serial{ReadBig<std::uint64_t>(key.substr(1))};
  bool known = false;
  Decoder decoder = OpenRecord(bytes, &known);
  record->retention_class = decoder.Prefixed();
  record->generation = Generation{decoder.Little<std::uint32_t>()};
  ReadTime(&decoder, &record->dropped_at);
  record->last_timestamp = ReadSigned(&decoder);
  record->parts.clear();
  while (known && decoder.ok() && !decoder.rest().empty()) {
    DropRecord::Part& part = record->parts.emplace_back();
    part.filter = decoder.Prefixed();
    const std::uint64_t counts = decoder.Varint();
    if (counts == 0 || counts > decoder.rest().size()) return false;
    Serial serial;
    for (std::uint64_t i = 0; i < counts; ++i) {
      serial = serial.Next(decoder.Varint());
      part.counts.push_back({serial, decoder.Varint()});
    }
  }
  return known && decoder.Finished() && record->generation != Generation{};
}

std::string Encode(const DeleteRecord& record) {
  std::string bytes = NewRecord();
  AppendLittle<std::uint32_t>(&bytes, record.generation.value());
  const TimeRange& range = record.keys.range;
  AppendSigned(&bytes, range.start.value_or(0));
  AppendSigned(&bytes, range.end.value_or(kNoEnd));
  bytes += record.keys.filter.text();
  return bytes;
}

bool DecodeDeleteKey(std::string_view key, Serial* serial, std::uint32_t* index) {
  if (key.size() != DeleteKey(kNoSerial, 0).size()) return false;
  *serial = Serial{ReadBig<std::uint64_t>(key.substr(1))};
  *index = ReadBig<std::uint32_t>(key.substr(1 + sizeof(std::uint64_t)));
  return true;
}

bool Decode(std::string_view key, std::string_view bytes, DeleteRecord* record) {
  if (!DecodeDeleteKey(key, &record->serial, &record->index)) return false;
  bool known = false;
  Decoder decoder = OpenRecord(bytes, &known);
  record->generation = Generation{decoder.Little<std::uint32_t>()};
  const std::int64_t start = ReadSigned(&decoder);
  const std::int64_t end = ReadSigned(&decoder);
  Result<Filter> filter = Filter::Parse(decoder.rest());
  if (!known || !decoder.ok() || start < 0 || end < kNoEnd || !filter.ok()) return false;
  record->keys.filter = std::move(filter).value();
  record->keys.range.start = start;
  record->keys.range.end = end == kNoEnd ? std::nullopt : std::optional(end);
  return true;
}

}  // namespace topicdb::meta
