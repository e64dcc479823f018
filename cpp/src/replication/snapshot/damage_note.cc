#include "replication/snapshot/damage_note.h"

#include "base/bytes/coding.h"
#include "base/file/files.h"
#include "replication/hashed_bytes.h"
#include "store/care/quarantine.h"

namespace topicdb::replication {

namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kNoteBytesMax = 64 << 10;
constexpr std::size_t kWhyBytesMax = 4'000;

std::string DirectoryOf(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }
std::string PathOf(const std::string& shard_directory) { return shard_directory + ".damaged"; }

}  // namespace

std::string Encode(const DamageNote& note) {
  std::string bytes;
  bytes.push_back(static_cast<char>(kVersion));
  AppendPrefixed(&bytes, note.copy);
  bytes.push_back(note.is_aside ? 1 : 0);
  AppendPrefixed(&bytes, std::string_view(note.why).substr(0, kWhyBytesMax));
  AppendHash(&bytes);
  return bytes;
}

Result<DamageNote> DecodeDamageNote(std::string_view bytes) {
  const std::string what = "the note of a damaged shard";
  TOPICDB_ASSIGN_OR_RETURN(Decoder decoder, OpenHashed(bytes, what, kVersion));
  DamageNote note;
  note.copy = decoder.Prefixed();
  const auto aside = decoder.Little<std::uint8_t>();
  note.is_aside = aside != 0;
  note.why = decoder.Prefixed();
  const bool is_name = !note.copy.empty() && note.copy.find('/') == std::string::npos;
  if (!decoder.Finished() || aside > 1 || !is_name) return Corruption(what + " is damaged");
  return note;
}

Result<std::optional<DamageNote>> LoadDamageNote(const std::string& shard_directory) {
  const auto bytes = ReadFile(PathOf(shard_directory), kNoteBytesMax);
  if (bytes.status().code() == Code::kNotFound) return std::optional<DamageNote>();
  TOPICDB_RETURN_IF_ERROR(bytes.status());
  auto note = DecodeDamageNote(*bytes);
  // Nobody notes anything of a copy that is well.
  if (note.status().code() == Code::kCorruption) {
    return std::optional(
        DamageNote{NameOf(FollowLink(shard_directory)), false, note.status().message()});
  }
  TOPICDB_RETURN_IF_ERROR(note.status().WithContext(PathOf(shard_directory)));
  return std::optional(std::move(*note));
}

Status StoreDamageNote(const std::string& shard_directory, const DamageNote& note) {
  return WriteFileAtomically(PathOf(shard_directory), Encode(note));
}

Status MoveAside(const std::string& shard_directory, const std::string& copy) {
  const std::string shards = DirectoryOf(shard_directory);
  TOPICDB_ASSIGN_OR_RETURN(const std::string quarantine, MakeQuarantine(DirectoryOf(shards)));
  TOPICDB_RETURN_IF_ERROR(Rename(shards + "/" + copy, quarantine + "/" + NameOf(shard_directory)));
  TOPICDB_RETURN_IF_ERROR(SyncDirectory(quarantine));
  return SyncDirectory(shards);
}

Status FinishDamage(const std::string& shard_directory, const std::string& copy) {
  TOPICDB_ASSIGN_OR_RETURN(const auto note, LoadDamageNote(shard_directory));
  if (!note.has_value() || note->copy != copy) return Status::Ok();
  const std::string path = DirectoryOf(shard_directory) + "/" + copy;
  if (note->is_aside) {
    TOPICDB_RETURN_IF_ERROR(RemoveTree(path));
  } else if (IsDirectory(path)) {
    TOPICDB_RETURN_IF_ERROR(MoveAside(shard_directory, copy));
  }
  return RemoveFile(PathOf(shard_directory));
}

}  // namespace topicdb::replication
