// Values with MQTT properties: how a message with its properties is stored as one value, and what
// readers see of such values. docs/properties.md tells why; docs/format.md draws the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topicdb/message.h"

namespace topicdb {

struct UserProperty {
  std::string_view name;
  std::string_view value;

  bool operator==(const UserProperty&) const = default;
};

// A payload, how it was published, and its MQTT 5 properties. Borrows the bytes that it was decoded
// from, or that it is to be made of.
struct Envelope {
  std::string_view payload;
  // False: an escape. The payload is a value without properties that would be taken for an envelope
  // if it were stored as it is; nothing else counts then.
  bool has_properties = true;
  std::uint8_t qos = 0;
  bool retain = false;
  std::string_view client_id;  // of the publisher; empty: not known
  std::optional<std::uint8_t> payload_format;
  std::optional<std::int64_t> message_expiry_s;
  std::optional<std::string_view> content_type;
  std::optional<std::string_view> response_topic;
  std::optional<std::string_view> correlation_data;
  std::vector<UserProperty> user_properties;
  std::vector<std::int64_t> subscription_ids;
  // When it was received, µs since the epoch; absent: at the timestamp of the message.
  std::optional<std::int64_t> received_us;

  bool operator==(const Envelope&) const = default;

  // REQUIRES: texts are UTF-8, numbers are not negative.
  std::string Encode() const;
  // Whether `value` is an envelope. If not, what this holds has no meaning.
  bool Decode(std::string_view value);
};

inline constexpr std::string_view kEnvelopeMagic = "\xf5TDE";  // 0xf5 begins no UTF-8 text

// Whether a value may be an envelope, by its first bytes: one that does not begin so is none.
inline bool MayBeEnvelope(std::string_view value) { return value.starts_with(kEnvelopeMagic); }

// What readers see of a stored value: its payload if it is an envelope, else itself.
std::string_view PayloadOf(std::string_view stored);
// What is to be stored so that readers see `value`, if that is not the value itself.
std::optional<std::string> EscapedValue(std::string_view value);

// How values are read. DO NOT CHANGE the order: bindings pass the number.
enum class ValueForm : std::uint8_t {
  kStored = 0,      // as they are stored
  kPayload = 1,     // payloads
  kProperties = 2,  // payloads, and properties beside them
};

// The same messages with their payloads as values: `stored` itself if it has no envelopes, which is
// known by the first bytes of each value.
std::shared_ptr<const Batch> PayloadsOf(const std::shared_ptr<const Batch>& stored);

}  // namespace topicdb
