// How sites tell each other what became of something.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes/coding.h"
#include "topicdb/status.h"

namespace topicdb::replication {

// Appends the code, 1 byte, and the message with its length before it.
inline void AppendStatus(std::string* out, const Status& status) {
  AppendLittle(out, static_cast<std::uint8_t>(status.code()));
  AppendPrefixed(out, status.message());
}

// Returns kSchema for a code that this version of TopicDB does not have, and else the status in
// `found`.
inline Status ReadStatus(Decoder* decoder, Status* found) {
  const auto code = decoder->Little<std::uint8_t>();
  const std::string_view message = decoder->Prefixed();
  if (code > static_cast<std::uint8_t>(Code::kCluster)) {
    return SchemaFault("an error of a later version of TopicDB (" + std::to_string(code) +
                       "): upgrade TopicDB on this site");
  }
  if (code != 0) *found = Status(static_cast<Code>(code), std::string(message));
  return Status::Ok();
}

}  // namespace topicdb::replication
