#include "store/catalog/descriptor.h"

#include <algorithm>
#include <chrono>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "base/bytes/random_bytes.h"
#include "base/clock.h"
#include "store/catalog/retention_class.h"
#include "topicdb/topic.h"

namespace topicdb {

namespace {

// docs/internals/format.md, "The descriptor".
constexpr std::string_view kMagic("TOPICDB\n", 8);
constexpr std::size_t kHeaderBytes = 20;

// DO NOT CHANGE THESE VALUES: they are on disk. Zero is no field.
enum Field : std::uint8_t {
  kId = 1,
  kCreatedAt = 2,
  kShards = 3,
  kLayout = 4,
  kTimestampBytes = 5,
  kStructure = 6,  // one field for each hint, in order
  kThreshold = 7,  // one field for each, in order
  kRetention = 8,  // one field for each class, in order
  kShardBy = 9,    // only if messages are not sharded by topic
};

// The format version of a database that is sharded by topic. Older versions of TopicDB read it, and
// refuse the version of any other database.
constexpr std::uint16_t kVersionOfTopics = 1;

std::uint16_t VersionOf(const Schema& schema) {
  return schema.shard_by == ShardBy::kTopic ? kVersionOfTopics : kFormatVersion;
}

void AppendField(std::string* body, Field field, std::string_view content) {
  body->push_back(static_cast<char>(field));
  AppendPrefixed(body, content);
}

void AppendNumberField(std::string* body, Field field, std::uint64_t value) {
  std::string content;
  AppendVarint(&content, value);
  AppendField(body, field, content);
}

std::uint64_t ReadNumber(std::string_view content, bool* ok) {
  Decoder decoder(content);
  const std::uint64_t value = decoder.Varint();
  if (!decoder.Finished()) *ok = false;
  return value;
}

RetentionClass ReadRetention(std::string_view content, bool* ok) {
  Decoder decoder(content);
  RetentionClass result;
  result.age = std::chrono::microseconds(decoder.Varint());
  result.filter = decoder.Prefixed();
  if (!decoder.Finished()) *ok = false;
  return result;
}

// Sets a field of the descriptor. Returns false if the field is malformed or unknown.
bool ReadField(std::uint8_t field, std::string_view content, Descriptor* out) {
  bool ok = true;
  Schema& schema = out->schema;
  switch (field) {
    case kId:
      if (content.size() != out->id.size()) return false;
      std::copy(content.begin(), content.end(), out->id.begin());
      return true;
    case kCreatedAt:
      out->created_at = TimeAt<WallTime>(static_cast<std::int64_t>(ReadNumber(content, &ok)));
      return ok;
    case kShards:
      schema.shards = static_cast<std::uint32_t>(ReadNumber(content, &ok));
      return ok;
    case kLayout:
      schema.layout = static_cast<LayoutKind>(ReadNumber(content, &ok));
      return ok;
    case kTimestampBytes:
      schema.timestamp_bytes = static_cast<std::uint32_t>(ReadNumber(content, &ok));
      return ok;
    case kStructure:
      schema.structures.emplace_back(content);
      return true;
    case kThreshold:
      schema.thresholds.push_back(static_cast<std::uint32_t>(ReadNumber(content, &ok)));
      return ok;
    case kRetention:
      schema.retention.push_back(ReadRetention(content, &ok));
      return ok;
    case kShardBy:
      schema.shard_by = static_cast<ShardBy>(ReadNumber(content, &ok));
      return ok;
    default:
      return false;
  }
}

Status CheckSchema(const Schema& schema) {
  if (schema.shards < 1 || schema.shards > kShardsMax) {
    return SchemaFault("shards: expected 1 to " + std::to_string(kShardsMax) + ", got " +
                       std::to_string(schema.shards));
  }
  if (schema.shard_by != ShardBy::kTopic && schema.shard_by != ShardBy::kKey) {
    return SchemaFault("shard_by: neither 'topic' nor 'key'");
  }
  if (schema.layout != LayoutKind::kSkipstream && schema.layout != LayoutKind::kColumnar) {
    return SchemaFault("layout: unknown layout");
  }
  if (schema.timestamp_bytes != 0 && schema.timestamp_bytes != 8) {
    return SchemaFault("timestamp_bytes: expected 0 or 8, got " +
                       std::to_string(schema.timestamp_bytes));
  }
  TOPICDB_RETURN_IF_ERROR(CheckLayout(schema.layout, schema.timestamp_bytes));
  TOPICDB_RETURN_IF_ERROR(CheckLayouts(schema.retention, schema.timestamp_bytes));
  if (schema.thresholds.empty()) return SchemaFault("thresholds: at least one number is needed");
  for (const std::string& hint : schema.structures) {
    const Result<Filter> filter = Filter::Parse(hint);
    if (!filter.ok()) return SchemaFault("structures: " + filter.status().message());
  }
  return RetentionRules::Make(schema.retention).status();
}

// Returns whether `hint` ends in '#', so that all levels below it vary, and `other` has a word at
// one of these levels.
bool Contradicts(const Filter& hint, const Filter& other) {
  const auto& prefix = hint.levels();
  const auto& levels = other.levels();
  if (!hint.ends_in_hash() || levels.size() <= prefix.size()) return false;
  for (std::size_t i = 0; i < prefix.size(); ++i) {
    if (prefix[i].kind != levels[i].kind || prefix[i].word != levels[i].word) return false;
  }
  return std::any_of(levels.begin() + static_cast<std::ptrdiff_t>(prefix.size()), levels.end(),
                     [](const auto& level) { return level.kind == Filter::LevelKind::kWord; });
}

// Returns kSchema if hints are given twice or contradict each other. REQUIRES (CheckHints): each
// hint is a filter
Status CheckHints(const std::vector<std::string>& hints) {
  std::vector<Filter> filters;
  for (const std::string& hint : hints) filters.push_back(Filter::Parse(hint).value());
  for (std::size_t i = 0; i < filters.size(); ++i) {
    for (std::size_t j = 0; j < filters.size(); ++j) {
      if (i < j && hints[i] == hints[j]) {
        return SchemaFault("structures: '" + hints[i] + "' is given twice");
      }
      if (Contradicts(filters[i], filters[j])) {
        return SchemaFault("structures: '" + hints[i] + "' says that a level varies for which '" +
                           hints[j] + "' has a word; leave one of them out");
      }
    }
  }
  return Status::Ok();
}

Status Disagreement(const std::string& path, const char* option, const std::string& asked,
                    const std::string& stored) {
  return SchemaFault(std::string(option) + ": " + asked + " was asked for, but " + path + " has " +
                     stored + "; leave it out to open the database as it is");
}

std::string Show(const std::vector<std::string>& items) {
  std::string text = "[";
  for (const std::string& item : items) text += (text.size() > 1 ? ", " : "") + item;
  return text + "]";
}

std::string ShowThresholds(const std::vector<std::uint32_t>& thresholds) {
  std::vector<std::string> items;
  for (const std::uint32_t threshold : thresholds) items.push_back(std::to_string(threshold));
  return Show(items);
}

std::string ShowRetention(const std::vector<RetentionClass>& classes) {
  std::vector<std::string> items;
  for (const RetentionClass& item : classes) {
    std::string limits =
        item.age == item.age.zero() ? "" : std::to_string(item.age.count()) + " µs";
    if (item.bytes_max > 0) {
      limits += (limits.empty() ? "" : ", ") + std::to_string(item.bytes_max) + " bytes";
    }
    if (item.rotation_period > item.rotation_period.zero()) {
      limits += ", rotated every " + std::to_string(item.rotation_period.count()) + " µs";
    }
    if (item.layout.has_value()) {
      limits += (limits.empty() ? "layout " : ", layout ") + std::string(NameOf(*item.layout));
    }
    items.push_back(item.filter + ": " + (limits.empty() ? "keep" : limits));
  }
  return Show(items);
}

}  // namespace

std::string EncodeDescriptor(const Descriptor& descriptor) {
  const Schema& schema = descriptor.schema;
  std::string body;
  AppendField(&body, kId, std::string(descriptor.id.begin(), descriptor.id.end()));
  AppendNumberField(&body, kCreatedAt,
                    static_cast<std::uint64_t>(MicrosecondsOf(descriptor.created_at)));
  AppendNumberField(&body, kShards, schema.shards);
  AppendNumberField(&body, kLayout, static_cast<std::uint64_t>(schema.layout));
  AppendNumberField(&body, kTimestampBytes, schema.timestamp_bytes);
  if (schema.shard_by != ShardBy::kTopic) {
    AppendNumberField(&body, kShardBy, static_cast<std::uint64_t>(schema.shard_by));
  }
  for (const std::string& hint : schema.structures) AppendField(&body, kStructure, hint);
  for (const std::uint32_t threshold : schema.thresholds) {
    AppendNumberField(&body, kThreshold, threshold);
  }
  for (const RetentionClass& item : schema.retention) {
    std::string content;
    AppendVarint(&content, static_cast<std::uint64_t>(item.age.count()));
    AppendPrefixed(&content, item.filter);
    AppendField(&body, kRetention, content);
  }
  std::string bytes(kMagic);
  AppendLittle<std::uint16_t>(&bytes, VersionOf(schema));
  AppendLittle<std::uint16_t>(&bytes, 0);
  AppendLittle<std::uint32_t>(&bytes, static_cast<std::uint32_t>(body.size()));
  AppendLittle<std::uint32_t>(&bytes, Crc32(body, Crc32(bytes)));
  return bytes + body;
}

Result<Descriptor> DecodeDescriptor(std::string_view bytes, const std::string& path) {
  if (!bytes.starts_with(kMagic)) return Corruption(path + " is no TopicDB descriptor");
  Decoder header(bytes.substr(0, kHeaderBytes));
  header.Bytes(kMagic.size());
  const auto version = header.Little<std::uint16_t>();
  header.Little<std::uint16_t>();
  const auto body_size = header.Little<std::uint32_t>();
  const auto crc = header.Little<std::uint32_t>();
  if (!header.ok()) return Corruption(path + " is cut off");
  const std::string_view body = bytes.substr(kHeaderBytes);
  const bool intact = body.size() == body_size &&
                      Crc32(body, Crc32(bytes.substr(0, kHeaderBytes - sizeof(crc)))) == crc;
  if (!intact) return Corruption(path + " is damaged (checksum)");
  if (version < kVersionOfTopics || version > kFormatVersion) {
    return SchemaFault(path + " has format " + std::to_string(version) +
                       ", this TopicDB reads formats up to " + std::to_string(kFormatVersion) +
                       ": open it with the newer TopicDB that wrote it");
  }
  Descriptor descriptor;
  descriptor.schema.thresholds.clear();
  Decoder fields(body);
  while (fields.ok() && !fields.rest().empty()) {
    const auto field = fields.Little<std::uint8_t>();
    const std::string_view content = fields.Prefixed();
    if (!fields.ok() || !ReadField(field, content, &descriptor)) {
      return Corruption(path + ": field " + std::to_string(field) + " is malformed");
    }
  }
  const Status status = CheckSchema(descriptor.schema);
  if (!status.ok()) return Corruption(path + ": " + status.message());
  if (version < VersionOf(descriptor.schema)) {
    return Corruption(path + ": format " + std::to_string(version) + " has no such schema");
  }
  return descriptor;
}

Result<Descriptor> MakeDescriptor(const SchemaRequest& request) {
  Descriptor descriptor;
  Schema& schema = descriptor.schema;
  schema.shards = request.shards.value_or(schema.shards);
  schema.shard_by = request.shard_by.value_or(schema.shard_by);
  schema.timestamp_bytes = request.timestamp_bytes.value_or(schema.timestamp_bytes);
  if (schema.timestamp_bytes == 0) schema.layout = LayoutKind::kSkipstream;  // a map needs it
  schema.layout = request.layout.value_or(schema.layout);
  schema.structures = request.structures.value_or(schema.structures);
  schema.thresholds = request.thresholds.value_or(schema.thresholds);
  schema.retention = request.retention.value_or(schema.retention);
  TOPICDB_RETURN_IF_ERROR(CheckSchema(schema));
  TOPICDB_RETURN_IF_ERROR(CheckHints(schema.structures));
  TOPICDB_RETURN_IF_ERROR(CheckReachable(schema.retention));
  descriptor.id = RandomBytes<16>();
  descriptor.created_at = ReadWallClock();
  return descriptor;
}

const char* NameOf(LayoutKind layout) {
  return layout == LayoutKind::kColumnar ? "columnar" : "skipstream";
}

const char* NameOf(ShardBy shard_by) { return shard_by == ShardBy::kTopic ? "topic" : "key"; }

Result<LayoutKind> LayoutNamed(std::string_view name) {
  for (const LayoutKind layout : {LayoutKind::kColumnar, LayoutKind::kSkipstream}) {
    if (name == NameOf(layout)) return layout;
  }
  return SchemaFault("layout: expected 'columnar' or 'skipstream', got '" + std::string(name) +
                     "'");
}

// In a map of topics, one with timestamp_bytes=0, there is one message of each topic. Blocks keep
// every message, so no generation of such a database can have them.
Status CheckLayout(LayoutKind layout, std::uint32_t timestamp_bytes) {
  if (timestamp_bytes != 0 || layout == LayoutKind::kSkipstream) return Status::Ok();
  return SchemaFault("timestamp_bytes: 0 needs layout 'skipstream'");
}

Status CheckLayouts(const std::vector<RetentionClass>& classes, std::uint32_t timestamp_bytes) {
  for (const RetentionClass& item : classes) {
    if (!item.layout.has_value()) continue;
    TOPICDB_RETURN_IF_ERROR(
        CheckLayout(*item.layout, timestamp_bytes).WithContext("retention: '" + item.filter + "'"));
  }
  return Status::Ok();
}

namespace {

template <typename Choice>
std::string Quoted(Choice choice) {
  std::string text = "'";
  text.append(NameOf(choice)).append("'");
  return text;
}

}  // namespace

Status CheckAgreement(const SchemaRequest& request, const Schema& stored, const std::string& path) {
  if (request.shards && *request.shards != stored.shards) {
    return Disagreement(path, "shards", std::to_string(*request.shards),
                        std::to_string(stored.shards));
  }
  if (request.shard_by && *request.shard_by != stored.shard_by) {
    return Disagreement(path, "shard_by", Quoted(*request.shard_by), Quoted(stored.shard_by));
  }
  if (request.layout && *request.layout != stored.layout) {
    return Disagreement(path, "layout", Quoted(*request.layout),
                        Quoted(stored.layout) +
                            " (rotate and set_retention begin generations of "
                            "another layout)");
  }
  if (request.timestamp_bytes && *request.timestamp_bytes != stored.timestamp_bytes) {
    return Disagreement(path, "timestamp_bytes", std::to_string(*request.timestamp_bytes),
                        std::to_string(stored.timestamp_bytes));
  }
  if (request.structures && *request.structures != stored.structures) {
    return Disagreement(path, "structures", Show(*request.structures), Show(stored.structures));
  }
  if (request.thresholds && *request.thresholds != stored.thresholds) {
    return Disagreement(path, "thresholds", ShowThresholds(*request.thresholds),
                        ShowThresholds(stored.thresholds));
  }
  if (request.retention && !AreSameClasses(*request.retention, stored.retention)) {
    return Disagreement(path, "retention", ShowRetention(*request.retention),
                        ShowRetention(stored.retention) + " (set_retention changes it)");
  }
  return Status::Ok();
}

}  // namespace topicdb
