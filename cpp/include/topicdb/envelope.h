// Values with MQTT properties: how one value stores a message with its properties, and what readers
// see of such values. docs/concepts/properties.md tells why; docs/internals/format.md draws them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/message.h"
#include "topicdb/types/times.h"

namespace topicdb {

// A name and a value that a publisher has chosen. Points into other memory, as Envelope does.
struct UserProperty {
  std::string_view name;
  std::string_view value;

  bool operator==(const UserProperty&) const = default;
};

// A payload, how it was published, and its MQTT 5 properties. Points into the bytes that it was
// decoded from or will be encoded from. The caller must keep these alive. Not thread-safe: threads
// may only read it at the same time.
struct Envelope {
  std::string_view payload;
  // False for an escape: the payload is a value without properties that readers would take for an
  // envelope if it were stored as it is. The other members have no meaning then.
  bool has_properties = true;
  std::uint8_t qos = 0;
  bool retain = false;
  std::string_view client_id;  // of the publisher; empty if unknown
  std::optional<std::uint8_t> payload_format;
  std::optional<std::int64_t> message_expiry_s;
  std::optional<std::string_view> content_type;
  std::optional<std::string_view> response_topic;
  std::optional<std::string_view> correlation_data;
  std::vector<UserProperty> user_properties;
  std::vector<std::int64_t> subscription_ids;
  std::optional<WallTime> received_at;  // absent: at the timestamp of the message

  bool operator==(const Envelope&) const = default;

  // Returns the bytes of the envelope. REQUIRES: texts are UTF-8, numbers are not negative
  std::string Encode() const;
  // Returns whether `value` is an envelope, and sets this to it. If not, the content of this has no
  // meaning.
  bool Decode(std::string_view value);
};

inline constexpr std::string_view kEnvelopeMagic = "\xf5TDE";  // 0xf5 begins no UTF-8 text

// Returns whether a value may be an envelope, by its first bytes.
inline bool MayBeEnvelope(std::string_view value) { return value.starts_with(kEnvelopeMagic); }

// Returns what readers see of a stored value: the payload of an envelope, or else the value itself.
std::string_view PayloadOf(std::string_view stored);
// Returns what must be stored so that readers see `value`. Absent if that is `value` itself.
std::optional<std::string> EscapedValue(std::string_view value);

// How reads return values. DO NOT CHANGE the order: bindings pass the number.
enum class ValueForm : std::uint8_t {
  kStored = 0,      // as they are stored
  kPayload = 1,     // payloads
  kProperties = 2,  // payloads, with the properties beside them
};

// Returns the same messages with their payloads as values. Returns `stored` itself if it has no
// envelopes, which it tells by the first bytes of each value.
std::shared_ptr<const Batch> PayloadsOf(const std::shared_ptr<const Batch>& stored);

}  // namespace topicdb
