#include "store/job/staged_file.h"

#include <sys/stat.h>

#include <limits>

#include "base/bytes/checked_record.h"
#include "base/bytes/coding.h"
#include "base/file/files.h"

namespace topicdb {

namespace {

constexpr std::string_view kMagic = "TDBSTAG\n";
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kStagedFileBytesMax = std::size_t{4} << 30;
constexpr std::uint8_t kGivenTimes = 1;
constexpr std::uint8_t kAssignedTimes = 2;

void AppendTopics(const std::vector<StagedTopic>& topics, std::string* out) {
  AppendVarint(out, topics.size());
  std::string_view before;
  std::uint32_t group = 0;
  for (const StagedTopic& topic : topics) {
    const auto [a, b] =
        std::mismatch(before.begin(), before.end(), topic.text.begin(), topic.text.end());
    const auto shared = static_cast<std::size_t>(a - before.begin());
    AppendVarint(out, topic.group - group);
    AppendVarint(out, shared);
    AppendPrefixed(out, std::string_view(topic.text).substr(shared));
    before = topic.text;
    group = topic.group;
  }
}

bool ReadTopics(Decoder* decoder, std::vector<StagedTopic>* topics) {
  const std::uint64_t count = decoder->Varint();
  if (count == 0 || count > decoder->rest().size()) return false;
  topics->resize(count);
  std::string_view before;
  std::uint64_t group = 0;
  for (StagedTopic& topic : *topics) {
    group += decoder->Varint();
    const std::uint64_t shared = decoder->Varint();
    if (group == 0 || group > std::numeric_limits<std::uint32_t>::max() || shared > before.size()) {
      return false;
    }
    topic.group = static_cast<std::uint32_t>(group);
    topic.text.assign(before.substr(0, shared));
    topic.text.append(decoder->Prefixed());
    before = topic.text;
  }
  return decoder->ok();
}

void AppendBlock(const StagedBlock& block, std::string* out) {
  AppendLittle<std::uint64_t>(out, block.pages);
  out->push_back(static_cast<char>(block.assigns_times ? kAssignedTimes : kGivenTimes));
  AppendVarint(out, block.rows);
  AppendVarint(out, block.bytes);
  AppendVarint(out, static_cast<std::uint64_t>(block.first_time));
  AppendVarint(out, static_cast<std::uint64_t>(block.last_time));
  AppendPrefixed(out, block.entry);
  AppendPrefixed(out, block.directory);
  AppendPrefixed(out, block.word_filter);
  AppendTopics(block.topics, out);
}

bool ReadBlock(Decoder* decoder, StagedBlock* block) {
  block->pages = decoder->Little<std::uint64_t>();
  const auto times = decoder->Little<std::uint8_t>();
  block->assigns_times = times == kAssignedTimes;
  const std::uint64_t rows = decoder->Varint();
  block->rows = static_cast<std::uint32_t>(rows);
  block->bytes = decoder->Varint();
  block->first_time = static_cast<std::int64_t>(decoder->Varint());
  block->last_time = static_cast<std::int64_t>(decoder->Varint());
  block->entry = decoder->Prefixed();
  block->directory = decoder->Prefixed();
  block->word_filter = decoder->Prefixed();
  return (times == kGivenTimes || times == kAssignedTimes) && block->pages >= kStagedPagesMin &&
         rows > 0 && rows == block->rows && block->first_time >= 0 &&
         block->last_time >= block->first_time && ReadTopics(decoder, &block->topics);
}

bool ReadPart(Decoder* decoder, StagedPart* part) {
  const std::uint64_t shard = decoder->Varint();
  const std::uint64_t retention_class = decoder->Varint();
  part->shard = static_cast<std::uint32_t>(shard);
  part->retention_class = RetentionClassId{static_cast<std::uint32_t>(retention_class)};
  part->pages_file = decoder->Prefixed();
  part->pages_file_bytes = decoder->Varint();
  part->messages = decoder->Varint();
  part->bytes = decoder->Varint();
  const std::uint64_t blocks = decoder->Varint();
  part->block_count = static_cast<std::uint32_t>(blocks);
  part->blocks = decoder->Prefixed();
  const bool is_name = !part->pages_file.empty() && part->pages_file.find('/') == std::string::npos;
  return decoder->ok() && is_name && part->shard == shard &&
         part->retention_class.value() == retention_class && blocks > 0 &&
         blocks <= part->blocks.size();
}

}  // namespace

void AppendStagedBlock(const StagedBlock& block, StagedPart* part) {
  AppendBlock(block, &part->blocks);
  ++part->block_count;
  part->messages += block.rows;
  part->bytes += block.bytes;
}

Status ForEachStagedBlock(const StagedPart& part,
                          const std::function<Status(const StagedBlock&)>& visit) {
  Decoder decoder(part.blocks);
  StagedBlock block;
  for (std::uint32_t i = 0; i < part.block_count; ++i) {
    if (!ReadBlock(&decoder, &block)) return Corruption("a staged block is malformed");
    TOPICDB_RETURN_IF_ERROR(visit(block));
  }
  return decoder.Finished() ? Status::Ok() : Corruption("staged blocks are malformed");
}

Status CheckPagesFile(const std::string& directory, const StagedPart& part) {
  const std::string path = directory + "/" + part.pages_file;
  struct stat info{};
  const bool whole = stat(path.c_str(), &info) == 0 &&
                     static_cast<std::uint64_t>(info.st_size) == part.pages_file_bytes;
  return whole ? Status::Ok() : Corruption(path + " is missing or cut off");
}

Result<StagedFile> LoadStagedFile(const std::string& directory, const std::string& name) {
  const std::string file = directory + "/" + name;
  TOPICDB_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file, kStagedFileBytesMax));
  return DecodeStagedFile(bytes, file);
}

Status CheckStagedFile(const std::string& directory, const std::string& name) {
  TOPICDB_ASSIGN_OR_RETURN(const StagedFile file, LoadStagedFile(directory, name));
  for (const StagedPart& part : file.parts) {
    TOPICDB_RETURN_IF_ERROR(CheckPagesFile(directory, part));
  }
  return Status::Ok();
}

std::string EncodeStagedFile(const StagedFile& file) {
  std::string bytes(kMagic);
  bytes.push_back(static_cast<char>(kVersion));
  bytes.append(file.database.begin(), file.database.end());
  AppendVarint(&bytes, file.parts.size());
  for (const StagedPart& part : file.parts) {
    AppendVarint(&bytes, part.shard);
    AppendVarint(&bytes, part.retention_class.value());
    AppendPrefixed(&bytes, part.pages_file);
    AppendVarint(&bytes, part.pages_file_bytes);
    AppendVarint(&bytes, part.messages);
    AppendVarint(&bytes, part.bytes);
    AppendVarint(&bytes, part.block_count);
    AppendPrefixed(&bytes, part.blocks);
  }
  return CloseRecord(std::move(bytes));
}

Result<StagedFile> DecodeStagedFile(std::string_view bytes, const std::string& path) {
  if (!bytes.starts_with(kMagic)) return Corruption(path + " is no staged file of TopicDB");
  const auto body = OpenRecord(bytes, kMagic);
  if (!body.has_value()) return Corruption(path + " is damaged (checksum)");
  Decoder decoder(*body);
  const auto version = decoder.Little<std::uint8_t>();
  if (version != kVersion) {
    return SchemaFault(path + " has version " + std::to_string(version) +
                       ", this TopicDB reads version " + std::to_string(kVersion));
  }
  StagedFile file;
  decoder.Array(&file.database);
  const std::uint64_t parts = decoder.Varint();
  if (parts > decoder.rest().size()) return Corruption(path + " is malformed");
  file.parts.resize(parts);
  for (StagedPart& part : file.parts) {
    if (!ReadPart(&decoder, &part)) return Corruption(path + " is malformed");
  }
  if (!decoder.Finished()) return Corruption(path + " is malformed");
  return file;
}

}  // namespace topicdb
