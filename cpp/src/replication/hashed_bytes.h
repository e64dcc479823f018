// Byte strings that end with a hash of all before it: what replicas hand to each other.
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

// Returns kSchema for bytes of a version that this process does not know.
inline Status LaterVersion(const std::string& what, std::uint8_t version) {
  return SchemaFault(what + " is of a later version of TopicDB (" + std::to_string(version) +
                     "): upgrade TopicDB on this site");
}

}  // namespace topicdb::replication
