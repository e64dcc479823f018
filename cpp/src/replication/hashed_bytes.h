// Byte strings that begin with a version and end with a hash of all before it: what sites hand to
// each other, and keep of each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes/coding.h"
#include "base/bytes/hash.h"
#include "topicdb/status.h"

namespace topicdb::replication {

inline void AppendHash(std::string* bytes) { AppendLittle<std::uint64_t>(bytes, Hash64(*bytes)); }

// Returns what is before the hash, or nothing if the hash is wrong.
inline std::optional<std::string_view> WithoutHash(std::string_view bytes) {
  constexpr std::size_t kHashBytes = 8;
  if (bytes.size() < kHashBytes) return std::nullopt;
  const std::string_view content = bytes.substr(0, bytes.size() - kHashBytes);
  Decoder hash(bytes.substr(content.size()));
  return hash.Little<std::uint64_t>() == Hash64(content) ? std::optional(content) : std::nullopt;
}

// Returns a decoder of what is between the version and the hash. Returns kCorruption, which names
// `what`, if the hash is wrong, and kSchema for a version that is later than `version_max`.
inline Result<Decoder> OpenHashed(std::string_view bytes, const std::string& what,
                                  std::uint8_t version_max) {
  const auto content = WithoutHash(bytes);
  Decoder decoder(content.value_or(std::string_view()));
  const auto version = decoder.Little<std::uint8_t>();
  if (version == 0) return Corruption(what + " is damaged");
  if (version <= version_max) return decoder;
  return SchemaFault(what + " is of a later version of TopicDB (" + std::to_string(version) +
                     "): upgrade TopicDB on this site");
}

// Returns kSchema for bytes of a kind that this version of TopicDB does not have. Their hash is
// right, so they are not damaged.
inline Status UnknownKind(const std::string& what, std::uint8_t kind) {
  return SchemaFault(what + " is of a later version of TopicDB (kind " + std::to_string(kind) +
                     "): upgrade TopicDB on this site");
}

}  // namespace topicdb::replication
