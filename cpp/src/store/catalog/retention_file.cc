#include "store/catalog/retention_file.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes/checked_record.h"
#include "base/bytes/coding.h"
#include "base/file/files.h"

namespace topicdb {

namespace {

// docs/internals/format.md, "Retention".
constexpr std::string_view kMagic("TDBRETN\n", 8);
constexpr std::uint8_t kVersion = 3;
constexpr std::uint8_t kWithoutLayout = 2;
constexpr std::uint8_t kWithoutKeepLast = 1;
constexpr std::uint64_t kNoLayout = 0;  // a class that names none
constexpr std::size_t kFileBytesMax = std::size_t{64} << 20;

std::string FilePath(const std::string& database_path) { return database_path + "/retention"; }

// Returns the oldest format that has all that these rules say, because an earlier TopicDB can read
// that one.
std::uint8_t FormatOf(const std::vector<RetentionRule>& rules) {
  std::uint8_t format = kWithoutKeepLast;
  for (const RetentionRule& rule : rules) {
    if (rule.limits.keep_last > 0) format = std::max(format, kWithoutLayout);
    if (rule.limits.layout.has_value()) format = kVersion;
  }
  return format;
}

std::uint64_t NumberOf(const std::optional<LayoutKind>& layout) {
  return layout.has_value() ? static_cast<std::uint64_t>(*layout) : kNoLayout;
}

// Reads a layout, or that a class names none. Returns false if there is no such layout.
bool ReadLayout(Decoder* decoder, std::optional<LayoutKind>* layout) {
  const std::uint64_t number = decoder->Varint();
  if (number == kNoLayout) return true;
  *layout = static_cast<LayoutKind>(number);
  return number == NumberOf(LayoutKind::kSkipstream) || number == NumberOf(LayoutKind::kColumnar);
}

void AppendRules(std::string* out, const std::vector<RetentionRule>& rules, std::uint8_t format) {
  AppendVarint(out, rules.size());
  for (const RetentionRule& rule : rules) {
    AppendVarint(out, rule.id.value());
    AppendVarint(out, static_cast<std::uint64_t>(rule.limits.age.count()));
    AppendVarint(out, rule.limits.bytes_max);
    AppendVarint(out, static_cast<std::uint64_t>(rule.limits.rotation_period.count()));
    if (format > kWithoutKeepLast) AppendVarint(out, rule.limits.keep_last);
    if (format > kWithoutLayout) AppendVarint(out, NumberOf(rule.limits.layout));
    AppendPrefixed(out, rule.limits.filter);
  }
}

// Returns nothing if the bytes are malformed.
std::optional<std::vector<RetentionRule>> ReadRules(Decoder* decoder, std::uint8_t format) {
  std::vector<RetentionRule> rules;
  const std::uint64_t count = decoder->Varint();
  for (std::uint64_t i = 0; decoder->ok() && i < count; ++i) {
    RetentionRule rule;
    rule.id = RetentionClassId{static_cast<std::uint32_t>(decoder->Varint())};
    rule.limits.age = std::chrono::microseconds(decoder->Varint());
    rule.limits.bytes_max = decoder->Varint();
    rule.limits.rotation_period = std::chrono::microseconds(decoder->Varint());
    if (format > kWithoutKeepLast) {
      rule.limits.keep_last = static_cast<std::uint32_t>(decoder->Varint());
    }
    if (format > kWithoutLayout && !ReadLayout(decoder, &rule.limits.layout)) return std::nullopt;
    rule.limits.filter = decoder->Prefixed();
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace

std::string EncodeRetention(const RetentionRules& rules) {
  std::string record(kMagic);
  const std::uint8_t format = std::max(FormatOf(rules.live()), FormatOf(rules.retired()));
  record.push_back(static_cast<char>(format));
  AppendVarint(&record, rules.version());
  AppendVarint(&record, rules.reserved().value());
  AppendRules(&record, rules.live(), format);
  AppendRules(&record, rules.retired(), format);
  return CloseRecord(std::move(record));
}

Result<RetentionRules> DecodeRetention(std::string_view bytes, const std::string& path) {
  const std::optional<std::string_view> content = OpenRecord(bytes, kMagic);
  if (!content.has_value()) return Corruption(path + " is damaged, or no file of TopicDB's");
  Decoder decoder(*content);
  const auto format = decoder.Little<std::uint8_t>();
  if (decoder.ok() && (format < kWithoutKeepLast || format > kVersion)) {
    return SchemaFault(path + " has format " + std::to_string(format) +
                       ": open it with the newer TopicDB that wrote it");
  }
  const std::uint64_t version = decoder.Varint();
  const RetentionClassId reserved{static_cast<std::uint32_t>(decoder.Varint())};
  const auto live = ReadRules(&decoder, format);
  const auto retired = live.has_value() ? ReadRules(&decoder, format) : std::nullopt;
  const bool is_whole = retired.has_value() && decoder.Finished();
  if (!is_whole) return Corruption(path + " is malformed");
  auto rules = RetentionRules::Restore(version, reserved, *live, *retired);
  if (rules.ok()) return rules;
  return Corruption(path + ": " + rules.status().message());
}

Result<RetentionRules> LoadRetention(const std::string& database_path,
                                     const std::vector<RetentionClass>& created_with) {
  const std::string path = FilePath(database_path);
  const Result<std::string> bytes = ReadFile(path, kFileBytesMax);
  if (bytes.ok()) return DecodeRetention(*bytes, path);
  if (bytes.status().code() != Code::kNotFound) return bytes.status();
  return RetentionRules::Make(created_with);
}

Status StoreRetention(const std::string& database_path, const RetentionRules& rules) {
  return WriteFileAtomically(FilePath(database_path), EncodeRetention(rules));
}

Status RemoveRetention(const std::string& database_path) {
  const std::string path = FilePath(database_path);
  return Exists(path) ? RemoveFile(path) : Status::Ok();
}

void RetentionState::Set(RetentionRules rules) {
  auto shared = std::make_shared<const RetentionRules>(std::move(rules));
  const MutexLock lock(mutex_);
  if (shared->version() > rules_->version()) rules_ = std::move(shared);
}

}  // namespace topicdb
