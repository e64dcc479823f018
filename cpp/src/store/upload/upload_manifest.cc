#include <optional>
#include <string>
#include <string_view>

#include "base/bytes/checked_record.h"
#include "base/bytes/coding.h"
#include "store/catalog/found_database.h"
#include "topicdb/database/upload.h"

namespace topicdb {

namespace {

// docs/internals/uploads.md, "The manifest".
constexpr std::string_view kMagic("TDBUPLD\n", 8);
constexpr std::uint8_t kVersion = 1;

// Returns whether a file with this path stays in the directory of the database.
bool StaysInside(std::string_view path) {
  for (std::string_view rest = path;;) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    const bool is_plain =
        !part.empty() && part != "." && part != ".." && part.find('\0') == std::string_view::npos;
    if (!is_plain) return false;
    if (slash == std::string_view::npos) return true;
    rest.remove_prefix(slash + 1);
  }
}

Result<UploadManifest> DecodeContent(std::string_view content, const std::string& name) {
  Decoder decoder(content);
  const auto version = decoder.Little<std::uint8_t>();
  if (decoder.ok() && version != kVersion) {
    return SchemaFault(name + " has format " + std::to_string(version) +
                       ": read it with the newer TopicDB that uploaded it");
  }
  UploadManifest manifest;
  decoder.Array(&manifest.database);
  manifest.number = decoder.Varint();
  manifest.made_at = static_cast<std::int64_t>(decoder.Little<std::uint64_t>());
  const std::uint64_t count = decoder.Varint();
  for (std::uint64_t i = 0; decoder.ok() && i < count; ++i) {
    UploadedFile file;
    file.path = decoder.Prefixed();
    file.object = decoder.Prefixed();
    file.bytes = decoder.Varint();
    file.crc32 = decoder.Little<std::uint32_t>();
    if (decoder.ok() && (!StaysInside(file.path) || file.object.empty())) {
      return Corruption(name + " names a file that no database has: '" + file.path + "'");
    }
    manifest.files.push_back(std::move(file));
  }
  if (!decoder.Finished()) return Corruption(name + " is malformed");
  return manifest;
}

}  // namespace

Result<DatabaseId> ReadDatabaseId(const std::string& path) {
  TOPICDB_ASSIGN_OR_RETURN(const FoundDatabase found, FindDatabase(path));
  return found.descriptor.id;
}

std::string EncodeUpload(const UploadManifest& manifest) {
  std::string record(kMagic);
  record.push_back(static_cast<char>(kVersion));
  record.append(manifest.database.begin(), manifest.database.end());
  AppendVarint(&record, manifest.number);
  AppendLittle(&record, static_cast<std::uint64_t>(manifest.made_at));
  AppendVarint(&record, manifest.files.size());
  for (const UploadedFile& file : manifest.files) {
    AppendPrefixed(&record, file.path);
    AppendPrefixed(&record, file.object);
    AppendVarint(&record, file.bytes);
    AppendLittle(&record, file.crc32);
  }
  return CloseRecord(std::move(record));
}

Result<UploadManifest> DecodeUpload(std::string_view bytes, const std::string& name) {
  const std::optional<std::string_view> content = OpenRecord(bytes, kMagic);
  if (!content.has_value()) {
    return Corruption(name + " is damaged, or no manifest of an upload: upload the database again");
  }
  return DecodeContent(*content, name);
}

}  // namespace topicdb
