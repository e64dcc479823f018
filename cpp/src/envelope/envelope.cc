#include "topicdb/envelope.h"

#include <limits>

#include "base/bytes/coding.h"
#include "base/bytes/crc32.h"
#include "base/bytes/utf8.h"

namespace topicdb {

namespace {

// DO NOT CHANGE THESE VALUES: they are on disk. Version 2 adds kReceived and kEscape. Encode writes
// it only if an envelope has one of these fields, so programs that know only version 1 can read all
// other envelopes.
constexpr char kVersion = 1;
constexpr char kVersionWithMore = 2;
enum Field : char {
  kQos = 1,
  kRetain = 2,
  kClientId = 3,
  kPayloadFormat = 4,
  kExpiry = 5,
  kContentType = 6,
  kResponseTopic = 7,
  kCorrelationData = 8,
  kUserProperty = 9,
  kSubscriptionId = 10,
  kReceived = 11,
  kEscape = 12,
  kPayload = 15,
};
constexpr std::size_t kCrcBytes = 4;

void AppendText(std::string* out, Field field, std::string_view text) {
  out->push_back(field);
  AppendPrefixed(out, text);
}

void AppendNumber(std::string* out, Field field, std::int64_t number) {
  out->push_back(field);
  AppendVarint(out, static_cast<std::uint64_t>(number));
}

void AppendByte(std::string* out, Field field, std::uint8_t byte) {
  out->push_back(field);
  out->push_back(static_cast<char>(byte));
}

void AppendProperties(std::string* out, const Envelope& envelope) {
  if (envelope.qos != 0) AppendByte(out, kQos, envelope.qos);
  if (envelope.retain) AppendByte(out, kRetain, 1);
  if (!envelope.client_id.empty()) AppendText(out, kClientId, envelope.client_id);
  if (envelope.payload_format) AppendByte(out, kPayloadFormat, *envelope.payload_format);
  if (envelope.message_expiry_s) AppendNumber(out, kExpiry, *envelope.message_expiry_s);
  if (envelope.content_type) AppendText(out, kContentType, *envelope.content_type);
  if (envelope.response_topic) AppendText(out, kResponseTopic, *envelope.response_topic);
  if (envelope.correlation_data) AppendText(out, kCorrelationData, *envelope.correlation_data);
  for (const UserProperty& property : envelope.user_properties) {
    AppendText(out, kUserProperty, property.name);
    AppendPrefixed(out, property.value);
  }
  for (const std::int64_t id : envelope.subscription_ids) AppendNumber(out, kSubscriptionId, id);
  if (envelope.received_at) AppendNumber(out, kReceived, MicrosecondsOf(*envelope.received_at));
}

// Reads the fields of one envelope. Envelope::Decode owns it. Not thread-safe.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : decoder_(bytes) {}

  // Reads all fields into `out`. Returns false if they are not the fields of an envelope of this
  // version.
  bool ReadAll(char version, Envelope* out) {
    bool has_more = false;  // whether there is a field that only version 2 has
    for (std::size_t count = 0; ok_; ++count) {
      const auto field = static_cast<Field>(Byte());
      if (field == kPayload) {
        out->payload = decoder_.Prefixed();
        return ok_ && decoder_.Finished() && has_more == (version == kVersionWithMore) &&
               (out->has_properties || count == 1);  // an escape has no other fields
      }
      has_more = has_more || field == kReceived || field == kEscape;
      Read(field, out);
    }
    return false;
  }

 private:
  void Read(Field field, Envelope* out) {
    switch (field) {
      case kQos:
        out->qos = Byte();
        return;
      case kRetain:
        out->retain = Byte() != 0;
        return;
      case kClientId:
        out->client_id = Text();
        return;
      case kPayloadFormat:
        out->payload_format = Byte();
        return;
      case kExpiry:
        out->message_expiry_s = Number();
        return;
      case kContentType:
        out->content_type = Text();
        return;
      case kResponseTopic:
        out->response_topic = Text();
        return;
      case kCorrelationData:
        out->correlation_data = decoder_.Prefixed();
        return;
      case kUserProperty: {
        const std::string_view name = Text();
        out->user_properties.push_back({name, Text()});
        return;
      }
      case kSubscriptionId:
        out->subscription_ids.push_back(Number());
        return;
      case kReceived:
        out->received_at = TimeAt<WallTime>(Number());
        return;
      case kEscape:
        out->has_properties = false;
        return;
      case kPayload:
        break;
    }
    ok_ = false;  // an unknown field: an envelope with new fields has another version
  }

  std::uint8_t Byte() {
    const auto byte = decoder_.Little<std::uint8_t>();
    ok_ = ok_ && decoder_.ok();
    return byte;
  }

  std::int64_t Number() {
    const std::uint64_t number = decoder_.Varint();
    ok_ = ok_ && decoder_.ok() && number <= std::numeric_limits<std::int64_t>::max();
    return static_cast<std::int64_t>(number);
  }

  std::string_view Text() {
    const std::string_view text = decoder_.Prefixed();
    ok_ = ok_ && decoder_.ok() && IsUtf8(text);
    return text;
  }

  Decoder decoder_;
  bool ok_ = true;
};

// Returns the value without its magic, version and checksum. Returns nothing if the value does not
// have a known version and a right checksum.
std::string_view BodyOf(std::string_view value) {
  if (!MayBeEnvelope(value) || value.size() < kEnvelopeMagic.size() + 1 + kCrcBytes) return {};
  const std::string_view body = value.substr(0, value.size() - kCrcBytes);
  const char version = body[kEnvelopeMagic.size()];
  if (version != kVersion && version != kVersionWithMore) return {};
  Decoder crc(value.substr(body.size()));
  if (crc.Little<std::uint32_t>() != Crc32(body)) return {};
  return body.substr(kEnvelopeMagic.size() + 1);
}

}  // namespace

std::string Envelope::Encode() const {
  std::string out(kEnvelopeMagic);
  const bool has_more = received_at.has_value() || !has_properties;
  out.push_back(has_more ? kVersionWithMore : kVersion);
  if (has_properties) {
    AppendProperties(&out, *this);
  } else {
    out.push_back(kEscape);
  }
  AppendText(&out, kPayload, payload);
  AppendLittle(&out, Crc32(out));
  return out;
}

bool Envelope::Decode(std::string_view value) {
  const std::string_view body = BodyOf(value);
  if (body.empty()) return false;
  auto users = std::move(user_properties);  // keeps the memory of both vectors
  auto ids = std::move(subscription_ids);
  users.clear();
  ids.clear();
  *this = Envelope();
  user_properties = std::move(users);
  subscription_ids = std::move(ids);
  return Fields(body).ReadAll(value[kEnvelopeMagic.size()], this);
}

std::string_view PayloadOf(std::string_view stored) {
  if (!MayBeEnvelope(stored)) return stored;
  Envelope envelope;
  return envelope.Decode(stored) ? envelope.payload : stored;
}

std::optional<std::string> EscapedValue(std::string_view value) {
  if (!MayBeEnvelope(value)) return std::nullopt;
  Envelope envelope;
  if (!envelope.Decode(value)) return std::nullopt;
  Envelope escape;
  escape.payload = value;
  escape.has_properties = false;
  return escape.Encode();
}

}  // namespace topicdb
