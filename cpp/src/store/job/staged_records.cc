#include "store/job/staged_records.h"

#include "base/bytes/coding.h"
#include "store/catalog/meta.h"

namespace topicdb {

namespace {

// DO NOT CHANGE THESE VALUES: they are on disk.
constexpr char kBegin = 1;
constexpr char kFile = 2;
constexpr char kPart = 3;
constexpr char kBlocks = 4;
constexpr char kPage = 5;
constexpr char kChoice = 6;

constexpr char kVersion = 1;

// Neither names of jobs nor those of files have it.
constexpr char kNameEnd = '\0';

std::string Rest(char kind, std::string_view name) {
  std::string rest(1, kind);
  rest += name;
  return rest;
}

std::string RestOf(char kind, const StagedPlaceName& name) {
  std::string rest = Rest(kind, name.file);
  rest.push_back(kNameEnd);
  AppendBig<std::uint32_t>(&rest, name.retention_class.value());
  return rest;
}

// Returns what reads the fields of a record, or nothing if it is of another version.
Decoder Open(std::string_view bytes) {
  Decoder decoder(bytes);
  if (decoder.Little<std::uint8_t>() != kVersion) decoder.Refuse();
  return decoder;
}

}  // namespace

std::string StagedPrefix() { return std::string(1, static_cast<char>(meta::KeyKind::kStaged)); }

std::string StagedEnd() { return std::string(1, static_cast<char>(meta::KeyKind::kStaged) + 1); }

std::string JobStagedPrefix(std::string_view job) {
  std::string prefix = StagedPrefix();
  prefix += job;
  prefix.push_back(kNameEnd);
  return prefix;
}

std::string JobStagedEnd(std::string_view job) {
  std::string end = JobStagedPrefix(job);
  end.back() = kNameEnd + 1;
  return end;
}

std::string_view JobOfStagedKey(std::string_view key) {
  if (!key.starts_with(StagedPrefix())) return {};
  const std::size_t end = key.find(kNameEnd);
  return end == std::string_view::npos ? std::string_view() : key.substr(1, end - 1);
}

std::string StagedPageRest(const StagedPlaceName& name, std::string_view page) {
  std::string rest = RestOf(kPage, name);
  rest += page;
  return rest;
}

std::string StagedBlocksRest(const StagedPlaceName& name, std::uint32_t piece) {
  std::string rest = RestOf(kBlocks, name);
  AppendBig(&rest, piece);
  return rest;
}

std::string StagedPartRest(const StagedPlaceName& name) { return RestOf(kPart, name); }

std::string StagedPartsRest(std::string_view file) {
  std::string rest = Rest(kPart, file);
  rest.push_back(kNameEnd);
  return rest;
}

bool DecodeStagedPartRest(std::string_view rest, std::string_view file, RetentionClassId* found) {
  const std::string prefix = StagedPartsRest(file);
  if (!rest.starts_with(prefix)) return false;
  Decoder decoder(rest.substr(prefix.size()));
  *found = RetentionClassId{decoder.Big<std::uint32_t>()};
  return decoder.Finished();
}

std::string Encode(const StagedPartRecord& record) {
  std::string bytes(1, kVersion);
  AppendVarint(&bytes, record.messages);
  AppendVarint(&bytes, record.bytes);
  AppendVarint(&bytes, record.block_count);
  AppendVarint(&bytes, record.blocks_bytes);
  return bytes;
}

bool Decode(std::string_view bytes, StagedPartRecord* record) {
  Decoder decoder = Open(bytes);
  record->messages = decoder.Varint();
  record->bytes = decoder.Varint();
  const std::uint64_t blocks = decoder.Varint();
  record->block_count = static_cast<std::uint32_t>(blocks);
  record->blocks_bytes = decoder.Varint();
  return decoder.Finished() && blocks > 0 && record->block_count == blocks &&
         blocks <= record->blocks_bytes;
}

std::string StagedBeginRest(std::string_view file) { return Rest(kBegin, file); }

bool IsStagedBeginRest(std::string_view rest) { return rest.starts_with(kBegin); }

std::string EncodeStagedBegin(std::int64_t at) {
  std::string bytes(1, kVersion);
  AppendLittle(&bytes, static_cast<std::uint64_t>(at));
  return bytes;
}

bool DecodeStagedBegin(std::string_view bytes, std::int64_t* at) {
  Decoder decoder = Open(bytes);
  *at = static_cast<std::int64_t>(decoder.Little<std::uint64_t>());
  return decoder.Finished();
}

std::string StagedFileRest(std::string_view file) { return Rest(kFile, file); }

std::string Encode(const StagedFileRecord& record) {
  std::string bytes(1, kVersion);
  AppendVarint(&bytes, record.parts.size());
  for (const StagedFileRecord::Part& part : record.parts) {
    AppendVarint(&bytes, part.shard);
    AppendVarint(&bytes, part.retention_class.value());
    AppendVarint(&bytes, part.messages);
    AppendVarint(&bytes, part.bytes);
  }
  return bytes;
}

bool Decode(std::string_view bytes, StagedFileRecord* record) {
  Decoder decoder = Open(bytes);
  record->parts.clear();
  // A count that is too large ends at the first part that is not there.
  const std::uint64_t parts = decoder.Varint();
  for (std::uint64_t i = 0; i < parts && decoder.ok(); ++i) {
    StagedFileRecord::Part& part = record->parts.emplace_back();
    part.shard = static_cast<std::uint32_t>(decoder.Varint());
    part.retention_class = RetentionClassId{static_cast<std::uint32_t>(decoder.Varint())};
    part.messages = decoder.Varint();
    part.bytes = decoder.Varint();
  }
  return decoder.Finished();
}

std::string StagedChoicesRest() { return std::string(1, kChoice); }

std::string StagedChoiceRest(const CommitId& commit) {
  std::string rest = StagedChoicesRest();
  rest.append(commit.begin(), commit.end());
  return rest;
}

std::string Encode(const StagedChoice& choice) {
  std::string bytes(1, kVersion);
  AppendLittle(&bytes, choice.epoch);
  AppendVarint(&bytes, choice.files.size());
  for (const std::string& file : choice.files) AppendPrefixed(&bytes, file);
  return bytes;
}

bool Decode(std::string_view bytes, StagedChoice* choice) {
  Decoder decoder = Open(bytes);
  choice->epoch = decoder.Little<std::uint64_t>();
  choice->files.clear();
  const std::uint64_t files = decoder.Varint();
  for (std::uint64_t i = 0; i < files && decoder.ok(); ++i) {
    choice->files.emplace_back(decoder.Prefixed());
  }
  return decoder.Finished();
}

}  // namespace topicdb
